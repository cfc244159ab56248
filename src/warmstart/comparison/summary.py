"""What follows from a comparison, as plain values: scores, curves, differences, verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from warmstart.evaluation.intervals import Interval

Outcome = Literal["better", "worse", "none"]


@dataclass(frozen=True, kw_only=True)
class Score:
    """How one arm did on one set of texts, over its seeds."""

    num_texts: int
    num_seeds: int
    accuracy: float  # mean over seeds; of numbers, minus the mean absolute error
    spread: float  # standard deviation over seeds, 0 with one seed
    lowest: float  # the worst seed's accuracy
    highest: float  # the best seed's accuracy
    interval: Interval  # of the accuracy, over texts and seeds together
    f1: float | None  # macro F1, or the task's other score, mean over seeds; None: it has none


@dataclass(frozen=True, kw_only=True)
class ArmScore:
    """One arm at one label subset."""

    arm: str
    labels: int
    scored: Score  # on the scored split
    clean: Score | None  # without shared texts; None when none, or all, are shared
    choosing: Score  # on validation; `scored` where no text validates
    preference: float  # what arms are chosen by, the highest first


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """Validation after one epoch, over the seeds."""

    epoch: int  # counts from 1
    accuracy: float  # mean over seeds
    spread: float  # standard deviation over seeds, 0 with one seed
    lowest: float
    highest: float
    elapsed_s: float  # since training began, mean over seeds


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Validation accuracy by epoch of one arm at one subset; the baseline has none."""

    arm: str
    labels: int
    points: tuple[CurvePoint, ...]  # the epochs that every seed validated, rising
    best_epoch: int  # where the mean curve is highest; the first such epoch

    @property
    def best(self) -> CurvePoint:
        """Return the highest point of the mean curve."""
        return next(point for point in self.points if point.epoch == self.best_epoch)


@dataclass(frozen=True, kw_only=True)
class TimeToAccuracy:
    """When a warm arm reaches the best accuracy of a cold arm, on mean validation curves."""

    warm: str
    cold: str
    labels: int
    cold_best: float  # the accuracy to reach
    cold_best_epoch: int
    cold_best_s: float  # training time until then
    reached_epoch: int | None  # first epoch at which warm reaches it; None: never
    reached_s: float | None  # fine-tuning time until then
    reached_with_pretraining_s: float | None  # the same, pretraining included
    gaps: Mapping[int, float]  # warm minus cold after each epoch that both validated
    closed_epoch: int | None  # from here on the lead is at most half a point; None: open
    sentence: str = ""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Training time of one arm at one subset."""

    arm: str
    labels: int
    train_s: float  # of one seed, mean over seeds
    pretrain_s: float  # 0 without pretraining
    total_s: float  # training and pretraining


@dataclass(frozen=True, kw_only=True)
class LabelsSaved:
    """How many labels arms without pretraining need to match the best pretrained arm.

    A number of labels is text: "640", ">1,600" when the accuracy is never reached, "≤50" when it is
    reached at the smallest size, "100 to 5,000" when it is reached between sizes too far apart.
    """

    arm: str  # the pretrained arm that validation prefers with these labels
    labels: int
    accuracy: float  # reached with these labels, on the scored split
    unpretrained: tuple[str, ...]  # at each size, the best of them counts
    needed: str
    low: str  # of the 95% interval
    high: str
    size_to_add: int | None = None  # between sizes that are too far apart

    @property
    def has_interval(self) -> bool:
        """Tell whether the interval says more than the number."""
        return {self.needed} != {
            self.low,
            self.high,
        } and self.needed != f"{self.low} to {self.high}"

    @property
    def text(self) -> str:
        """Return the number with its interval, if it has one."""
        return f"{self.needed} ({self.low} to {self.high})" if self.has_interval else self.needed


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One arm minus another at one subset, on the same texts and seeds."""

    first: str
    second: str
    labels: int
    interval: Interval  # accuracy of the first minus accuracy of the second
    num_seeds: int  # on which both were run
    num_below: int  # seeds with which the first is below the second
    p_value: float  # of this difference alone; 1 with one seed, which shows nothing
    outcome: Outcome  # of the first; "none": no difference shown
    clean: Interval | None  # without shared texts; None when none, or all, are shared
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A difference that the findings state, judged together with their other differences."""

    first: str
    second: str
    labels: int
    p_value: float  # adjusted for the number of verdicts by Holm's rule
    outcome: Outcome  # by the adjusted p-value
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Which arm to use with all labels."""

    arm: str
    sentence: str  # one line


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Everything that follows from a comparison, ordered by arm within subset."""

    scored_split: str  # name of the split of all scores and differences
    advice: Advice
    findings: tuple[str, ...]  # the verdicts at the largest and smallest subset, and labels saved
    caveats: tuple[str, ...]  # what limits the verdicts; may be empty
    chance: float  # accuracy of always predicting the most frequent class of the scored split
    scores: tuple[ArmScore, ...]
    curves: tuple[Curve, ...]
    times_to_accuracy: tuple[TimeToAccuracy, ...]
    costs: tuple[Cost, ...]
    saved_over_best: tuple[LabelsSaved, ...]  # against the best arm without pretraining
    saved_over_cold: tuple[LabelsSaved, ...]  # against cold alone
    differences: tuple[Difference, ...]
    verdicts: tuple[Verdict, ...]

    def score(self, arm: str, labels: int) -> ArmScore | None:
        """Return the score of one arm at one subset, None when it was not run there."""
        scores = (score for score in self.scores if (score.arm, score.labels) == (arm, labels))
        return next(scores, None)

    def curve(self, arm: str, labels: int) -> Curve | None:
        """Return the curve of one arm at one subset, None for the baseline."""
        curves = (curve for curve in self.curves if (curve.arm, curve.labels) == (arm, labels))
        return next(curves, None)

    def preferred(self, labels: int) -> list[str]:
        """Return the arms at one subset, the best on validation first."""
        return rank_arms(self.scores, labels)


def rank_arms(scores: Sequence[ArmScore], labels: int) -> list[str]:
    """Return the arms at one subset, the best on validation first; equal ones in their order."""
    rows = [score for score in scores if score.labels == labels]
    return [row.arm for row in sorted(rows, key=lambda row: -row.preference)]
