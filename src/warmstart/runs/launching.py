"""Start several processes of one training on this machine, by PyTorch's own launcher.

The launcher is imported when it is needed: that takes a second.
"""

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

import torch

from warmstart.errors import ReportedError, WarmstartError
from warmstart.files import write_json
from warmstart.processes import LAUNCHER, num_launched
from warmstart.settings.shared import TrainingRun

if TYPE_CHECKING:
    from torch.distributed.launcher.api import LaunchConfig

SAVING_S = 600  # that a stopped training may take to save itself before it is killed
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def is_launched(command: str, settings: TrainingRun) -> bool:
    """Train in as many processes as --processes asks for; False: in this process, by the caller."""
    num = _num_processes(settings)
    if num > 1:
        _launch(num, command, settings)
    return num > 1


def _num_processes(settings: TrainingRun) -> int:
    if settings.processes is None or num_launched() > 1:
        return 1
    if settings.processes == "auto":
        return max(1, torch.cuda.device_count()) if settings.device != "cpu" else 1
    return int(settings.processes)


def _launch(num: int, command: str, settings: TrainingRun) -> None:
    """Run a command in so many processes; they report errors themselves, but not the result."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    with tempfile.TemporaryDirectory(prefix="warmstart-launch-") as folder, signals_restored():
        job = Path(folder) / "job.json"
        write_json(job, {"command": command, "settings": settings.recorded()})
        words = ["-m", "warmstart", command, "--config", str(job), "-o", settings.out]
        words += ["--resume"] if settings.resume else []
        words += ["--changed-data"] if settings.changed_data else []
        os.environ[LAUNCHER] = str(os.getpid())
        try:
            elastic_launch(_launch_config(num, Path(folder)), sys.executable)(*words)
        except ChildFailedError as failure:
            code = failure.get_first_failure()[1].exitcode
            code = code if code > 0 else 2  # the others report a process that was killed
            raise ReportedError("a process of the training failed", code) from None
        except SignalException as stop:
            raise ReportedError("the training was stopped", 128 + stop.sigval) from None
        except (RuntimeError, OSError) as fault:
            reason = str(fault).splitlines()[0]
            raise WarmstartError(f"--processes {num}: none could be started: {reason}") from None


def _launch_config(num: int, folder: Path) -> "LaunchConfig":
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.launcher.api import LaunchConfig

    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed.elastic"):  # what it logs, the processes say better
            logging.getLogger(name).setLevel(logging.CRITICAL)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder), redirects=Std.OUT),
        run_id=f"warmstart-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # any free port
        max_restarts=0,
        signals_to_handle=",".join(number.name for number in SIGNALS),
    )
    config.shutdown_timeout = SAVING_S  # torch 2.11 does not know it and ignores it
    return config


@contextmanager
def signals_restored() -> Iterator[None]:
    """Undo what a launcher or a library does to signals."""
    if current_thread() is not main_thread():
        yield
        return
    before = [signal.getsignal(number) for number in SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
