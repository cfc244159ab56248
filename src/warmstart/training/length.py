"""The number of steps of a run: fixed once, recorded, and kept by every process that resumes it."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.jsonfiles import typed
from warmstart.model.backbone import recompute_activations
from warmstart.runs.facts import ConfigFile, Length
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import update_config
from warmstart.settings.base import Settings
from warmstart.settings.in_force import LENGTH_KEYS
from warmstart.settings.shared import TrainingRun
from warmstart.training.pace import Clock, estimate, fitting_steps
from warmstart.training.trainer import Trainer


def fix_steps(trainer: Trainer, settings: TrainingRun, clock: Clock, steps: int | None) -> None:
    """Fix the number of steps: the recorded one, `steps`, or as many as fit into the minutes.

    With both `steps` and minutes, the smaller number counts.
    """
    run = trainer.run
    assert run is not None
    trainer.restore()
    lengths = _recorded_lengths(run, trainer.state.step)
    changed = changed_length(run, settings)
    trainer.meet()  # before one of the processes changes the files
    if settings.checkpoint_activations:
        recompute_activations(trainer.model)
    if settings.shard:
        trainer.shard()
    if not lengths:
        lengths = (Length(from_step=0, steps=_first(trainer, clock, steps)),)
        update_config(run, lengths=list(map(asdict, lengths)))
    elif changed and steps != lengths[-1].steps:
        lengths = (*lengths, _changed(trainer, lengths[-1].steps, steps, changed))
        now = {k: v for k, v in settings.recorded().items() if k in LENGTH_KEYS}
        recorded = run.config()["settings"] | now
        update_config(run, lengths=list(map(asdict, lengths)), settings=recorded)
    trainer.settings = replace(trainer.settings, steps=lengths[-1].steps, lengths=lengths)


def _recorded_lengths(run: RunFolder, step: int) -> tuple[Length, ...]:
    """Return every number of steps a run had; none may be above the one that was asked for."""
    config = typed(ConfigFile, run.config(), run.config_file)
    if step and not config.lengths:
        raise WarmstartError(
            f"{run.config_file} has no 'lengths', though the run has taken {step:,} steps"
        )
    asked = config.settings.get("steps")
    if config.lengths and isinstance(asked, int) and config.lengths[-1].steps > asked:
        raise WarmstartError(
            f"{run.config_file} says {config.lengths[-1].steps:,} steps in 'lengths' and {asked:,} "
            "in 'settings': one of them was changed"
        )
    return config.lengths


def changed_length(run: RunFolder, settings: Settings) -> dict[str, Any]:
    """Return the settings given that ask for another length than those of the run."""
    recorded, now = run.config()["settings"], settings.recorded()
    return {k: now[k] for k in LENGTH_KEYS if now.get(k) is not None and now[k] != recorded.get(k)}


def refuse_changed_length(run: RunFolder, settings: Settings) -> None:
    """Refuse to change the length of a finished run."""
    for key, value in changed_length(run, settings).items():
        raise WarmstartError(
            f"--{key} {value}: {run.path} is already finished; to train it further, start a new "
            f"run with --from {run.path}"
        )


def _first(trainer: Trainer, clock: Clock, steps: int | None) -> int:
    """Return the number of steps of a new run, and say how long they take."""
    if clock.minutes is None:
        assert steps is not None
        progress.say(estimate(trainer, steps))
        return steps
    fitting = fitting_steps(trainer, clock)
    if steps is not None and steps <= fitting:
        progress.say(f"all {counted(steps, 'step')} fit into --minutes {clock.minutes:g}")
        return steps
    progress.say(f"{counted(fitting, 'step')} fit into --minutes {clock.minutes:g}")
    return fitting


def _changed(trainer: Trainer, before: int, steps: int | None, given: Mapping[str, Any]) -> Length:
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
