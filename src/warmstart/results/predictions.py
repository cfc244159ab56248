"""What a model says of one text: its class, its masked words, or how it continues."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Prediction:
    """The class of one text, and the probability of each class."""

    label: str
    probability: float
    probabilities: dict[str, float]

    def columns(self) -> dict[str, str | float]:
        """Return its values as columns of a table, probabilities to six digits."""
        shares = {f"probability_{name}": share for name, share in self.probabilities.items()}
        numbers = {"probability": self.probability, **shares}
        return {"label": self.label, **{name: round(value, 6) for name, value in numbers.items()}}


@dataclass(frozen=True)
class ProbableWord:
    """A word, or a piece of one, that may stand where a word is masked."""

    word: str
    probability: float


@dataclass(frozen=True)
class FilledText:
    """A text with its masked words restored, and the choices for each of them, best first."""

    text: str
    masks: tuple[tuple[ProbableWord, ...], ...]

    def line(self) -> str:
        """Return the choices on one line, with a tab between the masks."""
        return "\t".join(
            ", ".join(f"{choice.word} {choice.probability:.1%}" for choice in choices)
            for choices in self.masks
        )


@dataclass(frozen=True)
class GeneratedPiece:
    """The text that one more token adds; the last piece says why the text ends."""

    text: str  # may be empty: a token can be a part of a character
    end: Literal["stop", "length"] | None = None  # an end token, or no room for more
