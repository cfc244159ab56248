"""What a comparison measured: arms, cells, splits, shared texts; and its JSON form."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from warmstart.results.attention import AttentionMap

ArmKind = Literal["warm", "frozen", "cold", "baseline"]


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One pass over the labelled texts, and the validation scores after it."""

    epoch: int  # counts from 1
    train_loss: float
    valid_loss: float
    valid_accuracy: float
    valid_f1: float
    elapsed_s: float  # since the cell's training began


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One setting that was tried, scored on validation only."""

    setting: str  # "learning rate 0.001"
    valid_accuracy: float


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm trained on one label subset with one seed."""

    arm: str
    labels: int  # labelled training texts used
    seed: int
    setting: str  # the setting used, chosen on validation
    trials: tuple[Trial, ...]  # the settings tried; empty for seeds that reuse the tuned one
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
    """Held-out texts: their true classes, and the ones that were seen in training."""

    name: Literal["validation", "test"]
    file: str
    classes: tuple[int, ...]  # true class index of every text
    shared: tuple[int, ...]  # rows whose text also occurs in training or pretraining data

    @property
    def majority_share(self) -> float:
        """Return the accuracy of always predicting the most frequent class."""
        return max(Counter(self.classes).values(), default=0) / max(len(self.classes), 1)


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Texts that two files have in common."""

    a: str
    b: str
    distinct: int  # different texts found in both
    rows: int  # rows of b with one of these texts


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
    attainable: float | None  # best possible accuracy on the test file, where known

    @property
    def judge(self) -> Split:
        """Return the split that the scores are reported on: test when there is one."""
        return self.test or self.validation

    def predictions(self, cell: Cell) -> tuple[int, ...]:
        """Return a cell's predictions on the `judge` split."""
        return (
            cell.test_predictions if cell.test_predictions is not None else cell.valid_predictions
        )

    def cells_of(self, arm: str, labels: int) -> list[Cell]:
        """Return the cells of one arm at one subset, by seed."""
        cells = [cell for cell in self.cells if (cell.arm, cell.labels) == (arm, labels)]
        return sorted(cells, key=lambda cell: cell.seed)

    def groups(self) -> Iterator[tuple[Arm, int, list[Cell]]]:
        """Yield each arm that was run at each subset, with its cells by seed."""
        for labels in self.subsets:
            for arm in self.arms:
                cells = self.cells_of(arm.name, labels)
                if cells:
                    yield arm, labels, cells


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """A text that two models label differently."""

    text: str
    label: str  # the true one
    first: str  # the label one model predicted
    second: str


@dataclass(frozen=True, kw_only=True)
class AttentionExample:
    """Attention of several arms' models on one text."""

    row: int  # of the `judge` split
    label: str
    maps: Mapping[str, AttentionMap]  # by arm
    predictions: Mapping[str, str]  # the label each arm predicted


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One warm and one cold model, trained on all labels with the first seed."""

    warm: str  # names of the arms
    cold: str
    labels: int
    seed: int
    example: AttentionExample | None  # None: no text was short enough, or none was recorded
    disagreements: Sequence[Disagreement]
    num_texts: int  # of the `judge` split


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
