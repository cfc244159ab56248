"""What a model says of one text."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Prediction:
    """The class of one text, and the probability of each class."""

    label: str
    probability: float
    probabilities: dict[str, float]
