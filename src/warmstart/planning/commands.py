"""The settings and commands of `params` and `plan`."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from warmstart.comparison.commands import CompareConfig
from warmstart.printing import print_json, print_table, say
from warmstart.settings.base import advanced, argument, option
from warmstart.settings.model import ArchitectureOverrides, Attention
from warmstart.settings.shared import Checkpoints, Destination, Machine, TrainingRun
from warmstart.settings.training import FinetuneConfig, PretrainConfig, TrainTranslatorConfig

if TYPE_CHECKING:
    from warmstart.planning.comparison import ComparisonPlan
    from warmstart.planning.plan import JobPlan
    from warmstart.tasks.task import TrainingJob

C = TypeVar("C", bound="PlanTraining")


class ParamsConfig(ArchitectureOverrides, panel="Model"):
    """An architecture in, its parameter counts out."""

    model: str = argument("preset or run folder")
    head: Literal["all", "lm", "classifier", "none"] = option("all: every pretraining head", "all")
    labels: int = option("classes of the classifier", 2, least=2)
    frozen: bool = option("count only the head as trainable", False)
    vocab_size: int | None = option("entries in the vocabulary", None, least=1)
    attention: Attention | None = option("which positions each one sees", None)
    segments: int | None = option("number of segment embeddings", None, least=0)
    pooler: bool | None = option("dense + tanh over the first position", None)
    transform: bool | None = option("dense + norm before the output weights", None)


class PlanOptions(Destination, Machine, panel="Saving"):
    """What `plan` takes besides the settings of the command that it plans."""

    on: str | None = option(
        "device to plan for instead of this machine; list: show them",
        None,
        metavar="NAME",
        panel="Machine",
        recorded=False,
    )
    measure: bool = option(
        "run some steps here to time them", True, panel="Machine", recorded=False
    )
    seconds: float = option(
        "time to measure, approximately", 30.0, above=0, panel="Machine", recorded=False
    )
    # Accepted, so that a command can be planned as it is written; nothing is saved.
    out: str = advanced("not written", "", short="-o", metavar="PATH", recorded=False)
    resume: bool = advanced("of no effect here", False, recorded=False)


class PlanTraining(PlanOptions, TrainingRun, panel="Saving"):
    """What `plan` takes besides the settings of a command that trains one model."""

    save_every: int = advanced("of no effect here", Checkpoints.save_every, least=1)


class PlanPretrainConfig(PlanTraining, PretrainConfig, panel="Training"):
    """A pretraining in; FLOPs, memory and time out."""

    files: tuple[str, ...] = argument("text, for the number of passes over it", ())


class PlanFinetuneConfig(PlanTraining, FinetuneConfig, panel="Training"):
    """A fine-tuning in; FLOPs, memory and time out."""

    train: tuple[str, ...] = option(
        "labelled texts, for the number of steps", (), panel="Input and output"
    )


class PlanTrainTranslatorConfig(PlanTraining, TrainTranslatorConfig, panel="Training"):
    """The training of a translator in; FLOPs, memory and time out."""

    needs_pairs = False


class PlanCompareConfig(PlanOptions, CompareConfig, panel="Training"):
    """A comparison in; its models, memory and time out."""


def short_for(model: str) -> tuple[str, str]:
    """Return the command that `plan` with a preset or run alone is short for, and its setting."""
    from warmstart.runs.saved import find_model
    from warmstart.tasks.registry import task_named

    architecture, run = find_model(model)
    if run is None:
        return "train-translator" if architecture.decoder_depth else "pretrain", "preset"
    task = task_named(str(run.config().get("task")))
    return "pretrain" if task.is_pretraining else task.command, "from"


def write_out(words: list[str]) -> list[str]:
    """Write `plan PRESET` or `plan RUN` as the command that it is short for."""
    if words[0] in ("pretrain", "finetune", "compare", "train-translator", "-h", "--help"):
        return words
    if words[0].startswith("-"):
        return ["pretrain", *words]
    command, key = short_for(words[0])
    return [command, f"--{key}", *words]


def count_parameters(config: ParamsConfig, as_json: bool) -> None:
    """Count the parameters of every layer, with formulas."""
    from warmstart.planning.params import HEADERS, count_parameters

    count = count_parameters(config)
    if as_json:
        print_json(asdict(count))
        return
    print_table(HEADERS, count.rows(), totals=count.totals())
    say(count.legend)
    if count.paper:
        say(f"{count.total:,} parameters: {count.paper}")
    say(f"{count.name} {count.export}")


def plan_pretrain(config: PlanPretrainConfig, as_json: bool) -> None:
    """Estimate FLOPs, memory and time of a pretraining, and whether it fits."""
    from warmstart.planning.plan import plan_pretrain as plan

    _print(config, as_json, plan)


def plan_finetune(config: PlanFinetuneConfig, as_json: bool) -> None:
    """Estimate FLOPs, memory and time of a fine-tuning, and whether it fits."""
    from warmstart.planning.plan import plan_finetune as plan

    _print(config, as_json, plan)


def plan_compare(config: PlanCompareConfig, as_json: bool) -> None:
    """Estimate models, memory and time of a comparison, and whether it fits."""
    if config.on == "list":
        _print_devices(as_json)
        return
    from warmstart.planning.comparison import plan_compare as plan

    planned = plan(config)
    if as_json:
        print_json(_comparison_json(planned))
    else:
        _print_comparison(planned)


def plan_train_translator(config: PlanTrainTranslatorConfig, as_json: bool) -> None:
    """Estimate FLOPs, memory and time of training a translator, and whether it fits."""
    from warmstart.planning.plan import plan_train_translator as plan

    _print(config, as_json, plan)


def _print(config: C, as_json: bool, plan: "Callable[[C], JobPlan]") -> None:
    """Print a plan, or the table of devices."""
    if config.on == "list":
        _print_devices(as_json)
    elif as_json:
        print_json(_plan_json(plan(config)))
    else:
        _print_plan(plan(config))


def _print_devices(as_json: bool) -> None:
    from warmstart.planning.devices import known_devices

    devices = known_devices()
    if as_json:
        print_json({name: asdict(device) for name, device in devices.items()})
        return
    rows = []
    for name, device in devices.items():
        numbers = (device.memory_gib, device.fp32_tflops, device.half_tflops, device.bandwidth_gb)
        cells = ("–" if number is None else f"{number:g}" for number in numbers)
        rows.append((name, device.title, *cells))
    headers = ("--on", "device", "memory, GiB", "fp32", "bf16 or fp16", "GB/s")
    print_table(headers, rows, "dense TFLOP/s and bandwidth, by data sheet")


def _print_plan(planned: "JobPlan") -> None:
    from warmstart.planning.memory import legend
    from warmstart.planning.plan import sentences

    job = planned.job
    headers = ("part", "formula", "forward", "forward + backward")
    rows = [(p.name, p.formula, *_per_token(job, p.forward, p.both)) for p in planned.work]
    forward, both = sum(p.forward for p in planned.work), sum(p.both for p in planned.work)
    totals = [("total", "", *_per_token(job, forward, both))]
    print_table(headers, rows, "FLOPs per token", totals)
    say(legend(job))
    totals = [(f"peak, at {planned.memory.moment}", "", _mib(planned.memory.peak))]
    rows = [(name, formula, _mib(size)) for name, formula, size in _memory_rows(planned)]
    print_table(("memory", "formula", "MiB"), rows, totals=totals)
    total = f": {planned.total_flops:.3g} FLOPs in all" if planned.total_flops else ""
    steps = f"{planned.steps:,} steps" if planned.steps else "steps"
    tokens = "on the head" if job.is_frozen else f"of {job.step_tokens:,} tokens"
    say(f"{planned.parameters:,} parameters; {steps} {tokens}{total}")
    for line in sentences(planned):
        say(line)


def _print_comparison(planned: "ComparisonPlan") -> None:
    from warmstart.formats import duration
    from warmstart.planning.comparison import sentences

    rows = []
    for arm in planned.arms:
        memory = _mib(arm.memory.peak) if arm.memory else "–"
        seconds = "–" if arm.seconds is None else duration(arm.seconds)
        rows.append((arm.name, f"{arm.num_models:,}", memory, seconds, ", ".join(arm.settings)))
    print_table(("arm", "models", "MiB at the peak", "time", "tried"), rows)
    for line in sentences(planned):
        say(line)


def _comparison_json(planned: "ComparisonPlan") -> dict[str, Any]:
    from warmstart.planning.comparison import sentences

    return {
        "command": "compare",
        "settings": planned.config.recorded(),
        "subsets": planned.subsets,
        "cells": planned.num_cells,
        "models": planned.num_models,
        "arms": [asdict(arm) for arm in planned.arms],
        "memory": {"peak": planned.peak, "room": planned.machine.memory},
        "where": planned.machine.title,
        "precision": planned.machine.target.precision,
        "fits": planned.fits,
        "time": {"total_s": planned.total_s},
        "sentences": sentences(planned),
    }


def _memory_rows(planned: "JobPlan") -> list[tuple[str, str, int]]:
    """Return name, formula and bytes of each part of the memory."""
    memory = planned.memory
    optimizer = "8P" if planned.job.optimizer == "adamw" else "8P, 4 for each of Muon's matrices"
    rows = [
        ("weights", "4P", memory.weights),
        ("gradients", "4P", memory.gradients),
        (f"optimizer ({planned.job.optimizer})", optimizer, memory.optimizer),
        (
            f"weights in {planned.machine.target.precision}",
            "2 for each in a block's matrices",
            memory.copies,
        ),
        ("activations", "saved for the backward pass", memory.activations),
        ("head and loss", "chunks of logits, their gradients", memory.loss),
        ("program", "libraries, scattered heap", memory.program),
    ]
    return [row for row in rows if row[2]]


def _per_token(job: "TrainingJob", *row_flops: float) -> list[str]:
    return [f"{flops / job.row_tokens / 1e6:,.3f}M" for flops in row_flops]


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f}"


def _plan_json(planned: "JobPlan") -> dict[str, Any]:
    from warmstart.planning.memory import optimizer_flops
    from warmstart.planning.plan import sentences

    job = planned.job
    return {
        "command": planned.planned.command,
        "settings": planned.settings,
        "parameters": planned.parameters,
        "job": asdict(job),
        "steps": planned.steps,
        "passes": planned.passes,
        "flops": {
            "per_token": {
                part.name: {
                    "formula": part.formula,
                    "forward": part.forward / job.row_tokens,
                    "forward_backward": part.both / job.row_tokens,
                }
                for part in planned.work
            },
            "per_token_in_all": planned.token_flops,
            "optimizer_per_step": optimizer_flops(job),
            "per_step": planned.step_flops,
            "in_all": planned.total_flops,
        },
        "memory": {**asdict(planned.memory), "room": planned.machine.memory},
        "where": planned.machine.title,
        "precision": planned.machine.target.precision,
        "fits": planned.fits,
        "largest_micro_tokens": planned.largest_micro_tokens,
        "time": {
            "step_s": planned.step_s,
            "total_s": planned.total_s,
            "tokens_per_s": job.step_tokens / planned.step_s if planned.step_s else None,
            "measured": asdict(planned.measured) if planned.measured else None,
        },
        "sentences": sentences(planned),
    }
