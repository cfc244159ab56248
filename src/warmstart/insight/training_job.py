"""A training job as numbers: which model, which batches, how many steps."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import nn

from warmstart.settings.model import model_from_json
from warmstart.tasks.registry import planned_tasks
from warmstart.tasks.workload import Workload, WorkloadShape


@dataclass(frozen=True, kw_only=True)
class TrainingJob(WorkloadShape):
    """A model to train, and how much data each step sees."""

    objective: str
    rows: int  # of one optimizer step
    micro_rows: int  # of one forward pass
    steps: int
    optimizer: Literal["adamw", "muon"]

    @property
    def workload(self) -> Workload:
        """Return what a step of its task computes."""
        return planned_tasks()[self.objective]

    @property
    def has_pairs(self) -> bool:
        """Tell whether a masked model also learns next-sentence prediction."""
        return self.workload.has_pairs(self.model)

    @property
    def row_tokens(self) -> int:
        """Return the tokens in a row."""
        return self.workload.sides * self.length

    @property
    def step_tokens(self) -> int:
        """Return the tokens of an optimizer step."""
        return self.rows * self.row_tokens

    @property
    def num_passes(self) -> int:
        """Return the forward passes of an optimizer step."""
        return -(-self.rows // self.micro_rows)

    def num_predictions(self, rows: int) -> int:
        """Return how many positions of these rows go through the head."""
        return self.workload.num_predictions(self, rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def job_from_json(data: dict[str, Any]) -> TrainingJob:
    """Rebuild a job from `to_json`."""
    return TrainingJob(**{**data, "model": model_from_json(data["model"])})


@lru_cache(maxsize=8)
def empty_model(job: TrainingJob) -> nn.Module:
    """Return the model of a job on the meta device, which takes no memory; do not change it."""
    with torch.device("meta"):
        return job.workload.build_model(job)
