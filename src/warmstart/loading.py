"""Run folder -> the right object to use it with."""

from pathlib import Path

from warmstart.inference.text_model import TextModel
from warmstart.runs.saved import read_run
from warmstart.runtime import choose_runtime
from warmstart.settings.shared import Machine
from warmstart.tasks.registry import task_of


def load(
    run: str | Path, device: str = "auto", precision: str = "auto", threads: int | None = None
) -> TextModel:
    """Load a run for use: it embeds, predicts, generates or translates as its kind can."""
    saved = read_run(run)
    return task_of(saved).open(saved, choose_runtime(device, precision, threads))


def load_on(run: str | Path, machine: Machine) -> TextModel:
    """Load a run on the device that settings name."""
    return load(run, machine.device, machine.precision, machine.threads)
