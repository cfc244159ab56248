"""Signals that stop a training at a step, and how long waiting threads spin."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

from warmstart.errors import StoppedError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def restore_signals() -> Iterator[None]:
    """Restore the handlers of signals that a launcher or a library changes inside the block."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items() if current_thread() is main_thread() else ():
            signal.signal(number, handler)


class Interrupt:
    """Whether the user asked to stop; a second request stops at once."""

    def __init__(self) -> None:
        self.signal_number: int | None = None  # of the request

    def request(self, number: int, _: FrameType | None) -> None:
        """Note the signal, and restore its default effect."""
        self.signal_number = number
        signal.signal(number, signal.SIG_DFL)

    def obey(self, message: str = "stopped") -> None:
        """Raise if the user asked to stop."""
        if self.signal_number is not None:
            raise StoppedError(message, self.signal_number)


@contextmanager
def listening() -> Iterator[Interrupt]:
    """Catch Ctrl-C and SIGTERM inside the block; outside the main thread, catch nothing."""
    interrupt = Interrupt()
    with restore_signals():
        for number in SIGNALS if current_thread() is main_thread() else ():
            signal.signal(number, interrupt.request)
        yield interrupt


def limit_spinning() -> None:
    """Let waiting threads spin for a moment only; must be called before torch is imported.

    Threads that spin for long make a step fifty times slower when another program needs a core;
    threads that never spin make decoding twice as slow. What the user has chosen stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
