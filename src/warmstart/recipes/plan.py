"""Plan a job: a preset or run and the job's settings -> what it will need."""

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.insight.devices import DEVICES, Device, device_named, target_on
from warmstart.insight.job_plan import JobPlan, PlannedMachine, make_plan, this_machine
from warmstart.insight.planned_job import planned_job
from warmstart.insight.step_memory import largest_rows
from warmstart.insight.step_timing import time_steps
from warmstart.runtime import choose_runtime
from warmstart.settings.planning import PlanConfig

MEASURED_SHARE = 2 / 3  # of the time given; starting takes the rest


def devices() -> dict[str, Device]:
    """Return the table of devices that `on` takes."""
    return DEVICES


def plan(config: PlanConfig) -> JobPlan:
    """Say what a job needs before it runs: FLOPs, memory, time."""
    if config.model is None:
        raise WarmstartError("MODEL is missing: name a preset or a run folder")
    job = planned_job(config, config.model)
    if config.on:
        device = device_named(config.on)
        target = target_on(device, config.precision)
        machine = PlannedMachine(f"one {device.title}", target, device.memory)
        return make_plan(config.model, job, machine, device)
    machine = this_machine(choose_runtime(config.device, config.precision, config.threads))
    timing = None
    rows = min(job.micro_rows, largest_rows(job, machine.target, machine.usable))
    if config.measure and rows:
        progress.say(f"measuring training steps for about {config.seconds:.0f} s")
        timing = time_steps(job, config, MEASURED_SHARE * config.seconds, rows)
    return make_plan(config.model, job, machine, timing)
