"""Turn the settings of `plan` into a job: the defaults are those of the command that trains it."""

from dataclasses import replace

from warmstart.errors import WarmstartError
from warmstart.insight.named_model import find_model
from warmstart.insight.training_job import TrainingJob
from warmstart.runs.folder import RunFolder
from warmstart.settings.architecture import apply_overrides
from warmstart.settings.base import choose
from warmstart.settings.model import ModelConfig
from warmstart.settings.planning import PlanConfig
from warmstart.tasks.registry import planned_tasks, task_named
from warmstart.tasks.workload import Workload

# The 2017 paper: steps, source and target tokens per step, hours on eight P100s.
PAPER = {"vaswani-base": (100_000, 50_000, 12.0), "vaswani-big": (300_000, 50_000, 84.0)}


def planned_job(config: PlanConfig, name: str) -> TrainingJob:
    """Return the job that the settings describe."""
    shape, folder = find_model(name)
    run = folder.config() if folder else {}
    shape = apply_overrides(shape, config)
    if config.vocab_size:
        shape = replace(shape, vocab_size=config.vocab_size, target_vocab_size=0)
    workload = _workload(config, folder, shape)
    if shape.decoder_depth and not workload.has_decoder:
        raise WarmstartError(
            f"--objective {workload.objective}: {name} is a translator; take translate"
        )
    shape = workload.architecture(shape, is_preset=folder is None)
    length = config.max_length or workload.default_length(shape)
    steps, tokens = workload.steps, workload.batch_tokens
    if name in PAPER and workload.has_decoder:
        steps, tokens, _ = PAPER[name]
    row_tokens = workload.sides * length
    rows = max(1, (config.batch_tokens or tokens) // row_tokens)
    if config.tokens:
        steps = -(-config.tokens // (rows * row_tokens))  # rounded up
    optimizer = config.optimizer or workload.optimizers[0]
    if optimizer not in workload.optimizers:
        raise WarmstartError(
            f"--optimizer {optimizer}: --objective {workload.objective} is trained with "
            f"{' or '.join(workload.optimizers)}"
        )
    micro_tokens = config.micro_tokens or workload.micro_tokens
    return TrainingJob(
        model=shape,
        objective=workload.objective,
        length=length,
        rows=rows,
        micro_rows=min(rows, max(1, micro_tokens // row_tokens)),
        steps=config.steps or steps,
        optimizer="muon" if optimizer == "muon" else "adamw",
        labels=len(run["classes"]) if "classes" in run else config.labels,
        mask_rate=config.mask_rate,
    )


def _workload(config: PlanConfig, folder: RunFolder | None, model: ModelConfig) -> Workload:
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
