"""What long jobs tell the person waiting: lines and bars.

Works like `logging`: code below says what happens, whoever runs it chooses a display, and without
one nothing is shown. Knows nothing about terminals.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Bar(Protocol):
    """One running job."""

    def advance(self, amount: float, note: str = "") -> None:
        """Count `amount` more units as done; `note` replaces the text beside the bar."""


class Display(Protocol):
    """Where lines and bars appear."""

    def say(self, line: str) -> None:
        """Show one finished line."""

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Bar]:
        """Yield a bar once and close it afterwards."""


class _Quiet:
    def say(self, line: str) -> None: ...

    def advance(self, amount: float, note: str = "") -> None: ...

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Bar]:
        yield self


_QUIET = _Quiet()
_display: ContextVar[Display] = ContextVar("display", default=_QUIET)


@contextmanager
def shown_by(display: Display) -> Iterator[None]:
    """Show everything said inside the block on `display`."""
    token = _display.set(display)
    try:
        yield
    finally:
        _display.reset(token)


@contextmanager
def silenced() -> Iterator[None]:
    """Show nothing said inside the block."""
    with shown_by(_QUIET):
        yield


def say(line: str) -> None:
    """Tell the user one thing."""
    _display.get().say(line)


@contextmanager
def bar(title: str, total: float | None, unit: str = "", done: float = 0) -> Iterator[Bar]:
    """Show a job of `total` units (None: unknown), of which `done` were done before."""
    yield from _display.get().bar(title, total, unit, done)
