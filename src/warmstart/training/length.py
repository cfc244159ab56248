"""How long a training is: steps, epochs, tokens or minutes."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.files import remove, temporary_path
from warmstart.formats import duration, quantity
from warmstart.jsonfiles import from_json
from warmstart.runs.checkpoint import save_weights
from warmstart.runs.facts import ConfigFile, Length
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import update_config
from warmstart.settings.base import LENGTH_KEYS, Settings
from warmstart.settings.shared import TrainingRun
from warmstart.training.step import LoopSettings
from warmstart.training.trainer import Trainer

TIMED_SHARE = 0.03  # share of a budget in which steps are timed
TIMED_S = 1.0  # time in which steps are timed without a budget
MIN_TIMED, MAX_TIMED = 3, 200  # bursts, steps
TIMED_STEPS = 0.1  # share of a training of known length that is rehearsed at most
RECORDED_BURST, MAX_RECORDED = 32, 512  # steps in which the shapes of batches are recorded
BURST_S, MAX_BURST = 0.25, 16  # steps between two looks at the clock
LONG_S = 60.0  # the estimate for a longer training includes its validations
CHECKPOINT_WEIGHTS = 3  # size of a checkpoint in weights: AdamW keeps two numbers for each


@dataclass(frozen=True)
class Clock:
    """The time a command may take, from its start; None: as long as it needs."""

    minutes: float | None
    final_validations: int = 0  # after the last step
    started: float = field(default_factory=time.monotonic)

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.started

    @property
    def left_s(self) -> float | None:
        """Return the time that is left; None: as long as it needs."""
        return None if self.minutes is None else max(0.0, 60 * self.minutes - self.spent_s)


def set_length(
    trainer: Trainer,
    settings: TrainingRun,
    recorded: Mapping[str, Any],
    clock: Clock,
    steps: int | None,
) -> None:
    """Set the number of steps: the recorded one, `steps`, or as many as fit into the minutes.

    With both `steps` and minutes, the smaller number counts. `recorded` is the run's config.json as
    all processes read it, before the lead process changes it.
    """
    run = trainer.run
    assert run is not None
    lengths = _recorded_lengths(recorded, run.config_file, trainer.state.step)
    changed = changed_length(recorded, settings)
    if not lengths:
        lengths = (Length(from_step=0, steps=_new_steps(trainer, clock, steps)),)
        update_config(run, lengths=list(map(asdict, lengths)))
    elif changed and steps != lengths[-1].steps:
        lengths = (*lengths, _later_length(trainer, lengths[-1].steps, steps, changed))
        now = {k: v for k, v in settings.recorded().items() if k in LENGTH_KEYS}
        update_config(run, lengths=list(map(asdict, lengths)), settings=recorded["settings"] | now)
    trainer.settings = replace(trainer.settings, steps=lengths[-1].steps, lengths=lengths)


def _recorded_lengths(recorded: Mapping[str, Any], file: Path, step: int) -> tuple[Length, ...]:
    """Return every number of steps a run had; the last must not exceed the recorded --steps."""
    config = from_json(ConfigFile, recorded, file)
    if step and not config.lengths:
        raise WarmstartError(f"{file} has no 'lengths', though the run has taken {step:,} steps")
    asked = config.settings.get("steps")
    if config.lengths and isinstance(asked, int) and config.lengths[-1].steps > asked:
        raise WarmstartError(
            f"{file} says {config.lengths[-1].steps:,} steps in 'lengths' and {asked:,} "
            "in 'settings': one of them was changed"
        )
    return config.lengths


def changed_length(recorded: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the settings given that ask for another length than those recorded in config.json."""
    before, now = recorded["settings"], settings.recorded()
    return {k: now[k] for k in LENGTH_KEYS if now.get(k) is not None and now[k] != before.get(k)}


def refuse_changed_length(run: RunFolder, settings: Settings) -> None:
    """Refuse to change the length of a finished run."""
    for key, value in changed_length(run.config(), settings).items():
        raise WarmstartError(
            f"--{key} {value}: {run.path} is already finished; to train it further, start a new "
            f"run with --from {run.path}"
        )


def _new_steps(trainer: Trainer, clock: Clock, steps: int | None) -> int:
    """Return the number of steps of a new run, and say how long they take."""
    if clock.minutes is None:
        assert steps is not None
        progress.say(estimate(trainer, steps))
        return steps
    fitting = fitting_steps(trainer, clock)
    if steps is not None and steps <= fitting:
        progress.say(f"all {quantity(steps, 'step')} fit into --minutes {clock.minutes:g}")
        return steps
    progress.say(f"{quantity(fitting, 'step')} fit into --minutes {clock.minutes:g}")
    return fitting


def _later_length(
    trainer: Trainer, before: int, steps: int | None, given: Mapping[str, Any]
) -> Length:
    """Return the number of steps that a stopped run has from here on."""
    step = trainer.state.step
    if "minutes" in given or steps is None:
        raise WarmstartError(
            f"--minutes {given['minutes']:g} cannot change a run that was started with "
            f"{before:,} steps; to end it earlier or later, give --steps"
        )
    if steps <= step:
        raise WarmstartError(
            f"the run has already taken {step:,} steps, so it cannot end after {steps:,}: "
            f"the earliest end is --steps {step + 1}"
        )
    progress.say(
        f"ends after {steps:,} steps instead of {before:,}: from step {step:,} on the learning "
        "rate falls to that end, so this is no longer the run that was started"
    )
    return Length(from_step=step, steps=steps)


@dataclass(frozen=True)
class Pace:
    """Measured seconds of the parts of a training."""

    step_s: float
    validation_s: float = 0.0
    weights_s: float = 0.0  # to save the weights

    def training_s(self, steps: int, settings: LoopSettings) -> float:
        """Return the time that a number of steps takes, with validations and checkpoints."""
        validations = num_validations(steps, settings)
        steps_s = steps * self.step_s + validations * (self.validation_s + self.weights_s)
        checkpoints = 1 + steps // settings.save_every + steps_s // settings.save_s
        return steps_s + checkpoints * CHECKPOINT_WEIGHTS * self.weights_s

    def steps_within(self, seconds: float, settings: LoopSettings) -> int:
        """Return the largest number of steps that fits into `seconds`; 0: not even one."""
        low, high = 0, 1 + int(max(0.0, seconds) / self.step_s)
        while low + 1 < high:
            middle = (low + high) // 2
            fits = self.training_s(middle, settings) <= seconds
            low, high = (middle, high) if fits else (low, middle)
        return low


def num_validations(steps: int, settings: LoopSettings) -> int:
    """Return how often a training validates: at its last step too."""
    return -(-steps // settings.interval(steps))


def measure(trainer: Trainer, seconds: float, steps: int | None = None) -> Pace:
    """Time steps for about `seconds`, one validation, and one saving of the weights."""
    step_s = time_steps(trainer, seconds, steps)
    validation_s = _time_validation(trainer)
    weights_s = 0.0
    if trainer.destination:
        scratch = temporary_path(trainer.destination.weights_file)
        weights_s = _seconds_of(lambda: save_weights(scratch, trainer.model.state_dict()))
        remove(scratch)
    return Pace(step_s, validation_s, weights_s)


def time_steps(trainer: Trainer, seconds: float, steps: int | None = None) -> float:
    """Return the median time of a step; the first one, which may compile, does not count.

    Nor do steps that are recorded: once replayed, a step takes a fraction of the time.

    If the number of `steps` is known, only a share of them is rehearsed: a short training is
    over sooner than it is measured. A GPU is waited for only after each burst of steps, as in
    training. All processes take the bursts that the lead process chooses.
    """
    assert not trainer.state.step, "the state of the optimizers would be lost"
    most = MAX_TIMED if steps is None else min(MAX_TIMED, int(TIMED_STEPS * steps))
    _rehearse(trainer, range(1))
    step = _record_shapes(trainer, steps)
    most += step - 1  # steps in which shapes were recorded come on top
    began, burst = time.monotonic(), 1
    times: list[float] = []
    while burst := trainer.processes.from_lead(burst):
        timed = range(step, step + burst)
        times.append(_seconds_of(partial(_rehearse, trainer, timed)) / burst)
        step += burst
        has_time = step < most and time.monotonic() - began < seconds
        next_burst = max(1, min(MAX_BURST, int(BURST_S / times[-1]), most - step))
        burst = next_burst if has_time or len(times) < MIN_TIMED else 0
    trainer.forget_steps()
    return statistics.median(times)


def _record_shapes(trainer: Trainer, steps: int | None) -> int:
    """Take steps until nearly all are replayed; return the number of the next one."""
    recorded, step = trainer.recorded, 1
    if recorded is None or trainer.runtime.device.type != "cuda":
        return step
    most = MAX_RECORDED if steps is None else min(MAX_RECORDED, int(TIMED_STEPS * steps))
    num_others = most
    while step < most and trainer.processes.from_lead(num_others > RECORDED_BURST // 8):
        burst = range(step, min(step + RECORDED_BURST, most))
        before = recorded.num_replayed
        _rehearse(trainer, burst)
        step, num_others = burst.stop, len(burst) - (recorded.num_replayed - before)
    return step


def _rehearse(trainer: Trainer, steps: range) -> None:
    """Take steps that change no weight, and wait for the device."""
    for step in steps:
        loss, _ = trainer.take_step(step, rate=0.0)
    loss.item()


def _time_validation(trainer: Trainer) -> float:
    if trainer.run and not trainer.destination:
        return 0.0  # another process validates
    with progress.silence():
        if trainer.runtime.device.type == "cuda":
            trainer.validate()  # compiles
        return _seconds_of(trainer.validate)


def _seconds_of(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def fitting_steps(trainer: Trainer, clock: Clock) -> int:
    """Return how many steps fit into what is left of the minutes."""
    assert clock.minutes is not None
    pace = measure(trainer, TIMED_SHARE * 60 * clock.minutes)
    spent_s = clock.spent_s + clock.final_validations * pace.validation_s
    steps = pace.steps_within(60 * clock.minutes - spent_s, trainer.settings)
    steps = trainer.processes.from_lead(steps)
    if steps:
        return steps
    one_s = pace.training_s(1, trainer.settings)
    least = math.ceil((spent_s + one_s) / 6) / 10  # in tenths of a minute
    raise WarmstartError(
        f"--minutes {clock.minutes:g} is too short: {duration(spent_s)} go to everything but "
        f"training, and a single step, validated and saved, takes {duration(one_s)}; give at "
        f"least --minutes {least:g}"
    )


def estimate(trainer: Trainer, steps: int) -> str:
    """Say how long a training of `steps` steps takes; validations are timed if it is long."""
    pace = Pace(trainer.processes.from_lead(time_steps(trainer, TIMED_S, steps)))
    validations = "without its validations"
    if steps * pace.step_s > LONG_S:
        pace = replace(pace, validation_s=_time_validation(trainer))
        validations = f"with {quantity(num_validations(steps, trainer.settings), 'validation')}"
    total = duration(pace.training_s(steps, trainer.settings))
    take = "takes" if steps == 1 else "take"
    return f"{quantity(steps, 'step')} {take} about {total} on this machine, {validations}"
