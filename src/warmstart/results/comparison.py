"""The result of a comparison as typed rows, and the JSON form they are kept in.

Never imports torch; knows nothing about how the figures were obtained.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

ArmKind = Literal["warm", "frozen", "cold", "baseline"]


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over the labelled texts, and what validation said after it."""

    epoch: int  # counts from 1
    train_loss: float
    valid_loss: float
    valid_accuracy: float
    valid_f1: float
    elapsed_s: float  # since the cell's training began


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One setting that was tried, judged on validation alone."""

    setting: str  # "learning rate 0.001"
    valid_accuracy: float


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm trained on one label subset with one seed."""

    arm: str
    labels: int  # labelled training texts used
    seed: int
    setting: str  # the setting used, chosen on validation
    trials: tuple[
        Trial, ...
    ]  # what was tried to choose it; empty when taken over from the tuned seed
    epochs: tuple[Epoch, ...]  # empty for the baseline
    best_epoch: int  # by validation; 0 for the baseline
    elapsed_s: float  # training time of this cell alone
    valid_predictions: tuple[int, ...]  # class index of every validation text
    test_predictions: tuple[int, ...] | None  # the same for test, scored once


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to get a classifier."""

    name: str  # "warm", "frozen", "cold", "tf-idf"; "warm: NAME" when several runs compete
    kind: ArmKind
    source: str | None  # the pretrained run it starts from
    parameters: int  # of the whole classifier; features + intercepts for the baseline
    trainable: int
    pretrain_s: float  # time its pretraining took, 0 without
    pretrain_tokens: int  # tokens its pretraining saw, 0 without
    cold: str | None = None  # the cold arm of its shape and tokenizer; None: any


@dataclass(frozen=True, kw_only=True)
class Split:
    """The texts that judge, with their true classes and the ones that are not clean."""

    name: Literal["validation", "test"]
    file: str
    classes: tuple[int, ...]  # true class index of every text
    shared: tuple[int, ...]  # rows whose text also stands in training or pretraining text


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Texts that two files have in common."""

    a: str
    b: str
    distinct: int  # different texts found in both
    rows: int  # rows of b that hold one of them


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything a comparison measured."""

    title: str
    train_file: str
    class_names: tuple[str, ...]
    class_counts: dict[str, int]  # in the full training file
    arms: tuple[Arm, ...]
    subsets: tuple[int, ...]  # label counts, rising; each subset contains the smaller ones
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    validation: Split
    test: Split | None
    overlaps: tuple[Overlap, ...]
    notes: tuple[str, ...]  # what was truncated or skipped, one sentence each
    attainable: float | None  # best accuracy possible in this world, where known

    @property
    def judge(self) -> Split:
        """The split whose figures count: test when there is one."""
        return self.test or self.validation

    def predictions(self, cell: Cell) -> tuple[int, ...]:
        """Return a cell's predictions on the split that judges."""
        return (
            cell.test_predictions if cell.test_predictions is not None else cell.valid_predictions
        )

    def cells_of(self, arm: str, labels: int) -> list[Cell]:
        """Return the cells of one arm at one subset, by seed."""
        found = [cell for cell in self.cells if (cell.arm, cell.labels) == (arm, labels)]
        return sorted(found, key=lambda cell: cell.seed)

    def groups(self) -> Iterator[tuple[Arm, int, list[Cell]]]:
        """Yield each arm that was run at each subset, with its cells by seed."""
        for labels in self.subsets:
            for arm in self.arms:
                cells = self.cells_of(arm.name, labels)
                if cells:
                    yield arm, labels, cells


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as plain JSON values."""
    return asdict(comparison)


def cell_from_json(data: dict[str, Any]) -> Cell:
    """Rebuild one cell from its JSON form."""
    return Cell(
        **{
            **data,
            "trials": tuple(Trial(**trial) for trial in data["trials"]),
            "epochs": tuple(Epoch(**epoch) for epoch in data["epochs"]),
            "valid_predictions": tuple(data["valid_predictions"]),
            "test_predictions": None
            if data["test_predictions"] is None
            else tuple(data["test_predictions"]),
        }
    )
