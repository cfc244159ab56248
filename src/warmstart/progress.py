"""Messages and progress bars of long jobs.

Works like `logging`: library code reports, the caller chooses a display. Without one, nothing is
shown.
"""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")
_due: ContextVar[float] = ContextVar("due", default=math.inf)


class Bar(Protocol):
    """The progress of one job."""

    def advance(self, amount: float, note: str = "") -> None:
        """Add `amount` units of finished work; `note` replaces the text beside the bar."""


class Display(Protocol):
    """Where messages and bars appear."""

    def say(self, line: str) -> None: ...

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Bar]:
        """Yield one bar and close it afterwards."""


class _Quiet:
    def say(self, line: str) -> None: ...

    def advance(self, amount: float, note: str = "") -> None: ...

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Bar]:
        yield self


_QUIET = _Quiet()
_display: ContextVar[Display] = ContextVar("display", default=_QUIET)


@contextmanager
def show_on(display: Display) -> Iterator[None]:
    """Send all messages and bars of the block to `display`."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


@contextmanager
def silence() -> Iterator[None]:
    """Hide all messages and bars of the block."""
    with show_on(_QUIET):
        yield


@contextmanager
def due_in(seconds: float | None) -> Iterator[None]:
    """Tell displays that the block ends within `seconds`, whatever its bars would estimate."""
    token = _due.set(math.inf if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _due.reset(token)


def due_time() -> float:
    """Return when the job must have ended, as `time.monotonic()` counts; infinity: any time."""
    return _due.get()


def is_shown() -> bool:
    """Tell whether somebody has chosen a display."""
    return _display.get() is not _QUIET


def say(line: str) -> None:
    """Show the user one line."""
    _display.get().say(line)


@contextmanager
def bar(title: str, total: float | None, unit: str = "", done: float = 0) -> Iterator[Bar]:
    """Show a job of `total` units (None: unknown), of which `done` are already finished."""
    yield from _display.get().bar(title, total, unit, done)


def along(items: Iterable[T], title: str, unit: str) -> Iterator[T]:
    """Yield items of unknown number; a bar counts them."""
    with bar(title, None, unit) as shown:
        for item in items:
            yield item
            shown.advance(1)
