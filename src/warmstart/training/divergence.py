"""Training that no longer learns: what to tell the user."""

from warmstart.errors import DivergedError
from warmstart.runs.checkpoint import list_checkpoints
from warmstart.runs.folder import RunFolder


def diverged(symptom: str, step: int, run: RunFolder | None) -> DivergedError:
    """Return an error that says what to change, and where the last good weights are."""
    saved = list_checkpoints(run) if run else []
    if not saved and run and run.weights_file.exists():
        saved = [run.weights_file]
    where = f"; the last good weights are in {saved[-1]}" if saved else ""
    return DivergedError(
        f"{symptom} at step {step}: try a lower --learning-rate, a longer --warmup or "
        f"--precision fp32{where}"
    )
