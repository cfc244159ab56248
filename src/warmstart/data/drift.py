"""How new texts differ from those that a model was trained on."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TextFigures:
    """What is measured of new texts and of usual ones alike."""

    texts: int
    new_words: float  # share of the words that do not occur in the texts compared with
    median: float  # length
    long: float  # 95% of the texts are no longer
    labels: dict[str, float] | None  # share of the texts with each; None: labels are no classes
    unusual: float  # share of the texts


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The texts of a file beside those that a model was trained on."""

    file: str
    unit: str  # of lengths: words or characters, by the training texts
    new: TextFigures  # with the labels that the model predicts
    usual: TextFigures  # of training texts held out from the comparison, with their own labels


def new_word_share(texts: Iterable[Collection[str]], known: Collection[str]) -> float:
    """Return the share of the words of texts that are not among the known ones."""
    flags = [word not in known for words in texts for word in words]
    return sum(flags) / len(flags) if flags else 0.0
