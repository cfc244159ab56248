"""What models lack without one of their parts: trainings side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class AblatedTraining:
    """One training with a part left out."""

    part: str  # that was left out; "nothing": the whole model
    seed: int
    steps: tuple[int, ...]
    losses: tuple[float, ...]  # of validation, after these steps
    written: str = ""  # text that the model generated; empty: it cannot
    known_pairs: float | None = None  # share of neighbouring words in it that the text has too
    failure: str | None = None  # why it ended early


@dataclass(frozen=True, kw_only=True)
class Variant:
    """All trainings with the same part left out, one for each seed."""

    part: str  # that was left out; "nothing": the whole model
    trainings: tuple[AblatedTraining, ...]

    @property
    def name(self) -> str:
        return "whole" if self.part == "nothing" else f"without {self.part}"

    @cached_property
    def finished(self) -> list[AblatedTraining]:
        return [training for training in self.trainings if training.failure is None]

    @property
    def perplexities(self) -> list[float]:
        """Return the validation perplexity that each finished training ended with."""
        return [math.exp(training.losses[-1]) for training in self.finished]

    @property
    def known_pairs(self) -> list[float]:
        """Return the share of known word pairs in what each finished model wrote."""
        shares = (training.known_pairs for training in self.finished)
        return [share for share in shares if share is not None]


def variants_of(trainings: Sequence[AblatedTraining]) -> list[Variant]:
    """Group trainings by the part left out, in the order of their first occurrence."""
    parts = dict.fromkeys(training.part for training in trainings)
    return [
        Variant(part=part, trainings=tuple(t for t in trainings if t.part == part))
        for part in parts
    ]
