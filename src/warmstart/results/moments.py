"""What a model predicts at several moments of its training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from warmstart.results.predictions import ProbableWord

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """The most probable words at one moment, best first."""

    name: str  # "random weights", "step 40", "trained"
    words: tuple[ProbableWord, ...]


@dataclass(frozen=True, kw_only=True)
class TrainingMoments:
    """Predictions of one text from random weights to the trained ones."""

    run: str
    text: str
    moments: tuple[Moment, ...]

    @property
    def sentence(self) -> str:
        """Return the first choice before and after training, without a full stop."""
        (before, after) = (self.moments[index].words[0] for index in (0, -1))
        return (
            f"first choice: {before.word!r} ({before.probability:.1%}) with random weights, "
            f"{after.word!r} ({after.probability:.1%}) trained"
        )


def spaced(values: Sequence[T], num: int) -> list[T]:
    """Return at most `num` values at equal distances, the last one included."""
    if len(values) <= num:
        return list(values)
    return [values[len(values) * (index + 1) // num - 1] for index in range(num)]
