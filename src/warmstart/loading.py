"""Run folder -> the right object to use it with."""

from pathlib import Path

from warmstart.errors import WarmstartError
from warmstart.inference.text_model import TextModel
from warmstart.inference.transformer_model import TransformerModel
from warmstart.runs.saved import SavedRun, read_run
from warmstart.runtime import choose_runtime
from warmstart.settings.shared import Device, Machine, Precision
from warmstart.tasks.registry import task_of


def load(
    run: str | Path,
    device: Device = "auto",
    precision: Precision = "fp32",
    threads: int | None = None,
) -> TextModel:
    """Load a run for use: it embeds, predicts, generates or translates as its kind can.

    With precision "auto" it computes in bf16 where the hardware does: faster, and less exact.
    """
    return load_on(run, Machine(device=device, precision=precision, threads=threads))


def load_on(run: str | Path, machine: Machine) -> TextModel:
    """Load a run on the device that settings name."""
    return open_saved(read_run(run), machine)


def open_saved(saved: SavedRun, machine: Machine) -> TextModel:
    """Return a run that was read, ready for use on the device that settings name."""
    runtime = choose_runtime(machine.device, machine.precision, machine.threads)
    return task_of(saved).open(saved, runtime)


def load_transformer(run: str | Path, machine: Machine) -> TransformerModel:
    """Load a run that must be a Transformer."""
    model = load_on(run, machine)
    if not isinstance(model, TransformerModel):
        raise WarmstartError(f"{run} is {model.description}, which has no Transformer inside")
    return model
