"""Exceptions for the user; the command line prints each as one sentence."""

import signal
from pathlib import Path

OVERFLOW = "its weights are too large for this precision or damaged: try --precision fp32"


# What allocators say on each device, and the loader of libraries.
_MEMORY = (
    *("out of memory", "DefaultCPUAllocator", "not enough memory", "bad_alloc", "ALLOC_FAILED"),
    "failed to map segment",
)


class WarmstartError(Exception):
    """An error the user can fix: what is wrong, the value received, what is allowed."""


class StoppedError(WarmstartError):
    """A signal stopped the job."""

    def __init__(self, message: str, signal_number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal_number = signal_number


class TerminatedError(KeyboardInterrupt):
    """A signal arrived; it may arrive anywhere."""

    def __init__(self, signal_number: int) -> None:
        super().__init__()
        self.signal_number = signal_number


def signal_of(interruption: KeyboardInterrupt) -> int:
    """Return the number of the signal that interrupted a job."""
    if isinstance(interruption, TerminatedError):
        return interruption.signal_number
    return signal.SIGINT


class MovedFolderError(WarmstartError):
    """The folder that a job writes to is no longer where it was."""

    def __init__(self, message: str, place: Path | None) -> None:
        super().__init__(message)
        self.place = place  # where it is now; None: not known


class LostProcessError(WarmstartError):
    """Another process of the same job has ended."""


class ReportedError(WarmstartError):
    """A process that was started to do the job has already told the user why it failed."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class DivergedError(WarmstartError):
    """The loss or the weights became infinite or NaN, and did so again when that was repeated."""


class DamagedStateError(DivergedError):
    """Weights, moments or scores are infinite or NaN: a step cannot be taken again from them."""


def is_out_of_memory(fault: Exception) -> bool:
    """Tell whether the machine or the device had no memory left."""
    return isinstance(fault, MemoryError) or any(words in str(fault) for words in _MEMORY)
