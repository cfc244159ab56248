"""What a model says of one text."""

from dataclasses import dataclass


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
