"""Show the metrics of a run in another program, asked for with --track.

Each tracker takes what metrics.jsonl gets. One that is a service goes where its own settings say
(MLFLOW_TRACKING_URI, WANDB_PROJECT and others).
"""

import os
import secrets
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from warmstart.errors import WarmstartError
from warmstart.files import append_to, create_file, make_folder, write_json
from warmstart.jsonfiles import read_object
from warmstart.runs.folder import RunFolder
from warmstart.settings.shared import Tracker


class Writer(Protocol):
    """Whatever takes the metrics of a run."""

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Write the figures of a step."""

    def sync(self) -> None:
        """Make everything so far durable."""

    def close(self) -> None:
        """Write what is left."""


def open_tracker(name: Tracker, run: RunFolder, step: int) -> Writer:
    """Open a new or resumed run in a tracker; what it got after `step` may be replaced."""
    folder = run.path / "events"
    make_folder(folder)
    try:
        return TRACKERS[name](run, folder, step)
    except Exception as error:  # each library has errors of its own
        reason = " ".join(str(error).split()) or type(error).__name__
        raise WarmstartError(f"--track {name}: it cannot be opened ({reason})") from None


class TensorBoard:
    """A TensorBoard event file, written synchronously so that a full disk raises at once."""

    def __init__(self, run: RunFolder, folder: Path, step: int) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._file: BinaryIO = _new_file(folder)
        self._writer: Any = RecordWriter(self._file)
        self._write(step=step + 1, file_version="brain.Event:2")
        # Tells TensorBoard to drop what an earlier process wrote from this step on.
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(step=step + 1, session_log=start)

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Write one event that holds every figure."""
        values = [self._summary.Value(tag=k, simple_value=v) for k, v in figures.items()]
        self._write(step=step, summary=self._summary(value=values))

    def sync(self) -> None:
        """Make every event so far durable."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, **content: Any) -> None:
        event = self._event(wall_time=time.time(), **content)
        self._writer.write(event.SerializeToString())
        self._file.flush()


def _new_file(folder: Path) -> BinaryIO:
    """Open a file that sorts after those of earlier processes: TensorBoard reads them in order."""
    number = 1 + max((_number(path) for path in folder.glob("events.out.tfevents.*")), default=0)
    number = max(number, int(time.time()))
    path = folder / f"events.out.tfevents.{number:010}"
    create_file(path)
    return append_to(path)


def _number(path: Path) -> int:
    digits = path.name.split(".")[3]
    return int(digits) if digits.isdecimal() else 0


class Mlflow:
    """A run in MLflow, sent in the background: an outage stops no training."""

    def __init__(self, run: RunFolder, folder: Path, step: int) -> None:
        self._library = import_module("mlflow")
        file = folder / "mlflow.json"
        known = read_object(file)["id"] if file.exists() else None
        name = run.path.name
        started = self._library.start_run(run_id=known, run_name=name, nested=True)
        if known is None:
            write_json(file, {"id": started.info.run_id})
            self._library.log_params(run.config()["settings"])

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Queue the figures of a step."""
        self._library.log_metrics(figures, step=step, synchronous=False)

    def sync(self) -> None:
        """Leave the queue to itself."""

    def close(self) -> None:
        """Send what is queued, and end the run."""
        self._library.end_run()


class Dashboard:
    """A run in Weights & Biases or in Trackio, which has the same interface."""

    def __init__(self, library: str, run: RunFolder, folder: Path, step: int) -> None:
        self._library = import_module(library)
        file = folder / f"{library}.json"
        if not file.exists():
            write_json(file, {"id": f"{run.path.name}-{secrets.token_hex(4)}"})
        number = read_object(file)["id"]
        project = os.environ.get(f"{library.upper()}_PROJECT", "warmstart")
        # Trackio knows a run by its name.
        own = {"id": number, "dir": str(folder)} if library == "wandb" else {}
        settings = run.config()["settings"]
        self._library.init(project=project, name=number, config=settings, resume="allow", **own)

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Queue the figures of a step."""
        self._library.log(figures, step=step)

    def sync(self) -> None:
        """Leave the queue to itself."""

    def close(self) -> None:
        """Send what is queued, and end the run."""
        self._library.finish()


TRACKERS: dict[Tracker, Callable[[RunFolder, Path, int], Writer]] = {
    "tensorboard": TensorBoard,
    "mlflow": Mlflow,
    "wandb": partial(Dashboard, "wandb"),
    "trackio": partial(Dashboard, "trackio"),
}
