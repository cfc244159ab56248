"""What `look` shows of trainings: parts left out, predictions over time, heads replaced."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TypeVar

from warmstart.results.predictions import ProbableWord

T = TypeVar("T")


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


@dataclass(frozen=True, kw_only=True)
class ModelPart:
    """One part of a model, as a box in a picture: its matrices, and how many parameters it has."""

    name: str
    shapes: tuple[str, ...]  # of its layers, as products of sizes
    count: int  # of one of them
    times: int = 1  # equal parts on top of each other

    @property
    def total(self) -> int:
        """Return the parameters of all equal parts."""
        return self.count * self.times


@dataclass(frozen=True, kw_only=True)
class HeadSwap:
    """A pretrained model and the classifier that starts from it."""

    name: str  # preset or run
    backbone: tuple[ModelPart, ...]  # from the tokens up
    old_head: ModelPart
    new_head: ModelPart
    is_frozen: bool  # only the new head is trained

    @property
    def kept(self) -> int:
        """Return the parameters that the classifier starts with."""
        return sum(part.total for part in self.backbone)

    @property
    def trainable(self) -> int:
        """Return the parameters that fine-tuning changes."""
        return self.new_head.total + (0 if self.is_frozen else self.kept)

    @property
    def sentence(self) -> str:
        """Return the three counts, without a full stop."""
        trained = "only the head is trained" if self.is_frozen else "all are trained"
        return (
            f"{self.kept:,} parameters are kept, {self.old_head.total:,} thrown away, "
            f"{self.new_head.total:,} added: {self.kept + self.new_head.total:,} in all, of which "
            f"{self.trainable:,} are trained ({trained})"
        )


def merged(parts: list[ModelPart]) -> tuple[ModelPart, ...]:
    """Return the parts with equal neighbours as one."""
    groups = (list(group) for _, group in groupby(parts, key=lambda s: (s.shapes, s.count)))
    return tuple(
        group[0]
        if len(group) == 1
        else ModelPart(
            name=f"{len(group)} blocks",
            shapes=group[0].shapes,
            count=group[0].count,
            times=len(group),
        )
        for group in groups
    )
