"""A preset or run, and a job for it -> what the job will need.

Knows the order of things; each step is done elsewhere.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.insight.devices import DEVICES, Device, device_named, place_on
from warmstart.insight.job import Job
from warmstart.insight.measure import Measured, measure
from warmstart.insight.memory import Place, largest_rows
from warmstart.insight.plan import PAPER, USABLE, Plan, make_plan, place_of, room_of
from warmstart.runs.saved import run_folder
from warmstart.runtime import choose_runtime
from warmstart.settings.base import suggestion
from warmstart.settings.model import PRESETS, ModelConfig, apply_overrides, model_from_json
from warmstart.settings.planning import PlanConfig, PlannedObjective
from warmstart.settings.training import PretrainConfig, Tuning
from warmstart.settings.translation import TrainTranslatorConfig

# Steps, tokens a step and optimizer where none are given: those of the command that does the job.
DEFAULTS: dict[PlannedObjective, tuple[int, int, Literal["adamw", "muon"]]] = {
    "causal": (1000, 8192, "muon"),
    "masked": (1000, 8192, "muon"),
    "classify": (800, 4096, "adamw"),
    "translate": (20_000, 4096, "muon"),
}
MICRO_TOKENS: dict[PlannedObjective, int] = {
    "causal": PretrainConfig.micro_tokens,
    "masked": PretrainConfig.micro_tokens,
    "classify": Tuning.micro_tokens,
    "translate": TrainTranslatorConfig.micro_tokens,
}
SENTENCE = 64  # tokens on each side of a pair, where no length is given
OBJECTIVE_OF: dict[str, PlannedObjective] = {
    "causal": "causal",
    "masked": "masked",
    "base": "masked",
    "classifier": "classify",
    "translator": "translate",
}


def devices() -> dict[str, Device]:
    """Return the table of devices that `on` takes."""
    return DEVICES


def plan(config: PlanConfig) -> Plan:
    """Say what a job needs before it runs: FLOPs, memory, time."""
    if config.model is None:
        raise WarmstartError("MODEL is missing: name a preset or a run folder")
    job = planned_job(config, config.model)
    if config.on:
        device = device_named(config.on)
        place = place_on(device, config.precision)
        return make_plan(config.model, job, f"one {device.title}", place, device.memory, device)
    runtime = choose_runtime(config.device, config.precision, config.threads)
    where, room = room_of(runtime)
    place = place_of(runtime)
    found = _measured(config, job, place, room) if config.measure else None
    return make_plan(config.model, job, where, place, room, found)


def _measured(config: PlanConfig, job: Job, place: Place, room: int) -> Measured | None:
    rows = min(job.rows, job.micro_rows, largest_rows(job, place, round(USABLE * room)))
    if not rows:
        return None
    progress.say(f"measuring some steps, about {config.seconds:.0f} s")
    return measure(job, config, rows, config.seconds * 2 / 3)  # starting takes the rest


def planned_job(config: PlanConfig, name: str) -> Job:
    """Return the job that the settings describe."""
    shape, objective, labels = _shape(config, name)
    length = config.max_length or shape.max_length
    if objective == "translate" and config.max_length is None:
        length = min(SENTENCE, length)
    steps, tokens, optimizer = DEFAULTS[objective]
    if name in PAPER and objective == "translate":
        steps, tokens, _ = PAPER[name]
    row_tokens = length * (2 if objective == "translate" else 1)
    rows = max(1, (config.batch_tokens or tokens) // row_tokens)
    if config.tokens:
        steps = -(-config.tokens // (rows * row_tokens))  # upwards
    if config.optimizer == "muon" and objective == "classify":
        raise WarmstartError("--optimizer muon: classifiers are trained with adamw")
    return Job(
        model=shape,
        objective=objective,
        length=length,
        rows=rows,
        micro_rows=min(
            rows, max(1, (config.micro_tokens or MICRO_TOKENS[objective]) // row_tokens)
        ),
        steps=config.steps or steps,
        optimizer=config.optimizer or optimizer,
        labels=labels,
        mask_rate=config.mask_rate,
    )


def _shape(config: PlanConfig, name: str) -> tuple[ModelConfig, PlannedObjective, int]:
    labels, kind = config.labels, None
    if name in PRESETS:
        shape = PRESETS[name]
    elif Path(name).is_dir():
        folder = run_folder(name)
        run = folder.config()
        shape = model_from_json(run["model"], folder.config_file)
        kind = OBJECTIVE_OF.get(str(run.get("kind")))
        labels = len(run["classes"]) if "classes" in run else labels
    else:
        raise WarmstartError(
            f"{name!r} is neither a preset nor a run folder{suggestion(name, PRESETS)}"
        )
    shape = apply_overrides(shape, config)
    if config.vocab_size:
        shape = replace(shape, vocab_size=config.vocab_size, target_vocab_size=0)
    return _for_objective(shape, config.objective or kind, name, labels)


def _for_objective(
    shape: ModelConfig, objective: PlannedObjective | None, name: str, labels: int
) -> tuple[ModelConfig, PlannedObjective, int]:
    """Return the shape as the objective trains it."""
    if objective is None:
        if shape.decoder_depth:
            objective = "translate"
        else:
            objective = "masked" if shape.attention == "bidirectional" else "causal"
    if objective == "translate" and not shape.decoder_depth:  # as `train-translator` takes it
        depth = shape.depth
        shape = replace(shape, attention="bidirectional", pooler=False, segments=0)
        shape = replace(shape, decoder_depth=depth, shared=True)
    if objective != "translate" and shape.decoder_depth:
        raise WarmstartError(f"--objective {objective}: {name} is a translator; take translate")
    if objective == "causal":
        shape = replace(shape, attention="causal")
    if objective == "masked" and name in PRESETS:  # as `pretrain` builds it
        shape = replace(shape, attention="bidirectional", segments=2, pooler=True)
    elif objective == "masked":
        shape = replace(shape, attention="bidirectional")
    return shape, objective, labels
