"""Results on standard output: tables, sentences, JSON, and the next command."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from warmstart import files
from warmstart.errors import WarmstartError
from warmstart.formats import shell_line, visible
from warmstart.jsonfiles import to_json

Row = Sequence[str]


def say(line: str) -> None:
    """Print one line without wrapping it."""
    Console().print(visible(line), highlight=False, markup=False, soft_wrap=True)


def say_next(wrote: object, command: str | None) -> None:
    """Print what a command wrote, and which command to run next, if one follows."""
    for line in (f"wrote {wrote}", command and f"next: warmstart {command}"):
        if line:
            Console().print(Text(visible(line), style="bold green"), soft_wrap=True)


def quote(path: object) -> str:
    """Return a path quoted for a shell."""
    return shell_line([str(path)])


def print_json(data: Any) -> None:
    """Print plain values as JSON."""
    typer.echo(to_json(data, indent=2))


def print_table(
    headers: Row, rows: Iterable[Row], title: str = "", totals: Sequence[Row] = ()
) -> None:
    """Print a table with names at the left and numbers at the right, then totals in bold."""
    table = Table(title=_plain(title), title_justify="left", header_style="bold")
    for number, header in enumerate(headers):
        is_left = not number or header == "formula"
        justify: JustifyMethod = "left" if is_left else "right"
        table.add_column(_plain(header), justify=justify, overflow="fold")  # no figure is cut off
    for row in rows:
        table.add_row(*map(_plain, row))
    table.add_section()
    for row in totals:
        table.add_row(*map(_plain, row), style="bold")
    Console().print(table)


def _plain(text: str) -> str:
    """Return text that neither the terminal nor the markup of tables interprets."""
    return escape(visible(text))


def write_lines(lines: Iterable[str], out: str | None) -> None:
    """Print lines as they arrive, or write all of them to a file at the end."""
    if out is None:
        is_shown = sys.stdout.isatty()
        for line in lines:
            typer.echo("\n".join(map(visible, line.split("\n"))) if is_shown else line)
        return
    if Path(out).is_dir():
        raise WarmstartError(f"-o {out} is a folder; name a file")
    files.write_lines(Path(out), lines)
    say(f"wrote {quote(out)}")
