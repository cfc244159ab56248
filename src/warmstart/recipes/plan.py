"""Plan a job: a preset or run and the job's settings -> what it will need."""

from dataclasses import replace

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.insight.devices import GIB, Device, known_devices, shared_steps, target_on
from warmstart.insight.job_plan import JobPlan, PlannedMachine, make_plan, this_machine
from warmstart.insight.step_memory import largest_rows
from warmstart.insight.step_timing import time_steps
from warmstart.insight.training_job import planned_job
from warmstart.runtime import choose_runtime
from warmstart.settings.base import choose
from warmstart.settings.looking import PlanConfig

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
        planned = make_plan(config.model, job, machine, device)
        if config.devices == 1:
            return planned
        shared = shared_steps(job, device, target, config.devices, config.network)
        return replace(planned, shared=shared)
    if config.devices > 1:
        raise WarmstartError(f"--devices {config.devices} needs --on: the kind of these devices")
    machine = this_machine(choose_runtime(config.device, config.precision, config.threads))
    timing = None
    rows = min(job.micro_rows, largest_rows(job, machine.target, machine.usable))
    if config.measure and rows:
        progress.say(f"measuring training steps for about {config.seconds:.0f} s")
        timing = time_steps(job, config, MEASURED_SHARE * config.seconds, rows)
    return make_plan(config.model, job, machine, timing)
