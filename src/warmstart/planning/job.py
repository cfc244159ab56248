"""A training job as numbers: which model, which batches, how many steps."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import nn

from warmstart.errors import WarmstartError
from warmstart.planning.commands import PlanConfig
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import find_model
from warmstart.settings.base import choose
from warmstart.settings.model import (
    ModelConfig,
    apply_overrides,
    model_from_json,
    override,
)
from warmstart.tasks.registry import planned_tasks, task_named
from warmstart.tasks.task import Workload, WorkloadShape


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
        return planned_tasks()[self.objective]

    @property
    def row_tokens(self) -> int:
        return self.workload.sides * self.length

    @property
    def step_tokens(self) -> int:
        return self.rows * self.row_tokens

    @property
    def num_passes(self) -> int:
        """Return the forward passes of an optimizer step."""
        return -(-self.rows // self.micro_rows)

    @property
    def head_vocab_size(self) -> int:
        """Return the number of logits per prediction; 0 without a vocabulary head."""
        if not self.workload.has_vocabulary_head:
            return 0
        return self.model.target_vocab_size or self.model.vocab_size

    def num_predictions(self, rows: int) -> int:
        """Return how many positions of these rows go through the head."""
        return self.workload.num_predictions(self, rows)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def job_from_json(data: dict[str, Any]) -> TrainingJob:
    """Rebuild a job from `to_json`."""
    return TrainingJob(**{**data, "model": model_from_json(data["model"])})


@lru_cache(maxsize=8)
def empty_model(job: TrainingJob) -> nn.Module:
    """Return the model of a job on the meta device, which takes no memory; do not change it."""
    with torch.device("meta"):
        return job.workload.build_model(job)


def planned_job(config: PlanConfig, name: str) -> TrainingJob:
    """Return the job that the settings describe; the defaults are those of its command."""
    shape, folder = find_model(name)
    shape = apply_overrides(shape, config)
    if config.vocab_size:
        shape = override(shape, {"vocab_size": config.vocab_size, "target_vocab_size": 0})
    workload = _choose_workload(config, folder, shape)
    if shape.decoder_depth and not workload.has_decoder:
        raise WarmstartError(
            f"--objective {workload.objective}: {name} is a translator; take translate"
        )
    shape = workload.architecture(shape, is_preset=folder is None)
    length = config.max_length or workload.default_length(shape)
    steps, row_tokens = workload.steps, workload.sides * length
    rows = max(1, (config.batch_tokens or workload.batch_tokens) // row_tokens)
    if config.tokens:
        steps = -(-config.tokens // (rows * row_tokens))  # rounded up
    optimizer = config.optimizer or workload.optimizers[0]
    if optimizer not in workload.optimizers:
        raise WarmstartError(
            f"--optimizer {optimizer}: --objective {workload.objective} is trained with "
            f"{' or '.join(workload.optimizers)}"
        )
    classes = folder.config().get("classes") if folder else None
    micro_tokens = config.micro_tokens or workload.micro_tokens
    return TrainingJob(
        model=shape,
        objective=workload.objective,
        length=length,
        rows=rows,
        micro_rows=min(rows, max(1, micro_tokens // row_tokens)),
        steps=config.steps or steps,
        optimizer="muon" if optimizer == "muon" else "adamw",
        labels=len(classes) if classes else config.labels,
        mask_rate=config.mask_rate,
    )


def _choose_workload(config: PlanConfig, folder: RunFolder | None, model: ModelConfig) -> Workload:
    """Return the workload asked for, the run's own, or the usual one of the architecture."""
    planned = planned_tasks()
    if config.objective:
        return choose(planned, config.objective, "--objective")
    if folder:
        workload = task_named(str(folder.config().get("task"))).workload
        if workload is None:
            raise WarmstartError(f"{folder.path}: plan cannot estimate this kind of training")
        return workload
    return next(workload for workload in planned.values() if workload.suits(model))
