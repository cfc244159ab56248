"""What a job needs: operations, memory, time, and whether it fits; in figures and sentences.

Knows nothing about files; the time comes from a measurement or from the table of devices.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from warmstart.insight.devices import DEVICES, Device, place_on, step_seconds
from warmstart.insight.flops import Work, optimizer_work, row_work
from warmstart.insight.job import Job, outline
from warmstart.insight.measure import Measured
from warmstart.insight.memory import Memory, Place, largest_rows, step_memory
from warmstart.report.formats import counted
from warmstart.runtime import Runtime
from warmstart.settings.model import PRESETS
from warmstart.settings.translation import TrainTranslatorConfig

USABLE = 0.92  # of a device's memory; the rest is the driver's, the system's, or scattered
GIB = 1 << 30

# What the 2017 paper reports: steps, source and target tokens a step, hours on eight P100.
PAPER = {"vaswani-base": (100_000, 50_000, 12.0), "vaswani-big": (300_000, 50_000, 84.0)}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that can be said about a job before it runs."""

    name: str
    job: Job
    parameters: int
    work: tuple[Work, ...]  # of one row
    optimizer_flops: int  # of a step
    where: str
    place: Place
    room: int  # bytes of the device's memory
    memory: Memory
    largest_micro_tokens: int  # 0: not even one row fits
    step_s: float | None  # None: nothing was measured
    measured: Measured | None

    @property
    def token_flops(self) -> float:
        """Return the operations a token costs, forward and backward."""
        return sum(part.both for part in self.work) / self.job.row_tokens

    @property
    def step_flops(self) -> int:
        """Return the operations of an optimizer step."""
        return self.job.rows * sum(part.both for part in self.work) + self.optimizer_flops

    @property
    def fits(self) -> bool:
        """Tell whether the peak stays within what can be used of the memory."""
        return self.memory.peak <= USABLE * self.room

    @property
    def total_s(self) -> float | None:
        """Return the time of all steps."""
        return None if self.step_s is None else self.job.steps * self.step_s


def make_plan(
    name: str, job: Job, where: str, place: Place, room: int, timed: Measured | Device | None
) -> Plan:
    """Work a job out for one place; `timed` says where the time comes from."""
    if isinstance(timed, Device):
        step_s: float | None = step_seconds(job, timed, place)
    else:
        step_s = timed.step_s(job) if timed else None
    rows = largest_rows(job, place, round(USABLE * room))
    return Plan(
        name=name,
        job=job,
        parameters=sum(p.numel() for p in outline(job).parameters()),
        work=tuple(row_work(job)),
        optimizer_flops=optimizer_work(job),
        where=where,
        place=place,
        room=room,
        memory=step_memory(job, place, min(job.rows, job.micro_rows)),
        largest_micro_tokens=rows * job.row_tokens,
        step_s=step_s,
        measured=timed if isinstance(timed, Measured) else None,
    )


def place_of(runtime: Runtime) -> Place:
    """Return how this machine computes."""
    is_half = runtime.dtype is not None
    return Place("cuda" if runtime.device.type == "cuda" else "cpu", is_half)


def room_of(runtime: Runtime) -> tuple[str, int]:
    """Return the name and the bytes of memory of the device a job would run on."""
    if runtime.device.type == "cuda":
        found = torch.cuda.get_device_properties(runtime.device)
        return found.name, found.total_memory
    threads = counted(torch.get_num_threads(), "thread")
    return f"this machine's CPU, {threads}", _physical()


def _physical() -> int:
    """Return this machine's memory, or what a container leaves of it."""
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.exists() else "max"
    return min(room, int(text)) if text.isdecimal() else room


def sentences(plan: Plan) -> list[str]:
    """Say whether the job fits, how long it takes, and how that compares with the paper."""
    return [_fit(plan), *_time(plan), *_classic(plan)]


def _fit(plan: Plan) -> str:
    usable = USABLE * plan.room / GIB
    peak = f"{plan.memory.peak / GIB:.2f} GiB"
    room = f"{usable:.1f} GiB that can be used of {plan.room / GIB:.1f}"
    tokens = f"{min(plan.job.rows, plan.job.micro_rows) * plan.job.row_tokens:,}"
    if plan.fits:
        return (
            f"fits: {peak} at the peak, of {room}, with {tokens} tokens in a forward pass; the "
            f"largest --micro-tokens that fits is {plan.largest_micro_tokens:,}"
        )
    if plan.largest_micro_tokens:
        return (
            f"does not fit: {peak} at the peak, of {room}; lower --micro-tokens to "
            f"{plan.largest_micro_tokens:,}"
        )
    return f"does not fit: {peak} at the peak, of {room}, and a single row is too much already"


def _time(plan: Plan) -> list[str]:
    if plan.total_s is None or plan.step_s is None:
        return []
    steps, rate = counted(plan.job.steps, "step"), plan.job.step_tokens / plan.step_s
    attained = plan.step_flops / plan.step_s / 1e12
    basis = "by its data sheet" if plan.measured is None else "as measured"
    return [
        f"{long_time(plan.total_s)} for {steps} on {plan.where}, {basis}: {rate:,.0f} tokens/s, "
        f"{attained:.3g} TFLOP/s; validation and saving come on top"
    ]


def _classic(plan: Plan) -> list[str]:
    """Answer the classic question for the presets of the 2017 paper."""
    if plan.name not in PAPER or plan.job.objective != "translate":
        return []
    if plan.job.model != PRESETS[plan.name]:
        return []
    steps, tokens, hours = PAPER[plan.name]
    here = ""
    if plan.step_s is not None:
        is_same = tokens - plan.job.row_tokens < plan.job.step_tokens <= tokens
        seconds = plan.step_s * steps * (1.0 if is_same else tokens / plan.job.step_tokens)
        here = f"; on {plan.where}: {long_time(seconds)}"
    device = DEVICES["h200"]
    rows, micro_rows = (
        n // plan.job.row_tokens for n in (tokens, TrainTranslatorConfig.micro_tokens)
    )
    job = replace(plan.job, rows=rows, micro_rows=micro_rows)  # whatever was planned here
    other = step_seconds(job, device, place_on(device, "auto")) * steps
    there = "" if "one H200" in here else f"; on one H200: about {long_time(other)}"
    return [
        f"{plan.name} took 8 P100s {long_time(3600 * hours)} ({steps:,} steps of about {tokens:,} "
        f"source and target tokens){here}{there}"
    ]


def long_time(seconds: float) -> str:
    """Write a time in the unit people would plan with."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    for limit, size, unit in ((5400, 60, "minute"), (172_800, 3600, "hour")):
        if seconds < limit:
            number = f"{seconds / size:.2g}" if seconds / size < 10 else f"{seconds / size:.0f}"
            return f"{number} {unit}s"
    days = seconds / 86_400
    return f"{days:.2g} days" if days < 10 else f"{days:,.0f} days"
