"""Processes of this machine that work for this process, and end with it however it ends."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from threading import Lock, Thread
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from warmstart.signals import SIGNALS

P = ParamSpec("P")
R = TypeVar("R")

GIVE_WAY = 10  # niceness of a process beside the one that uses the GPU

_hiding = Lock()
_IGNORED = set(SIGNALS) - {signal.SIGTERM}  # a terminal sends these to all its processes


class ProcessPool:
    """An executor whose processes start when needed, ignore the terminal, end at once."""

    def __init__(self, num: int, prepare: Callable[..., object], *arguments: Any) -> None:
        """Let each process call `prepare` with these arguments before it does any work."""
        context = multiprocessing.get_context("spawn")
        # Nobody writes to the pipe: a process ends when its other end is closed, also by a kill.
        self._life, self._watched = context.Pipe(duplex=False)
        first = (self._life, prepare, arguments)
        self._executor = ProcessPoolExecutor(num, context, _begin, first)

    def submit(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        """Call a function in a process; raise BrokenExecutor once any process was lost."""
        with block_signals():
            return self._executor.submit(work, *args, **kwargs)

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        self._watched.close()
        self._executor.shutdown(cancel_futures=True)
        self._life.close()


@contextmanager
def block_signals() -> Iterator[None]:
    """Let processes that start in the block ignore signals that are meant for this process."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows: they ignore them once they have started
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _IGNORED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def hide_script() -> Iterator[None]:
    """Let processes that start in the block skip the user's script, which may have no guard."""
    with _hiding:
        script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


def give_way() -> None:
    """Let this process work only where others leave a core idle, if the system can."""
    if hasattr(os, "nice"):
        os.nice(GIVE_WAY)


def _begin(life: Connection, prepare: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    Thread(target=_end_with, args=(life,), daemon=True).start()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    prepare(*arguments)


def _end_with(life: Connection) -> None:
    life.poll(None)
    os._exit(1)
