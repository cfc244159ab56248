"""Progress with rate and time left: live bars on a terminal or in a notebook, lines in a log.

In Python, messages go to the logger "warmstart".
"""

import importlib.util
import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from warmstart.formats import visible
from warmstart.progress import Bar, due_time, is_shown, show_on

REFRESH_INTERVAL_S = 0.1  # of a live bar
LINE_INTERVAL_S = 20.0  # between two lines about one bar
LOGGER = logging.getLogger("warmstart")
WARNING = "warning: "  # how a message begins that is a warning


@contextmanager
def show_in_python(translate: Callable[[str], str] = str) -> Iterator[None]:
    """Show live bars below a cell of a notebook; elsewhere log, unless a display is chosen.

    `translate` turns a message for the command line into one for Python.
    """
    console = Console()
    if is_shown():
        yield
    elif not console.is_jupyter:
        with _hear(LOGGER), show_on(LogDisplay(translate)):
            yield
    else:
        is_live = importlib.util.find_spec("ipywidgets") is not None  # a bar is a widget
        kind = TerminalDisplay if is_live else LineDisplay
        with show_on(kind(console, translate)):
            yield


@contextmanager
def _hear(logger: logging.Logger) -> Iterator[None]:
    """Write a logger's messages to standard error, where the program has not set up logging."""
    if logger.hasHandlers():
        yield
        return
    handler, level = logging.StreamHandler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(level or logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


class TerminalDisplay:
    """Live bars."""

    def __init__(self, console: Console, translate: Callable[[str], str] = str) -> None:
        self.console, self.translate = console, translate

    def say(self, line: str) -> None:
        shown = visible(self.translate(line))
        self.console.print(shown, highlight=False, markup=False, style="dim")

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Bar]:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("[green]{task.fields[amount]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            _TimeLeft(due_time()),
            TextColumn("[cyan]{task.fields[note]}"),
        )

        def show(bar: _Bar) -> None:
            note = escape(visible(bar.note))
            progress.update(task, completed=bar.done, amount=bar.amount(), note=note)

        with Progress(*columns, console=self.console) as progress:
            bar = _Bar(show, REFRESH_INTERVAL_S, total, unit, done)
            name = escape(visible(title))
            task = progress.add_task(
                name, total=total, completed=int(done), amount=bar.amount(), note=""
            )
            yield bar
            show(bar)


class _TimeLeft(ProgressColumn):
    """The time that a job has left."""

    max_refresh = 0.5  # seconds; a faster estimate would flicker

    def __init__(self, due: float) -> None:
        super().__init__()
        self.due = due  # read here: columns are rendered in another thread

    def render(self, task: Task) -> Text:
        """Return hours, minutes and seconds."""
        left_s = task.time_remaining
        shown = (
            "-:--:--" if left_s is None else str(timedelta(seconds=int(_until(self.due, left_s))))
        )
        return Text(shown, style="progress.remaining")


class _Lines:
    """One line at intervals for each bar, and one when it ends."""

    @abstractmethod
    def say(self, line: str) -> None: ...

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Bar]:
        due = due_time()

        def show(bar: _Bar) -> None:
            parts = [bar.amount(), f"{bar.elapsed_s:.0f} s"]
            if total and bar.rate and bar.done < total:
                parts.append(f"{_until(due, (total - bar.done) / bar.rate):.0f} s left")
            parts += [bar.note] if bar.note else []
            self.say(f"{title}: {', '.join(parts)}")

        bar = _Bar(show, LINE_INTERVAL_S, total, unit, done)
        yield bar
        show(bar)


class LineDisplay(_Lines):
    """Plain lines on a console."""

    def __init__(self, console: Console, translate: Callable[[str], str] = str) -> None:
        self.console, self.translate = console, translate

    def say(self, line: str) -> None:
        shown = visible(self.translate(line))
        self.console.print(shown, highlight=False, markup=False, soft_wrap=True)


class LogDisplay(_Lines):
    """Lines in the log of a program."""

    def __init__(self, translate: Callable[[str], str]) -> None:
        self.translate = translate

    def say(self, line: str) -> None:
        level = logging.WARNING if line.startswith(WARNING) else logging.INFO
        LOGGER.log(level, "%s", visible(self.translate(line.removeprefix(WARNING))))


def _until(due: float, estimated_s: float) -> float:
    """Return the seconds left: as estimated, but not beyond the time when the job is due."""
    return max(0.0, min(estimated_s, due - time.monotonic()))


@dataclass
class _Bar:
    show: "Callable[[_Bar], None]"
    interval_s: float  # between two calls of `show`
    total: float | None
    unit: str
    done: float
    note: str = ""

    def __post_init__(self) -> None:
        self.done_before = self.done
        self.started = self.shown = time.monotonic()

    def advance(self, amount: float, note: str = "") -> None:
        self.done += amount
        self.note = note or self.note
        if time.monotonic() - self.shown > self.interval_s:
            self.shown = time.monotonic()
            self.show(self)

    @property
    def elapsed_s(self) -> float:
        return max(1e-9, time.monotonic() - self.started)

    @property
    def rate(self) -> float:
        return (self.done - self.done_before) / self.elapsed_s

    def amount(self) -> str:
        """Return amount done, total and rate: `120/400, 3.2 step/s`."""
        rate, unit = self.rate, self.unit
        if unit == "B":
            total = "" if self.total is None else f"/{self.total / 1e6:,.1f} MB"
            return f"{self.done / 1e6:,.1f} MB{total}, {rate / 1e6:.1f} MB/s"
        total = "" if self.total is None else f"/{self.total:,.0f}"
        speed = f"{rate:.1f} {unit}/s" if rate >= 1 or not rate else f"{1 / rate:.1f} s/{unit}"
        return f"{self.done:,.0f}{total}, {speed}"
