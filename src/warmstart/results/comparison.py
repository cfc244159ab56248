"""What a comparison measured: arms, cells, splits, shared texts; and its JSON form."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from warmstart.results.attention import AttentionMap
from warmstart.results.data import SharedTexts

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

    name: str  # "warm", "frozen", "cold", "tf-idf"; "warm: NAME" with several runs
    kind: ArmKind
    source: str | None = None  # the pretrained run it starts from
    parameters: int = 0  # of the whole classifier; 0 for the baseline
    trainable: int = 0
    pretrain_s: float = 0.0  # time its pretraining took
    pretrain_tokens: int = 0  # tokens its pretraining saw
    cold: str | None = None  # the cold arm with its architecture and tokenizer; None: any


@dataclass(frozen=True, kw_only=True)
class Split:
    """Held-out texts: their true classes, and the ones that occur in other data."""

    name: Literal["validation", "test"]
    file: str
    classes: tuple[int, ...]  # true class index of every text
    shared: tuple[int, ...]  # rows that are copies or near-copies of data used before

    @property
    def majority_share(self) -> float:
        """Return the accuracy of always predicting the most frequent class."""
        return max(Counter(self.classes).values(), default=0) / max(len(self.classes), 1)


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
    overlaps: tuple[SharedTexts, ...]
    notes: tuple[str, ...]  # what was truncated or skipped, one sentence each
    attainable: float | None  # best possible accuracy on the test file, where known

    @property
    def scored_split(self) -> Split:
        """Return the split that the scores are reported on: test when there is one."""
        return self.test or self.validation

    def predictions(self, cell: Cell) -> tuple[int, ...]:
        """Return a cell's predictions on the scored split."""
        tested = cell.test_predictions
        return cell.valid_predictions if tested is None else tested

    def arm_names(self, *kinds: ArmKind) -> tuple[str, ...]:
        """Return the names of the arms of these kinds."""
        return tuple(arm.name for arm in self.arms if arm.kind in kinds)

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

    row: int  # of the scored split
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
    num_texts: int  # of the scored split


def cell_from_json(data: dict[str, Any]) -> Cell:
    """Rebuild one cell from its JSON form."""
    tested = data["test_predictions"]
    tuples = {
        "trials": tuple(Trial(**trial) for trial in data["trials"]),
        "epochs": tuple(Epoch(**epoch) for epoch in data["epochs"]),
        "valid_predictions": tuple(data["valid_predictions"]),
        "test_predictions": None if tested is None else tuple(tested),
    }
    return Cell(**{**data, **tuples})
