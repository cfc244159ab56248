"""The cadence of a run: how many steps, and when it logs, validates and saves."""

from dataclasses import dataclass
from typing import Any, Self

from warmstart.runs.facts import Length
from warmstart.settings.shared import Checkpoints

MIN_INTERVAL, NUM_VALIDATIONS = 200, 20  # by default; a GPU takes 200 steps in 3 seconds


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """The cadence of a run."""

    steps: int
    clip: float
    seed: int
    eval_every: int | None  # None: by the number of steps
    log_every: int
    save_every: int
    save_s: float
    keep: int
    keeps_last: bool = False  # the last validated weights are kept, not the best
    patience: int | None = None  # evaluations without a better one before it stops early
    lengths: tuple[Length, ...] = ()  # every number of steps it had; empty: `steps` alone

    def interval(self, steps: int) -> int:
        """Return the steps between two validations, in a training of so many."""
        return self.eval_every or max(MIN_INTERVAL, -(-steps // NUM_VALIDATIONS))

    @classmethod
    def of(cls, checkpoints: Checkpoints, **cadence: Any) -> Self:
        """Return the cadence of a run that is saved as its settings say."""
        return cls(
            save_every=checkpoints.save_every,
            save_s=60 * checkpoints.save_minutes,
            keep=checkpoints.keep,
            **cadence,
        )
