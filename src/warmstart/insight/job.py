"""A training job as numbers: which model, which batches, how many steps.

Knows nothing about machines or costs.
"""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import nn

from warmstart.model.models import Classifier, LanguageModel, Translator
from warmstart.settings.model import ModelConfig, model_from_json
from warmstart.settings.planning import PlannedObjective

Model = Classifier | LanguageModel | Translator


@dataclass(frozen=True, kw_only=True)
class Job:
    """What would be trained, and on how much in each step."""

    model: ModelConfig
    objective: PlannedObjective
    length: int  # tokens in a row; with two sides, on each
    rows: int  # of one optimizer step
    micro_rows: int  # of one forward pass
    steps: int
    optimizer: Literal["adamw", "muon"]
    labels: int = 2  # of a classifier
    mask_rate: float = 0.15  # of a masked model

    @property
    def sides(self) -> int:
        """Return how many texts a row holds: a translator's has a source and a target."""
        return 2 if self.objective == "translate" else 1

    @property
    def has_pairs(self) -> bool:
        """Tell whether a masked model judges pairs of segments too."""
        return self.objective == "masked" and self.model.segments > 1

    @property
    def row_tokens(self) -> int:
        """Return the tokens in a row."""
        return self.sides * self.length

    @property
    def step_tokens(self) -> int:
        """Return the tokens an optimizer step sees."""
        return self.rows * self.row_tokens

    @property
    def micros(self) -> int:
        """Return the forward passes of an optimizer step."""
        return -(-self.rows // self.micro_rows)

    @property
    def is_compiled(self) -> bool:
        """Tell whether its command compiles the backbone on a GPU unless told otherwise."""
        return self.objective in ("causal", "masked")

    def predictions(self, rows: int) -> int:
        """Return how many positions of some rows go through the head."""
        if self.objective == "classify":
            return rows
        if self.objective == "masked":
            return rows * max(1, round(self.mask_rate * self.length))
        return rows * self.length

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def job_from_json(data: dict[str, Any]) -> Job:
    """Rebuild a job."""
    return Job(**{**data, "model": model_from_json(data["model"])})


def build_model(job: Job) -> Model:
    """Return the model of a job with starting weights."""
    if job.objective == "translate":
        return Translator(job.model)
    if job.objective == "classify":
        return Classifier(job.model, job.labels, "mean", 0.1)
    return LanguageModel(job.model, job.has_pairs)


@lru_cache(maxsize=8)
def outline(job: Job) -> nn.Module:
    """Return the model of a job without memory for its weights; not to be changed."""
    with torch.device("meta"):
        return build_model(job)
