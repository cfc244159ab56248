"""What a training command costs on a machine, and whether it fits."""

import sys
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import torch

from warmstart import progress
from warmstart.formats import quantity
from warmstart.planning.commands import (
    PlanFinetuneConfig,
    PlanOptions,
    PlanPretrainConfig,
    PlanTrainTranslatorConfig,
    short_for,
)
from warmstart.planning.devices import GIB, Device, known_devices, step_seconds, target_on
from warmstart.planning.job import (
    PlannedCommand,
    planned_finetuning,
    planned_pretraining,
    planned_translator,
)
from warmstart.planning.memory import (
    ComputeTarget,
    PartFlops,
    StepMemory,
    empty_model,
    largest_rows,
    optimizer_flops,
    row_flops,
    step_memory,
)
from warmstart.planning.timing import StepTiming, time_steps
from warmstart.report.html import Shown
from warmstart.runtime import Runtime, choose_runtime, total_memory
from warmstart.settings.base import choose
from warmstart.tasks.task import TrainingJob

USABLE_SHARE = 0.92  # of a device's memory; the rest goes to driver, system and fragmentation
MEASURED_SHARE = 2 / 3  # of the time given; starting takes the rest
UNCOUNTED = ("shard", "checkpoint_activations", "processes")  # settings that plan leaves out
SHOWN = (  # settings of a planned command that are shown
    *("objective", "task", "preset", "from", "max_length", "batch_tokens", "batch_size"),
    *("micro_tokens", "mask_rate", "optimizer", "learning_rate", "consistency", "epochs"),
    *("steps", "tokens", "minutes"),
)


@dataclass(frozen=True)
class PlannedMachine:
    """The machine that a job is planned for."""

    title: str
    target: ComputeTarget
    memory: int  # bytes
    sheet: Device | None = None  # None: this machine

    @property
    def usable(self) -> int:
        return round(USABLE_SHARE * self.memory)


@dataclass(frozen=True)
class JobPlan(Shown):
    """What a training command needs, known before it runs."""

    planned: PlannedCommand
    machine: PlannedMachine
    measured: StepTiming | None = None  # None: by the data sheet, or not at all

    @property
    def job(self) -> TrainingJob:
        return self.planned.job

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the command, with its defaults."""
        return self.planned.settings.recorded()

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in empty_model(self.job).parameters())

    @cached_property
    def work(self) -> list[PartFlops]:
        """Return the operations of one row, part by part."""
        return row_flops(self.job)

    @cached_property
    def memory(self) -> StepMemory:
        return step_memory(self.job, self.machine.target)

    @cached_property
    def largest_micro_tokens(self) -> int:
        """Return the most tokens of a forward pass that fit; 0: not even one row does."""
        rows = largest_rows(self.job, self.machine.target, self.machine.usable)
        return rows * self.job.row_tokens

    @property
    def token_flops(self) -> float:
        """Return the operations per token, forward and backward."""
        return sum(part.both for part in self.work) / self.job.row_tokens

    @property
    def step_flops(self) -> int:
        return self.job.rows * sum(part.both for part in self.work) + optimizer_flops(self.job)

    @property
    def fits(self) -> bool:
        return self.memory.peak <= self.machine.usable

    @cached_property
    def step_s(self) -> float | None:
        """Return the time of a step by the data sheet, or as measured; None: neither."""
        if self.machine.sheet:
            return step_seconds(self.job, self.machine.sheet, self.machine.target)
        return self.measured.step_s(self.job) if self.measured else None

    @property
    def steps(self) -> int | None:
        """Return the number of steps, or as many as fit into the minutes; None: not known."""
        steps, minutes = self.planned.steps, self.planned.minutes
        if minutes is None or self.job.is_frozen:  # only reading takes time
            return steps
        if self.step_s is None:
            return None
        fitting = max(1, int(60 * minutes / self.step_s))
        return fitting if steps is None else min(steps, fitting)

    @property
    def passes(self) -> float | None:
        """Return how often the data is read; None: not known."""
        if self.steps is None or self.planned.epoch_steps is None:
            return None
        return self.steps / self.planned.epoch_steps

    @property
    def num_timed(self) -> float | None:
        """Return how often the work of a step is done; a frozen backbone reads each text once."""
        return self.planned.num_read / self.job.rows or None if self.job.is_frozen else self.steps

    @property
    def total_s(self) -> float | None:
        return self.num_timed and self.step_s and self.num_timed * self.step_s

    @property
    def total_flops(self) -> float | None:
        return self.num_timed and self.num_timed * self.step_flops

    def pieces(self) -> list[str]:
        return sentences(self)


def plan_pretrain(config: PlanPretrainConfig) -> JobPlan:
    """Say what a pretraining needs before it runs: FLOPs, memory, time."""
    machine = choose_machine(config)
    return make_plan(config, planned_pretraining(config, machine.target.device), machine)


def plan_finetune(config: PlanFinetuneConfig) -> JobPlan:
    """Say what a fine-tuning needs before it runs: FLOPs, memory, time."""
    machine = choose_machine(config)
    return make_plan(config, planned_finetuning(config, machine.target.device), machine)


def plan_train_translator(config: PlanTrainTranslatorConfig) -> JobPlan:
    """Say what training a translator needs before it runs: FLOPs, memory, time."""
    machine = choose_machine(config)
    return make_plan(config, planned_translator(config, machine.target.device), machine)


PLANS: dict[str, tuple[type[PlanOptions], Any]] = {
    "pretrain": (PlanPretrainConfig, plan_pretrain),
    "finetune": (PlanFinetuneConfig, plan_finetune),
    "train-translator": (PlanTrainTranslatorConfig, plan_train_translator),
}


def plan(model: str, **settings: Any) -> JobPlan:
    """Plan the training of a preset or run by the command that trains it, with its settings."""
    command, key = short_for(model)
    settings_class, recipe = PLANS[command]
    result: JobPlan = recipe(settings_class.from_values({key: model, **settings}))
    return result


def make_plan(config: PlanOptions, planned: PlannedCommand, machine: PlannedMachine) -> JobPlan:
    """Plan a command for a machine; measure steps if it is this machine."""
    empty_model(planned.job)  # refuses what cannot be planned
    if machine.sheet or not config.measure:
        return JobPlan(planned, machine)
    job = planned.job
    rows = min(job.micro_rows, largest_rows(job, machine.target, machine.usable))
    if not rows:
        return JobPlan(planned, machine)
    progress.say(f"measuring training steps for about {config.seconds:.0f} s")
    timing = time_steps(job, config, MEASURED_SHARE * config.seconds, rows)
    return JobPlan(planned, machine, timing)


def choose_machine(config: PlanOptions) -> PlannedMachine:
    """Return the device of --on, or the machine that this process runs on."""
    if not config.on:
        return this_machine(choose_runtime(config.device, config.precision, config.threads))
    device = choose(known_devices(), config.on, "--on")
    target = target_on(device, config.precision)
    return PlannedMachine(f"one {device.title}", target, round(device.memory_gib * GIB), device)


def this_machine(runtime: Runtime) -> PlannedMachine:
    """Return the machine that this process runs on."""
    if runtime.device.type == "cuda":
        properties = torch.cuda.get_device_properties(runtime.device)
        target = ComputeTarget("cuda", runtime.precision_name)
        return PlannedMachine(properties.name, target, properties.total_memory)
    memory = total_memory() or sys.maxsize  # where nobody knows, nothing is too large
    limit_file = Path("/sys/fs/cgroup/memory.max")  # of a container
    limit = limit_file.read_text(encoding="utf-8").strip() if limit_file.exists() else "max"
    if limit.isdecimal():
        memory = min(memory, int(limit))
    title = f"this machine's CPU, {quantity(torch.get_num_threads(), 'thread')}"
    return PlannedMachine(title, ComputeTarget("cpu", runtime.precision_name), memory)


def sentences(plan: JobPlan) -> list[str]:
    """Say what is planned, whether it fits, how long it takes, and what was assumed."""
    lines = [f"planned: {command_line(plan.planned)}", _fit_sentence(plan)]
    if plan.step_s is not None:
        sentence = _reading_sentence if plan.job.is_frozen else _time_sentence
        lines.append(sentence(plan, plan.step_s))
    if plan.passes is not None:
        lines.append(f"{plan.passes:,.1f} passes over the data")
    return [*lines, *plan.planned.notes, *_uncounted_settings(plan.planned)]


def command_line(planned: PlannedCommand) -> str:
    """Write a command with the settings that it resolves to."""
    values = planned.settings.recorded()
    if planned.job.mask_rate is None:
        values.pop("mask_rate", None)
    known = {key: values[key] for key in SHOWN if values.get(key) is not None}
    words = {k: f"{v:g}" if isinstance(v, float) else v for k, v in known.items()}
    flags = (f"--{key.replace('_', '-')} {word}" for key, word in words.items())
    return " ".join([planned.command, *flags])


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


def _time_sentence(plan: JobPlan, step_s: float) -> str:
    """Say how long the steps take, or how many fit into the minutes."""
    pace = _pace(plan, step_s)
    if plan.steps is None or plan.total_s is None:
        return f"{1000 * step_s:,.1f} ms a step {pace}; how many steps is not known without data"
    steps = quantity(plan.steps, "step")
    if plan.planned.minutes and plan.steps != plan.planned.steps:
        tokens = f"{plan.steps * plan.job.step_tokens:,} tokens"
        steps = f"about {steps}, {tokens}, fit into --minutes {plan.planned.minutes:g}"
        return f"{steps} {pace}, if validation and saving took no time"
    return f"{long_time(plan.total_s)} for {steps} {pace}, without validation and saving"


def _reading_sentence(plan: JobPlan, step_s: float) -> str:
    """Say how long a frozen backbone reads."""
    rest = "training the head on their vectors takes little beside it"
    reading = f"{1000 * step_s / plan.job.rows:,.1f} ms to read a text"
    if plan.total_s is not None:
        texts = quantity(plan.planned.num_read, "text")
        reading = f"{long_time(plan.total_s)} to read {texts} once"
    return f"{reading} {_pace(plan, step_s)}; {rest}"


def _pace(plan: JobPlan, step_s: float) -> str:
    rate, attained = plan.job.step_tokens / step_s, plan.step_flops / step_s / 1e12
    basis = "as measured" if plan.machine.sheet is None else "by its data sheet"
    return f"on {plan.machine.title}, {basis}: {rate:,.0f} tokens/s, {attained:.3g} TFLOP/s"


def _uncounted_settings(planned: PlannedCommand) -> list[str]:
    """Say which settings would change memory and time, and are not counted."""
    names = [name for name in UNCOUNTED if getattr(planned.settings, name)]
    return [f"--{name.replace('_', '-')} is not counted" for name in names]


def long_time(seconds: float) -> str:
    """Write a duration in seconds, minutes, hours or days."""
    units = ((90, 1, "s"), (5400, 60, "minutes"), (172_800, 3600, "hours"), (inf, 86_400, "days"))
    size, unit = next((size, unit) for limit, size, unit in units if seconds < limit)
    number = seconds / size
    return f"{number:.2g} {unit}" if number < 10 else f"{number:,.0f} {unit}"
