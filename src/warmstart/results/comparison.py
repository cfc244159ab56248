"""What a comparison measured: arms, cells, splits, shared texts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from warmstart.results.attention_weights import AttentionMap
from warmstart.results.data_report import SharedTexts

ArmKind = Literal["warm", "frozen", "cold", "baseline", "blend"]
SplitName = Literal["validation", "test", "cross-validation"]


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
class TunedArm:
    """The settings tried for one arm at one subset, with a seed that is not reported."""

    arm: str
    labels: int
    trials: tuple[Trial, ...]
    fold: int | None = None  # of a cross-validation, from 1
    values: tuple[float, ...]  # the best one, or the best one of each half of validation
    settings: tuple[str, ...]  # the same as text


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm trained on one label subset with one seed."""

    arm: str
    labels: int  # labelled training texts used
    seed: int
    setting: str  # the setting used; several where halves of validation or folds differ
    epochs: tuple[Epoch, ...]  # empty for the baseline
    elapsed_s: float  # time to train one model, mean over folds
    predictions: dict[str, tuple[int, ...]]  # class of every text, by the name of its split


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to get a classifier."""

    name: str  # "warm", "frozen", "cold", "tf-idf", "blend"; "warm: NAME" with several runs
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

    name: SplitName
    file: str
    classes: tuple[int, ...]  # true class index of every text
    shared: tuple[int, ...]  # rows that are copies or near-copies of data used before
    num_folds: int | None = None  # of a cross-validation

    @property
    def where(self) -> str:
        """Say where scores come from."""
        if self.num_folds:
            return f"in {self.num_folds}-fold cross-validation"
        return "on test" if self.name == "test" else "on validation (cross-fitted)"

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
    tuned: tuple[TunedArm, ...]  # empty when only one setting was tried
    splits: tuple[Split, ...]  # what arms are chosen by, then test; one if there is no test
    overlaps: tuple[SharedTexts, ...]
    num_truncated: int  # scored texts of which a Transformer reads only a part
    notes: tuple[str, ...]  # what was truncated or skipped, one sentence each
    attainable: float | None  # best possible accuracy on the test file, where known
    left_out: str | None = None  # what a limit of time left out

    @property
    def scored_split(self) -> Split:
        """Return the split that the scores are reported on: test when there is one."""
        return self.splits[-1]

    @property
    def choosing_split(self) -> Split:
        """Return the split that arms are chosen by."""
        return self.splits[0]

    @property
    def has_test(self) -> bool:
        """Tell whether arms are scored on texts that they are not chosen by."""
        return len(self.splits) > 1

    @property
    def num_folds(self) -> int | None:
        """Return the number of folds of a cross-validation; None without one."""
        return self.scored_split.num_folds

    @property
    def chosen_on(self) -> str:
        """Say where the arms did best that are named as the best."""
        return self.choosing_split.where if self.num_folds else "on validation"

    def predictions(self, cell: Cell) -> tuple[int, ...]:
        """Return a cell's predictions on the scored split."""
        return cell.predictions[self.scored_split.name]

    def arm(self, name: str) -> Arm:
        """Return the arm of this name."""
        return next(arm for arm in self.arms if arm.name == name)

    def arm_names(self, *kinds: ArmKind) -> tuple[str, ...]:
        """Return the names of the arms of these kinds."""
        return tuple(arm.name for arm in self.arms if arm.kind in kinds)

    @property
    def pretrained(self) -> tuple[str, ...]:
        """Return the names of the arms that start from a pretrained run."""
        return self.arm_names("warm", "frozen")

    def opponents(self, name: str) -> list[str]:
        """Return the arms without pretraining that a pretrained arm has to beat."""
        cold = self.arm(name).cold
        arms = (arm for arm in self.arms if arm.kind in ("cold", "baseline"))
        return [a.name for a in arms if a.kind == "baseline" or cold in (None, a.name)]

    def members(self, name: str) -> list[str]:
        """Return the arms that a blend is made of."""
        warm = [a.name for a in self.arms if a.kind == "warm" and a.source == self.arm(name).source]
        return [*warm, *self.arm_names("baseline")]

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
    """Attention on one text of models trained on all labels with the first seed."""

    row: int  # of the scored split
    label: str
    labels: int  # that the models were trained on
    seed: int
    maps: Mapping[str, AttentionMap]  # by arm
    predictions: Mapping[str, str]  # the label each arm predicted


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Two models trained on all labels with the first seed, and the texts they disagree on."""

    first: str  # names of the arms
    second: str
    labels: int
    seed: int
    disagreements: Sequence[Disagreement]
    num_texts: int  # of the scored split
    chosen_on: str = "on validation"  # where they did best
