"""What a run knows of itself besides its weights: validations, and how far it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.runs.facts import Figures

MOST_PARTS = 1 << 20  # of a batch: each has a row at least


@dataclass(frozen=True)
class Evaluation:
    """The result of one validation."""

    score: float  # higher is better
    figures: dict[str, float]
    note: str  # for the progress bar
    loss: float = 0.0  # among equal scores the lowest is best
    weights: Mapping[str, Tensor] = field(default_factory=dict)  # to keep in place of the model's

    def is_better_than(self, score: float | None, loss: float) -> bool:
        """Tell whether the score is higher than a former one, or as high with a lower loss."""
        return score is None or (self.score, -self.loss) > (score, -loss)


@dataclass
class State:
    """What a run remembers besides weights and optimizer."""

    step: int = 0  # optimizer steps done
    best_score: float | None = None
    best_loss: float = 0.0
    best_step: int = 0
    elapsed_s: float = 0.0  # training and validation, over all processes
    num_parts: int = 1  # that each batch is computed in; more after memory ran out
    loss_sum: float = 0.0  # training loss since the last evaluation
    loss_steps: int = 0
    evaluations: list[dict[str, float]] = field(default_factory=list)

    def add(self, figures: Mapping[str, float]) -> None:
        """Enter a validation after this step, with the mean training loss since the last one."""
        facts = {"train_loss": self.loss_sum / self.loss_steps, "elapsed_s": self.elapsed_s}
        self.evaluations.append({"step": self.step, **facts, **figures})
        self.loss_sum, self.loss_steps = 0.0, 0

    def fits(self, step: int) -> bool:
        """Tell whether a state that was read can be that of a step."""
        steps = [entry.get("step") for entry in self.evaluations]
        is_best_known = self.best_step in steps or not (steps or self.best_step)
        is_possible = self.loss_steps >= 0 and 1 <= self.num_parts <= MOST_PARTS
        return self.step == step and is_best_known and None not in steps and is_possible

    def best_scores(self) -> Figures:
        """Return the validation scores at the best step, by name."""
        best = next((e for e in self.evaluations if e["step"] == self.best_step), None)
        if best is None:
            raise WarmstartError(f"state.json has no validation of step {self.best_step}, the best")
        prefix = "valid_"
        scores = {k.removeprefix(prefix): v for k, v in best.items() if k.startswith(prefix)}
        return Figures(scores, Path("state.json"))
