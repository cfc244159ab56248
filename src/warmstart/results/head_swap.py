"""What a head replacement keeps, throws away and adds."""

from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, kw_only=True)
class Stage:
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
    backbone: tuple[Stage, ...]  # from the tokens up
    old_head: Stage
    new_head: Stage
    is_frozen: bool  # only the new head is trained

    @property
    def kept(self) -> int:
        """Return the parameters that the classifier starts with."""
        return sum(stage.total for stage in self.backbone)

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


def merged(stages: list[Stage]) -> tuple[Stage, ...]:
    """Return the stages with equal neighbours as one."""
    groups = (list(group) for _, group in groupby(stages, key=lambda s: (s.shapes, s.count)))
    return tuple(
        group[0]
        if len(group) == 1
        else Stage(
            name=f"{len(group)} blocks",
            shapes=group[0].shapes,
            count=group[0].count,
            times=len(group),
        )
        for group in groups
    )
