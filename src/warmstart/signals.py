"""Signals that stop a job: a training at its next step, anything else by an exception."""

import _thread
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, current_thread, main_thread
from types import FrameType

from warmstart.errors import StoppedError, TerminatedError

# Ctrl-C; what systems and schedulers send; a closed terminal. Windows has only some of them.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGBREAK")
SIGNALS = tuple(signal.Signals[name] for name in _NAMES if hasattr(signal, name))
_REPEAT_S = 0.2


def heeded_signals() -> list[signal.Signals]:
    """Return the signals to catch: none outside the main thread, and no SIGHUP under nohup."""
    if current_thread() is not main_thread():
        return []
    is_nohup = hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in SIGNALS if not (is_nohup and number.name == "SIGHUP")]


@contextmanager
def restore_signals() -> Iterator[None]:
    """Restore the handlers of signals that a launcher or a library changes inside the block."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items() if current_thread() is main_thread() else ():
            signal.signal(number, handler)


def wake_main_thread(number: signal.Signals) -> None:
    """Let the main thread handle a signal, also while it waits where the system can wake it."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, number)
    else:
        _thread.interrupt_main(number)


class _Termination:
    """The exception that a signal raises, again and again until it gets to the end of the block.

    Python drops an exception that is raised inside a destructor or a callback of a library.
    """

    def __init__(self) -> None:
        self.error: TerminatedError | None = None
        self._is_over = False
        self._ending = Lock()

    def request(self, number: int, _: FrameType | None) -> None:
        """Raise the exception, unless it is on its way: nothing interrupts the cleaning up."""
        if self._is_over:
            return
        if self.error is None:
            self.error = TerminatedError(number)
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a second Ctrl-C is obeyed
            _thread.start_new_thread(self._repeat, ())  # `threading` takes locks that may be held
        if not self._is_on_its_way():
            raise self.error

    def _is_on_its_way(self) -> bool:
        error = sys.exc_info()[1]
        while error is not None and error is not self.error:
            error = error.__context__
        return error is not None

    def _repeat(self) -> None:
        while True:
            time.sleep(_REPEAT_S)
            with self._ending:
                if self._is_over:
                    return
                wake_main_thread(signal.SIGTERM)

    def end(self) -> None:
        """Raise nothing any more."""
        with self._ending:
            self._is_over = True


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Turn signals inside the block into TerminatedError, which nothing in it can swallow."""
    termination = _Termination()
    with restore_signals():
        for number in heeded_signals():
            signal.signal(number, termination.request)
        try:
            yield
        finally:
            termination.end()


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
def listen() -> Iterator[Interrupt]:
    """Note signals inside the block; outside the main thread, none."""
    interrupt = Interrupt()
    with restore_signals():
        for number in heeded_signals():
            signal.signal(number, interrupt.request)
        yield interrupt


def limit_spinning() -> None:
    """Let waiting threads spin for a moment only; must be called before torch is imported.

    Threads that spin for long make a step fifty times slower when another program needs a core;
    threads that never spin make decoding twice as slow. What the user has chosen stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
