"""The `warmstart` program: parse, run one command, turn errors into one line and an exit code."""

import functools
import os
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from warmstart.cli.process import discard_output, open_streams
from warmstart.commands import COMMANDS, Command, find
from warmstart.display import LineDisplay, TerminalDisplay
from warmstart.errors import ReportedError, StoppedError, WarmstartError, is_out_of_memory
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


class _Listed(TyperCommand):
    """A command in a list of commands; its options are built when it is called."""

    def __init__(self, entry: Command, panel: str) -> None:
        super().__init__(entry.name.split()[-1], help=entry.help, rich_help_panel=panel)
        self.entry = entry

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        from warmstart.cli.options import build_command

        return build_command(self.entry).make_context(info_name, args, parent, **extra)


class _Plan(TyperGroup):
    """`plan`, which takes a preset or run in place of a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, find("planning.commands:write_out")(args) if args else args)


GROUPS = {  # of commands whose names have two words
    "plan": typer.Typer(
        name="plan",
        cls=_Plan,
        help="Estimate FLOPs, memory and time of a training command, with the same settings. "
        "`plan PRESET` is short for `plan pretrain --preset PRESET`. `plan --on list` names the "
        "devices.",
        no_args_is_help=True,
    ),
    "look": typer.Typer(
        name="look",
        help="Show attention, masks, positions, searches, trainings, and what each part is for.",
        no_args_is_help=True,
    ),
}


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
def program() -> Any:
    """Return the program with the list of its commands."""
    top = get_group(app)
    groups = {name: get_group(group) for name, group in GROUPS.items()}
    for group in groups.values():
        group.rich_help_panel = "Look inside"
    for panel, commands in COMMANDS.items():
        for entry in commands:
            owner, _, name = entry.name.rpartition(" ")
            members = groups[owner].commands if owner else top.commands
            members[name] = _Listed(entry, "" if owner else panel)
    top.commands.update(groups)
    return top


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
    except (MemoryError, RuntimeError, ImportError) as error:
        if not is_out_of_memory(error):
            raise
        if isinstance(error, ImportError):
            remedy = "raise the limit of memory (ulimit -v), or install it where programs may run"
            _exit(console, f"a library cannot be loaded ({error}): {remedy}", 2)
        _exit(console, "out of memory: use a smaller model or batches", 2)
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
