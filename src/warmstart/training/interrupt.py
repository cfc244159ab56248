"""Ctrl-C and SIGTERM as a flag that a loop checks between steps."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from warmstart.errors import StoppedError
from warmstart.signals import SIGNALS, signals_restored


class Interrupt:
    """Whether the user asked to stop; a second request stops at once."""

    def __init__(self) -> None:
        self.signal_number: int | None = None  # of the request

    @property
    def is_set(self) -> bool:
        """Tell whether the user asked to stop."""
        return self.signal_number is not None

    def request(self, number: int, _: FrameType | None) -> None:
        """Set the flag, and restore the default effect of the signal."""
        self.signal_number = number
        signal.signal(number, signal.SIG_DFL)

    def obey(self, message: str = "stopped") -> None:
        """Raise if the user asked to stop."""
        if self.signal_number is not None:
            raise StoppedError(message, self.signal_number)


@contextmanager
def listening() -> Iterator[Interrupt]:
    """Catch the signals inside the block; only possible in the main thread."""
    interrupt = Interrupt()
    with signals_restored():
        for number in SIGNALS if current_thread() is main_thread() else ():
            signal.signal(number, interrupt.request)
        yield interrupt
