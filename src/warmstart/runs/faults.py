"""Explain what stopped a job from outside: a signal, a full disk, too little memory."""

import errno
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from warmstart.errors import LostProcessError, StoppedError, WarmstartError, signal_of
from warmstart.runs.checkpoint import list_checkpoints
from warmstart.runs.folder import RunFolder

_DISK = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room in your quota",
    errno.EFBIG: "raise the limit on the size of files",
    errno.EROFS: "make the file system writable",
    errno.EACCES: "make the folder writable",
    errno.EPERM: "make the folder writable",
    errno.EIO: "check the disk",
}
_MEMORY = ("DefaultCPUAllocator", "not enough memory", "bad_alloc", "ALLOC_FAILED")


@contextmanager
def explained(command: str, run: RunFolder) -> Iterator[None]:
    """Turn interruptions and system errors into a sentence that says how to continue."""
    try:
        yield
    except KeyboardInterrupt as stop:
        message = "stopped before there was anything to save"
        if run.has_work or run.has_preparation:
            message = f"stopped; continue with: {resume_command(command, run)}"
        raise StoppedError(message, signal_of(stop)) from None
    except LostProcessError as fault:
        safe = _safe(command, run) or _prepared(command, run)
        raise LostProcessError(f"{fault}{safe}") from fault
    except StoppedError as stop:
        message = f"{stop}, as in: {resume_command(command, run)}"
        raise StoppedError(message, stop.signal_number) from None
    except OSError as fault:
        if fault.errno not in _DISK:
            raise
        where = f"{fault.filename or run.path}: {(fault.strerror or '').lower()}"
        raise WarmstartError(f"{where}; {_DISK[fault.errno]}{_safe(command, run)}") from fault
    except (MemoryError, RuntimeError) as fault:
        if not is_out_of_memory(fault):
            raise
        raise WarmstartError(
            "out of memory: lower --micro-tokens, --max-length or the size of the model, or take "
            f"--precision bf16{_safe(command, run)}"
        ) from fault


def is_out_of_memory(fault: Exception) -> bool:
    """Tell whether the machine or the device had no memory left."""
    is_named = any(words in str(fault) for words in _MEMORY)
    return isinstance(fault, (MemoryError, torch.OutOfMemoryError)) or is_named


def resume_command(command: str, run: RunFolder) -> str:
    """Return the command that resumes a run."""
    words = ["warmstart", command, "--config", str(run.config_file), "-o", str(run.path)]
    return shlex.join([*words, "--resume"])


def _safe(command: str, run: RunFolder) -> str:
    """Say what is safe, and how to resume."""
    steps = [path.name.removeprefix("step-") for path in list_checkpoints(run)]
    cells = list(run.cells.glob("*.json"))
    if not steps and not cells:
        return ""
    kept = f"{len(cells)} finished cell{' is' if len(cells) == 1 else 's are'} safe"
    saved = f"step {steps[-1]} is safe" if steps else kept
    return f". {saved}; continue with: {resume_command(command, run)}"


def _prepared(command: str, run: RunFolder) -> str:
    """Say that tokenized text is kept, if there is any, and how to resume."""
    if not run.has_preparation:
        return ""
    return f". The text tokenized so far is kept; continue with: {resume_command(command, run)}"
