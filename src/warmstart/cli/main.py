"""The `warmstart` program: parse, run one command, turn errors into one line and an exit code."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command

from warmstart.cli.options import add_command
from warmstart.cli.process import discard_output, open_streams
from warmstart.commands import COMMANDS, find
from warmstart.display import LineDisplay, TerminalDisplay
from warmstart.errors import ReportedError, StoppedError, WarmstartError
from warmstart.formats import visible
from warmstart.progress import show_on, silence
from warmstart.signals import limit_spinning

app = typer.Typer(
    name="warmstart",
    help="Pretrain a small Transformer on your own text, fine-tune it on few labels, "
    "and measure what pretraining gained.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Plan(TyperGroup):
    """`plan`, which takes a preset or run in place of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, find("planning.commands:write_out")(args) if args else args)


GROUPS = {  # of commands whose names have two words
    "plan": typer.Typer(
        cls=_Plan,
        help="Estimate FLOPs, memory and time of a training command, with the same settings. "
        "`plan PRESET` is short for `plan pretrain --preset PRESET`. `plan --on list` names the "
        "devices.",
        no_args_is_help=True,
    ),
    "look": typer.Typer(
        help="Show attention, masks, positions, searches, trainings, and what each part is for.",
        no_args_is_help=True,
    ),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        name = command.name.split()[0]
        add_command(GROUPS.get(name, app), command, None if name in GROUPS else panel)
for name, group in GROUPS.items():
    app.add_typer(group, name=name, rich_help_panel="Look inside")


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from warmstart.version import package_version

        typer.echo(package_version())
        raise typer.Exit


VERSION = typer.Option(
    "--version", help="print the version", callback=_print_version, is_eager=True
)


@app.callback()
def common(version: Annotated[bool, VERSION] = False) -> None:
    """Small Transformers, pretrained on your own text."""


@functools.cache
def program() -> Callable[[], object]:
    """Return the program with all its commands; building their options takes a while."""
    return get_command(app)


def main() -> None:
    """Run the command line."""
    limit_spinning()
    console = Console(stderr=True)
    is_lead = not _is_launched() or os.environ.get("RANK") == "0"  # the lead process speaks for all
    try:
        open_streams()
        if not is_lead:
            discard_output()
        display = TerminalDisplay(console) if console.is_terminal else LineDisplay(console)
        with show_on(display) if is_lead else silence():
            program()()
    except ReportedError as error:
        sys.exit(error.exit_code)
    except StoppedError as stop:
        _exit(console, str(stop) if is_lead else "", 128 + stop.signal_number)
    except WarmstartError as error:
        _exit(console, str(error), 2)
    except (MemoryError, RuntimeError) as error:
        from warmstart.runs.lifecycle import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        _exit(console, "out of memory: use smaller batches or a smaller model", 2)
    except OSError as error:
        discard_output()
        where = f"{error.filename}: " if error.filename else ""
        _exit(console, f"{where}{error.strerror or error}", 2)


def _exit(console: Console, message: str, code: int) -> None:
    """Print an error, unless another process of the same training did, and end."""
    if message and _is_first_to_report():
        line = f"warmstart: {visible(message)}"
        console.print(line, style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)


def _is_launched() -> bool:
    """Tell whether a launcher started several processes of this command."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def _is_first_to_report() -> bool:
    if not _is_launched():
        return True
    from warmstart.processes import is_first_to_report  # imports torch

    return is_first_to_report()
