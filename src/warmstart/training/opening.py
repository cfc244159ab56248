"""Open a training: in this process or in several, each with its folder and its device.

PyTorch's own launcher starts several processes. It is imported when needed: that takes a second.
"""

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from warmstart import progress
from warmstart.errors import ReportedError, WarmstartError
from warmstart.files import write_json
from warmstart.processes import (
    LAUNCHER,
    Processes,
    current,
    is_restarted,
    join_processes,
    local_rank,
    num_launched,
    num_local,
)
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import explain_faults, open_run
from warmstart.runtime import Runtime, choose_runtime, num_threads
from warmstart.settings.shared import TrainingRun
from warmstart.signals import SIGNALS, restore_signals
from warmstart.training.length import refuse_changed_length

if TYPE_CHECKING:
    from torch.distributed.launcher.api import LaunchConfig

SAVING_S = 600  # time for a stopped training to save itself before it is killed


@contextmanager
def open_training(command: str, settings: TrainingRun) -> Iterator[RunFolder]:
    """Yield the folder of a training, new or resumed; it may be finished already.

    With --processes, other processes have finished it. A process that shares the training gets
    a folder to read, unless it is the lead process.
    """
    num = _num_processes(settings)
    if num > 1:
        _launch(num, command, settings)
        yield RunFolder(settings.out)
        return
    with join_processes() as processes:
        if processes.is_lead:
            resume = settings.resume or is_restarted()
            with open_run(command, settings, settings.out, resume) as run:
                if run.is_finished:
                    refuse_changed_length(run, settings)
                    progress.say(f"{run.path} is already finished; nothing to do")
                    processes.gate("prepared")
                yield run
        else:
            run = RunFolder(settings.out, is_read_only=True)
            processes.gate("prepared")
            _check_visible(run, processes)
            with explain_faults(command, run):
                yield run
        processes.gate("finished")


def _check_visible(run: RunFolder, processes: Processes) -> None:
    if not run.config_file.exists():
        raise WarmstartError(
            f"{run.path} is not visible to process {processes.rank} on {socket.gethostname()}: -o "
            "must be a folder that all machines share"
        )


def training_runtime(settings: TrainingRun) -> Runtime:
    """Choose the device and threads of this process; processes of one machine share both."""
    num_gpus = torch.cuda.device_count() if settings.device != "cpu" else 0
    is_one_of_several = current().is_shared and num_gpus > 0
    device = f"cuda:{local_rank() % num_gpus}" if is_one_of_several else settings.device
    if current().is_shared and not num_gpus and device == "auto":
        device = "cpu"
    if current().is_shared and device == "mps":
        raise WarmstartError("--device mps trains in one process; use --device cpu for several")
    threads = settings.threads or num_threads(num_local())
    return choose_runtime(device, settings.precision, threads)


def _num_processes(settings: TrainingRun) -> int:
    if settings.processes is None or num_launched() > 1:
        return 1
    if settings.processes == "auto":
        return max(1, torch.cuda.device_count()) if settings.device != "cpu" else 1
    return int(settings.processes)


def _launch(num: int, command: str, settings: TrainingRun) -> None:
    """Run a command in several processes, which report their own errors but no result."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    with tempfile.TemporaryDirectory(prefix="warmstart-launch-") as folder, restore_signals():
        job = Path(folder) / "job.json"
        write_json(job, {"command": command, "settings": settings.recorded()})
        words = ["-m", "warmstart", command, "--config", str(job), *_unrecorded_flags(settings)]
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


def _unrecorded_flags(settings: TrainingRun) -> Iterator[str]:
    """Yield the flags that are not among the recorded settings."""
    for setting in settings.declared():
        value = getattr(settings, setting.name)
        if not setting.recorded and setting.key != "processes" and value:
            yield setting.flag
            if value is not True:
                yield value


def _launch_config(num: int, folder: Path) -> "LaunchConfig":
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.launcher.api import LaunchConfig

    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed.elastic"):  # the processes say it better
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
    config.shutdown_timeout = SAVING_S  # torch 2.11 ignores this setting
    return config
