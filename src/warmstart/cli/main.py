"""The `warmstart` program: parse, run one command, turn errors into one line and an exit code."""

import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from warmstart import progress
from warmstart.cli import verbs
from warmstart.cli.display import LineDisplay, TerminalDisplay
from warmstart.errors import StoppedError, WarmstartError

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
verbs.add_all(app)


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


def main() -> None:
    """Run the command line."""
    # Set before torch is loaded. Waiting threads that spin for long make a step fifty times slower
    # when another program needs a core; threads that never spin make decoding twice as slow.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    console = Console(stderr=True)
    display = TerminalDisplay(console) if console.is_terminal else LineDisplay(console)
    try:
        with progress.shown_by(display):
            app()
    except WarmstartError as error:
        _exit(console, str(error), 130 if isinstance(error, StoppedError) else 2)
    except (MemoryError, RuntimeError) as error:
        from warmstart.runs.faults import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        _exit(console, "out of memory: use smaller batches or a smaller model", 2)
    except (TypeError, UnicodeEncodeError):  # tokenizers accept only valid text
        if all(map(_is_text, sys.argv)):
            raise
        _exit(console, "an argument is not valid UTF-8 text", 2)
    except KeyboardInterrupt:
        _exit(console, "stopped", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _exit(console, f"{where}{error.strerror or error}", 2)


def _is_text(argument: str) -> bool:
    return argument.isascii() or argument == argument.encode(errors="ignore").decode()


def _exit(console: Console, message: str, code: int) -> None:
    console.print(
        f"warmstart: {message}", style="red", highlight=False, markup=False, soft_wrap=True
    )
    sys.exit(code)
