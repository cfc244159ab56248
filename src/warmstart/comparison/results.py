"""What a comparison measured, as plain values."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from warmstart.data.copies import SharedTexts
from warmstart.evaluation.scale import Scale
from warmstart.model.attention_weights import AttentionMap
from warmstart.tasks.fitting import Epoch
from warmstart.tasks.registry import finetuning_task

ArmKind = Literal["warm", "frozen", "cold", "baseline", "self"]
SplitName = Literal["validation", "test", "cross-validation"]
SKEWED = 1.5  # times the share of a class where all are equal


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
    values: tuple[float, ...]  # the best setting, or that of each half of validation
    settings: tuple[str, ...]  # the values as text
    temperature: float = 1.0  # that calibrates a model with the first of them


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm trained on one label subset with one seed."""

    arm: str
    labels: int  # labelled training texts used
    seed: int
    setting: str  # the setting used; several where halves of validation or folds differ
    epochs: tuple[Epoch, ...]  # empty for the baseline
    elapsed_s: float  # time to train one model, mean over folds
    predictions: dict[str, tuple[Any, ...]]  # answer to every text, by the name of its split
    margins: tuple[float, ...] = ()  # of the label of every text of a cross-validation
    pretraining: int = 0  # of the pretrainings of one recipe that its arm starts from


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to get a model."""

    name: str  # "warm", "frozen", "cold", "lsa", "tf-idf"; "warm: NAME" with several runs
    kind: ArmKind
    description: str = ""  # for the reader of a report
    source: str | None = None  # the pretrained run it starts from
    parameters: int = 0  # of the whole model; 0 for the baseline
    trainable: int = 0
    pretrain_s: float = 0.0  # time its pretraining took
    pretrain_tokens: int = 0  # tokens its pretraining saw
    cold: str | None = None  # the cold arm with its architecture and tokenizer; None: any
    pretrainings: tuple[str, ...] = ()  # runs of one recipe, `source` first; empty: only that


@dataclass(frozen=True, kw_only=True)
class Split:
    """Held-out texts: their true answers, and the texts that occur in other data."""

    name: SplitName
    file: str
    classes: tuple[Any, ...]  # true answer to every text: of a classifier, the index of its class
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
        return max(self._counts.values(), default=0) / max(len(self.classes), 1)

    @property
    def is_skewed(self) -> bool:
        """Tell whether the most frequent class is half as frequent again as in equal classes."""
        return self.majority_share * len(self._counts) >= SKEWED

    @property
    def _counts(self) -> Counter[str]:
        return Counter(map(str, self.classes))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything a comparison measured."""

    title: str
    train_file: str
    class_names: tuple[str, ...]  # empty: the task has none
    class_counts: dict[str, int]  # in the full training file
    arms: tuple[Arm, ...]
    subsets: tuple[int, ...]  # label counts, rising; each subset contains the smaller ones
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    tuned: tuple[TunedArm, ...]  # of arms that tried more than one setting
    splits: tuple[Split, ...]  # the one that arms are chosen by, then test, if there is one
    overlaps: tuple[SharedTexts, ...]
    num_truncated: int  # scored texts of which a Transformer reads only a part
    notes: tuple[str, ...]  # what was truncated or skipped, one sentence each
    attainable: float | None  # best possible accuracy on the test file, where known
    left_out: str | None = None  # what a limit of time left out
    num_labelled: int | None = None  # labels that subsets are drawn from; None: not known
    scored_labels: int = 0  # of the largest subset, that its models are trained on
    final_labels: int = 0  # that the model of the arm to use is then trained on; 0: it is not
    num_choosing: int = 0  # labels that choose settings and arms on top of those of the subsets
    task: str = "classify"
    metric: str = "accuracy"  # the score that arms are compared by, in words

    @property
    def scale(self) -> Scale:
        """Return how scores are written and read."""
        return finetuning_task(self.task).scale

    def chance(self, split: Split) -> float:
        """Return the score of always giving the best answer that needs no text."""
        return finetuning_task(self.task).chance(split.classes)

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
        return self.scored_split.name == "test"

    @property
    def is_refitted(self) -> bool:
        """Tell whether the texts that chose the settings were trained on, so none validates."""
        return self.has_test and len(self.splits) == 1

    @property
    def num_folds(self) -> int | None:
        """Return the number of folds of a cross-validation; None without one."""
        return self.scored_split.num_folds

    @property
    def is_tuned(self) -> bool:
        """Tell whether every arm has tried settings, so that their best scores can be compared."""
        return {arm.name for arm in self.arms} <= {tuned.arm for tuned in self.tuned}

    @property
    def chosen_on(self) -> str:
        """Say on which texts the best arms were chosen."""
        if self.is_refitted:
            return "on labels set aside" if self.is_tuned else "by their order"
        return self.choosing_split.where if self.num_folds else "on validation"

    def predictions(self, cell: Cell) -> tuple[Any, ...]:
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

    @property
    def self_trained(self) -> tuple[str, ...]:
        """Return the names of the arms that label unlabelled texts for themselves."""
        return self.arm_names("self")

    def opponents(self, name: str) -> list[str]:
        """Return the arms without pretraining that a pretrained arm has to beat."""
        cold = self.arm(name).cold
        arms = (arm for arm in self.arms if arm.kind in ("cold", "baseline"))
        return [a.name for a in arms if a.kind == "baseline" or cold in (None, a.name)]

    @property
    def baselines(self) -> tuple[str, ...]:
        """Return the names of the cheap arms that a Transformer has to beat."""
        return self.arm_names("baseline")

    def cells_of(self, arm: str, labels: int) -> list[Cell]:
        """Return the cells of one arm at one subset, by seed."""
        cells = [cell for cell in self.cells if (cell.arm, cell.labels) == (arm, labels)]
        return sorted(cells, key=lambda cell: (cell.pretraining, cell.seed))

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
    label: str  # the true label
    first: str  # the label one model predicted
    second: str


@dataclass(frozen=True, kw_only=True)
class AttentionExample:
    """Attention on one text of the kept models, trained on all labels."""

    row: int  # of the scored split
    label: str
    labels: int  # that the models were trained on
    maps: Mapping[str, AttentionMap]  # by arm
    predictions: Mapping[str, str]  # the label each arm predicted
    is_right_or_wrong: bool = True  # False: a label is only nearer or farther


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Two models trained on all labels with the first seed, and the texts they disagree on."""

    first: str  # names of the arms
    second: str
    labels: int
    seed: int
    disagreements: Sequence[Disagreement]
    num_texts: int  # of the scored split
    chosen_on: str = "on validation"  # where the two arms did best


def pool_pretrainings(comparison: Comparison, recipes: Mapping[str, object]) -> Comparison:
    """Return the comparison with one arm for all runs of one recipe, named after the first.

    `recipes` has the recipe of every run; the runs of one recipe differ only in their seeds.
    """
    pooled: dict[object, list[Arm]] = {}
    for arm in comparison.arms:
        key = (arm.kind, recipes[arm.source]) if arm.source else arm.name
        pooled.setdefault(key, []).append(arm)
    places = {arm.name: (arms[0].name, i) for arms in pooled.values() for i, arm in enumerate(arms)}
    runs = {arms[0].name: tuple(str(arm.source) for arm in arms) for arms in pooled.values()}
    cells = []
    for cell in comparison.cells:
        name, number = places[cell.arm]
        cells.append(replace(cell, arm=name, pretraining=number))
    return replace(
        comparison,
        arms=tuple(
            replace(arms[0], pretrainings=runs[arms[0].name]) if len(arms) > 1 else arms[0]
            for arms in pooled.values()
        ),
        cells=tuple(cells),
        tuned=tuple(replace(tuned, arm=places[tuned.arm][0]) for tuned in comparison.tuned),
    )
