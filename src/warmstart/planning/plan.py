"""What a job costs, and whether it fits."""

import os
from dataclasses import dataclass
from math import inf
from pathlib import Path

import torch

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.planning.commands import PlanConfig
from warmstart.planning.devices import GIB, Device, known_devices, step_seconds, target_on
from warmstart.planning.job import TrainingJob, empty_model, planned_job
from warmstart.planning.memory import (
    ComputeTarget,
    PartFlops,
    StepMemory,
    largest_rows,
    optimizer_flops,
    row_flops,
    step_memory,
)
from warmstart.planning.timing import StepTiming, time_steps
from warmstart.runtime import Runtime, choose_runtime
from warmstart.settings.base import choose

USABLE_SHARE = 0.92  # of a device's memory; the rest goes to driver, system and fragmentation


@dataclass(frozen=True)
class PlannedMachine:
    """The machine that a job is planned for."""

    title: str
    target: ComputeTarget
    memory: int  # bytes

    @property
    def usable(self) -> int:
        return round(USABLE_SHARE * self.memory)


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """What a job needs, known before it runs."""

    name: str
    job: TrainingJob
    machine: PlannedMachine
    parameters: int
    work: tuple[PartFlops, ...]  # of one row
    optimizer_flops: int  # of a step
    memory: StepMemory
    largest_micro_tokens: int  # 0: not even one row fits
    step_s: float | None  # None: nothing was measured
    measured: StepTiming | None

    @property
    def token_flops(self) -> float:
        """Return the operations per token, forward and backward."""
        return sum(part.both for part in self.work) / self.job.row_tokens

    @property
    def step_flops(self) -> int:
        return self.job.rows * sum(part.both for part in self.work) + self.optimizer_flops

    @property
    def fits(self) -> bool:
        return self.memory.peak <= self.machine.usable

    @property
    def total_s(self) -> float | None:
        return None if self.step_s is None else self.job.steps * self.step_s


def make_plan(
    name: str, job: TrainingJob, machine: PlannedMachine, timing: StepTiming | Device | None
) -> JobPlan:
    """Plan a job for a machine; its time comes from a measurement or a data sheet."""
    if isinstance(timing, Device):
        step_s: float | None = step_seconds(job, timing, machine.target)
    else:
        step_s = timing.step_s(job) if timing else None
    return JobPlan(
        name=name,
        job=job,
        machine=machine,
        parameters=sum(p.numel() for p in empty_model(job).parameters()),
        work=tuple(row_flops(job)),
        optimizer_flops=optimizer_flops(job),
        memory=step_memory(job, machine.target),
        largest_micro_tokens=largest_rows(job, machine.target, machine.usable) * job.row_tokens,
        step_s=step_s,
        measured=timing if isinstance(timing, StepTiming) else None,
    )


def this_machine(runtime: Runtime) -> PlannedMachine:
    """Return the machine that this process runs on."""
    is_bf16 = runtime.dtype is not None
    if runtime.device.type == "cuda":
        properties = torch.cuda.get_device_properties(runtime.device)
        target = ComputeTarget("cuda", is_bf16)
        return PlannedMachine(properties.name, target, properties.total_memory)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit_file = Path("/sys/fs/cgroup/memory.max")  # of a container
    limit = limit_file.read_text().strip() if limit_file.exists() else "max"
    if limit.isdecimal():
        memory = min(memory, int(limit))
    title = f"this machine's CPU, {counted(torch.get_num_threads(), 'thread')}"
    return PlannedMachine(title, ComputeTarget("cpu", is_bf16), memory)


def sentences(plan: JobPlan) -> list[str]:
    """Say whether the job fits, and how long it takes."""
    lines = [_fit_sentence(plan)]
    if plan.total_s is not None and plan.step_s is not None:
        steps, rate = counted(plan.job.steps, "step"), plan.job.step_tokens / plan.step_s
        attained = plan.step_flops / plan.step_s / 1e12
        basis = "by its data sheet" if plan.measured is None else "as measured"
        lines.append(
            f"{long_time(plan.total_s)} for {steps} on {plan.machine.title}, {basis}: {rate:,.0f} "
            f"tokens/s, {attained:.3g} TFLOP/s, without validation and saving"
        )
    return lines


def _fit_sentence(plan: JobPlan) -> str:
    usable = f"{plan.machine.usable / GIB:.1f} of {plan.machine.memory / GIB:.1f} GiB usable"
    need = f"{plan.memory.peak / GIB:.2f} GiB at the peak, {usable}"
    tokens = f"{plan.job.micro_rows * plan.job.row_tokens:,}"
    if plan.fits:
        return (
            f"fits: {need}, with {tokens} tokens in a forward pass; the largest --micro-tokens "
            f"that fits is {plan.largest_micro_tokens:,}"
        )
    if plan.largest_micro_tokens:
        return f"does not fit: {need}; lower --micro-tokens to {plan.largest_micro_tokens:,}"
    return f"does not fit: {need}; even a single row is too much"


def long_time(seconds: float) -> str:
    """Write a duration in seconds, minutes, hours or days."""
    units = ((90, 1, "s"), (5400, 60, "minutes"), (172_800, 3600, "hours"), (inf, 86_400, "days"))
    size, unit = next((size, unit) for limit, size, unit in units if seconds < limit)
    number = seconds / size
    return f"{number:.2g} {unit}" if number < 10 else f"{number:,.0f} {unit}"


MEASURED_SHARE = 2 / 3  # of the time given; starting takes the rest


def devices() -> dict[str, Device]:
    """Return the table of devices that `on` takes."""
    return known_devices()


def plan(config: PlanConfig) -> JobPlan:
    """Say what a job needs before it runs: FLOPs, memory, time."""
    if config.model is None:
        raise WarmstartError("MODEL is missing: name a preset or a run folder")
    job = planned_job(config, config.model)
    if config.on:
        device = choose(known_devices(), config.on, "--on")
        target = target_on(device, config.precision)
        machine = PlannedMachine(f"one {device.title}", target, round(device.memory_gib * GIB))
        return make_plan(config.model, job, machine, device)
    machine = this_machine(choose_runtime(config.device, config.precision, config.threads))
    timing = None
    rows = min(job.micro_rows, largest_rows(job, machine.target, machine.usable))
    if config.measure and rows:
        progress.say(f"measuring training steps for about {config.seconds:.0f} s")
        timing = time_steps(job, config, MEASURED_SHARE * config.seconds, rows)
    return make_plan(config.model, job, machine, timing)
