"""Messages and progress bars of long jobs.

Works like `logging`: library code reports, the caller chooses a display. Without one, nothing is
shown.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


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
def shown_by(display: Display) -> Iterator[None]:
    """Send all messages and bars of the block to `display`."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


@contextmanager
def silenced() -> Iterator[None]:
    """Hide all messages and bars of the block."""
    with shown_by(_QUIET):
        yield


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
