"""Scores as they are compared, and as a reader sees them.

A higher score is better everywhere in a comparison. An error is compared as minus itself, and
written without the sign.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from numpy.typing import ArrayLike

from warmstart.evaluation.intervals import Interval, accuracy_interval, mean_interval
from warmstart.formats import percent, percent_range, points, significant

LEAST_ERROR = 1e-4  # of a share; a smaller one has no useful logarithm


class Scale(ABC):
    """What the scores of a task are: how they are written, bounded and read."""

    span: float  # the largest difference of two scores; 0: there is no such limit
    measure: str  # what differences are counted in
    unit: str  # the same after a number
    unit_note: str  # a sentence on it
    ahead: str  # "0.3 points above"
    behind: str  # "2 of 5 seeds are below"
    best_first: str  # how a ranking is ordered
    axis: str  # what a title says of the axis; may be empty
    small_lead: str  # a lead that counts as none, in words
    constant: str  # the answer that needs no text

    @abstractmethod
    def write(self, score: float) -> str:
        """Write a score."""

    @abstractmethod
    def write_range(self, low: float, high: float) -> str:
        """Write an interval of a score."""

    @abstractmethod
    def write_gain(self, difference: float, like: float | None = None) -> str:
        """Write a difference with its sign, without its unit; positive: the first is better.

        It has the decimal places of another difference.
        """

    @abstractmethod
    def write_spread(self, spread: float, score: float) -> str:
        """Write the standard deviation of a score."""

    @abstractmethod
    def write_other(self, score: float) -> str:
        """Write the other score that reports show."""

    @abstractmethod
    def interval(self, values: ArrayLike) -> Interval:
        """Return the mean of values, see `Estimate.of`, with its 95% interval."""

    @abstractmethod
    def error(self, score: float) -> float:
        """Return how far a score is from the best one; never 0."""

    @abstractmethod
    def negligible_lead(self, score: float) -> float:
        """Return the lead over a score that counts as none."""

    @abstractmethod
    def limits(self, values: Sequence[float]) -> tuple[float, float]:
        """Return the ends of an axis that shows some scores."""

    @abstractmethod
    def tick(self, score: float) -> str:
        """Write a score at an axis."""

    @abstractmethod
    def gain_tick(self, difference: float) -> str:
        """Write a difference at an axis."""

    @abstractmethod
    def difference_axis(self, metric: str) -> str:
        """Name the axis of differences."""

    @abstractmethod
    def difference_note(self, metric: str) -> str:
        """Say what a difference of two arms is."""

    def size(self, difference: float) -> str:
        """Write a difference without a plus sign, without its unit."""
        return self.write_gain(difference).removeprefix("+")

    def gain_range(self, low: float, high: float) -> str:
        """Write the interval of a difference with signs, without its unit."""
        largest = max(abs(low), abs(high))
        return f"{self.write_gain(low, largest)} to {self.write_gain(high, largest)}"

    def size_range(self, low: float, high: float) -> str:
        """Write the interval of a difference without plus signs, without its unit."""
        return self.gain_range(low, high).replace("+", "")


class Shares(Scale):
    """Scores from 0 to 1, written as percentages; a hundredth of the way is a point."""

    span = 1.0
    measure = unit = "points"
    unit_note = "A point is one percentage point."
    ahead, behind = "points above", "below"
    best_first = "highest first"
    axis = ""
    small_lead = "half a point"
    constant = "the most frequent class"

    def write(self, score: float) -> str:
        return percent(score)

    def write_range(self, low: float, high: float) -> str:
        return percent_range(low, high)

    def write_gain(self, difference: float, like: float | None = None) -> str:
        return points(difference)

    def write_spread(self, spread: float, score: float) -> str:
        return percent(spread)

    def write_other(self, score: float) -> str:
        return percent(score)

    def interval(self, values: ArrayLike) -> Interval:
        return accuracy_interval(values)

    def error(self, score: float) -> float:
        return max(1 - score, LEAST_ERROR)

    def negligible_lead(self, score: float) -> float:
        return 0.005

    def limits(self, values: Sequence[float]) -> tuple[float, float]:
        low, high = min(values), max(values)
        pad = max(0.07 * (high - low), (0.04 - (high - low)) / 2, 0.004)
        return max(low - pad, 0.0), min(high + pad, 1.0 + 0.3 * pad)

    def tick(self, score: float) -> str:
        return f"{round(100 * score, 2):g}%"

    def gain_tick(self, difference: float) -> str:
        value = 100 * difference
        return f"{round(value, 2):+g}".replace("-", "−") if abs(value) > 1e-6 else "0"

    def difference_axis(self, metric: str) -> str:
        return f"difference in {metric}, percentage points"

    def difference_note(self, metric: str) -> str:
        return f"The {metric} of the first arm minus that of the second"


class Errors(Scale):
    """Mean errors in the unit of the labels, compared as negative numbers."""

    span = 0.0
    ahead, behind = "below", "worse than"
    best_first = "lowest first"
    axis = " (axis inverted: up is better)"
    small_lead = "1%"

    def __init__(self, name: str, constant: str) -> None:
        self.measure, self.unit, self.constant = name, f"in {name}", constant
        self.unit_note = (
            f"{name} is in the unit of the labels, and lower is better. A difference is how much "
            "lower that of the first arm is."
        )

    def write(self, score: float) -> str:
        return significant(abs(score))

    def write_range(self, low: float, high: float) -> str:
        return f"{significant(abs(high), low)} to {significant(abs(low))}"

    def write_gain(self, difference: float, like: float | None = None) -> str:
        text = significant(difference, like)
        return f"+{text}" if difference > 0 and text.strip("0.") else text

    def write_spread(self, spread: float, score: float) -> str:
        return significant(spread, like=score)

    def write_other(self, score: float) -> str:
        return f"{score:.3f}"

    def interval(self, values: ArrayLike) -> Interval:
        return mean_interval(values)

    def error(self, score: float) -> float:
        return max(-score, 1e-300)

    def negligible_lead(self, score: float) -> float:
        return 0.01 * abs(score)

    def limits(self, values: Sequence[float]) -> tuple[float, float]:
        low, high = min(values), max(values)
        pad = max(0.07 * (high - low), 0.02 * abs(low), 1e-300)
        return low - pad, high + pad

    def tick(self, score: float) -> str:
        return f"{abs(score):.6g}"

    def gain_tick(self, difference: float) -> str:
        return f"{difference:+.6g}".replace("-", "−") if difference else "0"

    def difference_axis(self, metric: str) -> str:
        return f"by how much {metric} is lower"

    def difference_note(self, metric: str) -> str:
        return f"By how much the {metric} of the first arm is lower than that of the second"


SHARES = Shares()
