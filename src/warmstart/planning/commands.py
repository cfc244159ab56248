"""The settings and commands of `params` and `plan`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from warmstart.printing import print_json, print_table, say
from warmstart.settings.base import argument, option
from warmstart.settings.model import ArchitectureOverrides, Attention
from warmstart.settings.shared import Machine, Optimizer

if TYPE_CHECKING:
    from warmstart.planning.devices import Device
    from warmstart.planning.job import TrainingJob
    from warmstart.planning.plan import JobPlan


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


class PlanConfig(ArchitectureOverrides, Machine, panel="Training"):
    """An architecture and a job in; FLOPs, memory and time out."""

    model: str | None = argument("preset or run folder", None)
    objective: str | None = option(
        "causal, masked, classify or translate; default: by model", None, metavar="NAME"
    )
    vocab_size: int | None = option("entries in the vocabulary", None, least=1, panel="Model")
    labels: int = option("classes of a classifier", 2, least=2, panel="Model")
    batch_tokens: int | None = option("tokens per step; default: by objective", None, least=2)
    micro_tokens: int | None = option("per forward pass; default: by objective", None, least=2)
    steps: int | None = option("default: by objective", None, least=1, excludes=("tokens",))
    tokens: int | None = option("tokens to train on, instead of --steps", None, least=1)
    mask_rate: float = option("masked: share of tokens masked", 0.15, above=0, most=1)
    optimizer: Optimizer | None = option("default: by objective", None)
    on: str | None = option(
        "device to plan for instead of this machine; list: show them",
        None,
        metavar="NAME",
        panel="Machine",
    )
    measure: bool = option("run some steps here to measure the time", True, panel="Machine")
    seconds: float = option("time to measure, approximately", 30.0, above=0, panel="Machine")


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


def plan(config: PlanConfig, as_json: bool) -> None:
    """Estimate FLOPs, memory and time of a job, and whether it fits."""
    from warmstart.planning import plan as recipe

    if config.on == "list":
        _print_devices(recipe.devices(), as_json)
        return
    planned = recipe.plan(config)
    if as_json:
        print_json(_plan_json(planned))
    else:
        _print_plan(planned)


def _print_devices(devices: "dict[str, Device]", as_json: bool) -> None:
    if as_json:
        print_json({name: asdict(device) for name, device in devices.items()})
        return
    rows = []
    for name, device in devices.items():
        numbers = (device.memory_gib, device.fp32_tflops, device.bf16_tflops, device.bandwidth_gb)
        cells = ("–" if number is None else f"{number:g}" for number in numbers)
        rows.append((name, device.title, *cells))
    headers = ("--on", "device", "memory, GiB", "fp32", "bf16", "GB/s")
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
    say(
        f"{planned.parameters:,} parameters; {job.steps:,} steps of {job.step_tokens:,} tokens: "
        f"{job.steps * planned.step_flops:.3g} FLOPs in all"
    )
    for line in sentences(planned):
        say(line)


def _memory_rows(planned: "JobPlan") -> list[tuple[str, str, int]]:
    """Return name, formula and bytes of each part of the memory."""
    memory, half = planned.memory, planned.machine.target.is_bf16
    optimizer = "8P" if planned.job.optimizer == "adamw" else "8P, 4 for each of Muon's matrices"
    rows = [
        ("weights", "4P", memory.weights),
        ("gradients", "4P", memory.gradients),
        (f"optimizer ({planned.job.optimizer})", optimizer, memory.optimizer),
        ("weights in bf16", "2 for each in a block's matrices", memory.copies),
        ("activations", "saved for the backward pass", memory.activations),
        ("head and loss", "chunks of logits, their gradients", memory.loss),
        ("program", "libraries, scattered heap", memory.program),
    ]
    return [row for row in rows if row[2] and (half or row[0] != "weights in bf16")]


def _per_token(job: "TrainingJob", *row_flops: float) -> list[str]:
    return [f"{flops / job.row_tokens / 1e6:,.3f}M" for flops in row_flops]


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f}"


def _plan_json(planned: "JobPlan") -> dict[str, Any]:
    from warmstart.planning.plan import sentences

    job = planned.job
    return {
        "model": planned.name,
        "parameters": planned.parameters,
        "job": job.to_json(),
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
            "optimizer_per_step": planned.optimizer_flops,
            "per_step": planned.step_flops,
            "in_all": job.steps * planned.step_flops,
        },
        "memory": {**asdict(planned.memory), "room": planned.machine.memory},
        "where": planned.machine.title,
        "precision": "bf16" if planned.machine.target.is_bf16 else "fp32",
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
