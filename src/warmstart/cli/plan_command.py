"""The command `plan`: call the recipe, print tables and sentences."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from warmstart.cli.options import Command
from warmstart.cli.printing import new_table, print_json, say
from warmstart.settings.looking import PlanConfig

if TYPE_CHECKING:
    from warmstart.insight.devices import Device
    from warmstart.insight.job_plan import JobPlan


def plan(config: PlanConfig, as_json: bool) -> None:
    """Estimate FLOPs, memory and time of a job, and whether it fits."""
    from warmstart.recipes import plan as recipe

    if config.on == "list":
        _print_devices(recipe.devices(), as_json)
        return
    planned = recipe.plan(config)
    if as_json:
        print_json(_as_json(planned))
    else:
        _print_plan(planned)


def _print_devices(devices: "dict[str, Device]", as_json: bool) -> None:
    if as_json:
        print_json({name: asdict(device) for name, device in devices.items()})
        return
    table = new_table("--on", "device", "memory, GiB", "fp32", "bf16", "GB/s")
    table.title = "dense TFLOP/s and bandwidth, by data sheet"
    for name, device in devices.items():
        bf16 = "–" if device.bf16_tflops is None else f"{device.bf16_tflops:g}"
        cells = (
            f"{device.memory_gib:g}",
            f"{device.fp32_tflops:g}",
            bf16,
            f"{device.bandwidth_gb:g}",
        )
        table.add_row(name, device.title, *cells)
    Console().print(table)


def _print_plan(planned: "JobPlan") -> None:
    from warmstart.insight.flops import legend
    from warmstart.insight.job_plan import sentences

    table = new_table("part", "formula", "forward", "forward + backward")
    table.title = "FLOPs per token"
    for part in planned.work:
        each = planned.job.row_tokens
        table.add_row(part.name, part.formula, *_flops(part.forward / each, part.both / each))
    table.add_section()
    forward = sum(part.forward for part in planned.work) / planned.job.row_tokens
    table.add_row("total", "", *_flops(forward, planned.token_flops), style="bold")
    Console().print(table)
    say(legend(planned.job))
    table = new_table("memory", "formula", "MiB")
    for name, formula, size in _memory_rows(planned):
        table.add_row(name, formula, f"{size / 2**20:,.0f}")
    table.add_section()
    peak = f"{planned.memory.peak / 2**20:,.0f}"
    table.add_row(f"peak, at {planned.memory.moment}", "", peak, style="bold")
    Console().print(table)
    job = planned.job
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


def _flops(*numbers: float) -> tuple[str, ...]:
    return tuple(f"{number / 1e6:,.3f}M" for number in numbers)


def _as_json(planned: "JobPlan") -> dict[str, Any]:
    from warmstart.insight.job_plan import sentences

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


COMMANDS = (Command("plan", "Look inside", plan, "vaswani-base --on rtx-4090"),)
