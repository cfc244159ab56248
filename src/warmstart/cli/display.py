"""Progress with rate and time left: live bars on a terminal, plain lines in a log."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from warmstart.progress import Bar

LINE_INTERVAL_S = 20.0  # between two lines about one bar


class TerminalDisplay:
    """Live bars."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, line: str) -> None:
        """Show one finished line."""
        self.console.print(line, highlight=False, markup=False, style="dim")

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Bar]:
        """Yield a live bar."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            _AmountColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("[cyan]{task.fields[note]}"),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(
                title, total=total, completed=int(done), note="", unit=unit, start_at=done
            )
            yield _LiveBar(progress, task)


class _LiveBar:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self.progress, self.task = progress, task

    def advance(self, amount: float, note: str = "") -> None:
        self.progress.update(self.task, advance=amount)
        if note:
            self.progress.update(self.task, note=note)


class _AmountColumn(ProgressColumn):
    """Show amount done, total and rate: `120/400, 3.2 step/s`."""

    def render(self, task: Task) -> Text:
        unit = task.fields["unit"]
        total = "" if task.total is None else f"/{_amount(task.total, unit)}"
        done = task.completed - task.fields["start_at"]
        rate = done / task.elapsed if task.elapsed else 0.0
        return Text(f"{_amount(task.completed, unit)}{total}, {_rate(rate, unit)}", style="green")


class LineDisplay:
    """Plain lines, for logs."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, line: str) -> None:
        """Show one finished line."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Bar]:
        """Yield a bar that writes a line at intervals, and one at the end."""
        bar = _LineBar(self, title, total, unit, done)
        yield bar
        bar.write()


@dataclass
class _LineBar:
    display: LineDisplay
    title: str
    total: float | None
    unit: str
    done: float
    note: str = ""

    def __post_init__(self) -> None:
        self.done_before = self.done
        self.started = self.written = time.monotonic()

    def advance(self, amount: float, note: str = "") -> None:
        self.done += amount
        self.note = note or self.note
        if time.monotonic() - self.written > LINE_INTERVAL_S:
            self.write()

    def write(self) -> None:
        self.written = time.monotonic()
        elapsed = max(1e-9, self.written - self.started)
        rate = (self.done - self.done_before) / elapsed
        total = "" if self.total is None else f"/{_amount(self.total, self.unit)}"
        left = ""
        if self.total and rate and self.done < self.total:
            left = f", {(self.total - self.done) / rate:.0f} s left"
        note = f", {self.note}" if self.note else ""
        progress = f"{_amount(self.done, self.unit)}{total}, {_rate(rate, self.unit)}"
        self.display.say(f"{self.title}: {progress}, {elapsed:.0f} s{left}{note}")


def _amount(value: float, unit: str) -> str:
    return f"{value / 1e6:,.1f} MB" if unit == "B" else f"{value:,.0f}"


def _rate(rate: float, unit: str) -> str:
    if unit == "B":
        return f"{rate / 1e6:.1f} MB/s"
    return f"{rate:.1f} {unit}/s" if rate >= 1 or not rate else f"{1 / rate:.1f} s/{unit}"
