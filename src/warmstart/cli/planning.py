"""The command `plan`: call the recipe, print tables and sentences.

Recipes are imported inside, so that help appears at once.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from warmstart.cli.options import Command
from warmstart.cli.printing import new_table, print_json, say
from warmstart.settings.planning import PlanConfig

if TYPE_CHECKING:
    from warmstart.insight.devices import Device
    from warmstart.insight.plan import Plan

GIB = 1 << 30


def plan(config: PlanConfig, as_json: bool) -> None:
    """Say what a job needs before it runs: FLOPs, memory, time, and whether it fits."""
    from warmstart.recipes import plan as recipe

    if config.on == "list":
        _print_devices(recipe.devices(), as_json)
        return
    found = recipe.plan(config)
    if as_json:
        print_json(_as_json(found))
    else:
        _print_plan(found)


def _print_devices(devices: "dict[str, Device]", as_json: bool) -> None:
    if as_json:
        print_json({name: asdict(device) for name, device in devices.items()})
        return
    table = new_table("--on", "device", "memory, GiB", "fp32", "bf16", "GB/s")
    table.title = "dense TFLOP/s and bandwidth, by data sheet"
    for name, one in devices.items():
        bf16 = "–" if one.bf16_tflops is None else f"{one.bf16_tflops:g}"
        cells = (f"{one.memory_gib:g}", f"{one.fp32_tflops:g}", bf16, f"{one.bandwidth_gb:g}")
        table.add_row(name, one.title, *cells)
    Console().print(table)


def _print_plan(found: "Plan") -> None:
    from warmstart.insight.flops import legend
    from warmstart.insight.plan import sentences

    table = new_table("part", "formula", "forward", "forward + backward")
    table.title = "FLOPs per token"
    for part in found.work:
        each = found.job.row_tokens
        table.add_row(part.name, part.formula, *_flops(part.forward / each, part.both / each))
    table.add_section()
    forward = sum(part.forward for part in found.work) / found.job.row_tokens
    table.add_row("total", "", *_flops(forward, found.token_flops), style="bold")
    Console().print(table)
    say(legend(found.job))
    table = new_table("memory", "formula", "MiB")
    for name, formula, size in memory_rows(found):
        table.add_row(name, formula, f"{size / 2**20:,.0f}")
    table.add_section()
    peak = f"{found.memory.peak / 2**20:,.0f}"
    table.add_row(f"peak, at {found.memory.moment}", "", peak, style="bold")
    Console().print(table)
    job = found.job
    say(
        f"{found.parameters:,} parameters; {job.steps:,} steps of {job.step_tokens:,} tokens: "
        f"{job.steps * found.step_flops:.3g} FLOPs in all"
    )
    for line in sentences(found):
        say(line)


def memory_rows(found: "Plan") -> list[tuple[str, str, int]]:
    """Return name, formula and bytes of each part of the memory."""
    memory, half = found.memory, found.place.is_half
    optimizer = "8P" if found.job.optimizer == "adamw" else "8P, 4 for each of Muon's matrices"
    rows = [
        ("weights", "4P", memory.weights),
        ("gradients", "4P", memory.gradients),
        (f"optimizer ({found.job.optimizer})", optimizer, memory.optimizer),
        ("weights in bf16", "2 for each in a block's matrices", memory.copies),
        ("activations", "kept for the backward pass", memory.activations),
        ("head and loss", "logits in pieces, their gradients", memory.loss),
        ("program", "libraries, scattered heap", memory.program),
    ]
    return [row for row in rows if row[2] and (half or row[0] != "weights in bf16")]


def _flops(*numbers: float) -> tuple[str, ...]:
    return tuple(f"{number / 1e6:,.3f}M" for number in numbers)


def _as_json(found: "Plan") -> dict[str, Any]:
    from warmstart.insight.plan import sentences

    job = found.job
    return {
        "model": found.name,
        "parameters": found.parameters,
        "job": job.to_json(),
        "flops": {
            "per_token": {
                part.name: {
                    "formula": part.formula,
                    "forward": part.forward / job.row_tokens,
                    "forward_backward": part.both / job.row_tokens,
                }
                for part in found.work
            },
            "per_token_in_all": found.token_flops,
            "optimizer_per_step": found.optimizer_flops,
            "per_step": found.step_flops,
            "in_all": job.steps * found.step_flops,
        },
        "memory": {**asdict(found.memory), "room": found.room},
        "where": found.where,
        "precision": "bf16" if found.place.is_half else "fp32",
        "fits": found.fits,
        "largest_micro_tokens": found.largest_micro_tokens,
        "time": {
            "step_s": found.step_s,
            "total_s": found.total_s,
            "tokens_per_s": job.step_tokens / found.step_s if found.step_s else None,
            "measured": asdict(found.measured) if found.measured else None,
        },
        "sentences": sentences(found),
    }


COMMANDS = (
    Command(
        "plan",
        PlanConfig,
        plan,
        "warmstart plan vaswani-base --on rtx-4090",
        has_json=True,
    ),
)
