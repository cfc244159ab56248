"""The process around a command: its standard streams, and what ends it from outside."""

import codecs
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from warmstart.errors import StoppedError, WarmstartError, signal_of
from warmstart.signals import raise_on_signals

_BROKEN_PIPE = 128 + 13  # as shells count a process that SIGPIPE ends; Windows lacks the signal


def open_streams() -> None:
    """Refuse a closed standard output; let no character fail to be printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # or a file that is opened later would take its place
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until the process ends)
    codecs.register_error("unicode-escapes", _escape)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_free = os.name == "nt" and "PYTHONIOENCODING" not in os.environ
            # A pipe or a file gets the code page of Windows otherwise, which few texts fit into.
            stream.reconfigure(encoding="utf-8" if is_free else None, errors="unicode-escapes")
    if sys.stdout is None:
        raise WarmstartError(
            "standard output is closed, so the result would be lost: send it to a file, or to "
            f"{os.devnull}"
        )


def _escape(error: UnicodeError) -> tuple[str, int]:
    r"""Write characters that a stream cannot encode as \uXXXX, which is valid in JSON too."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[start : start + 2].hex() for start in range(0, len(units), 2))
    return "".join(rf"\u{pair}" for pair in pairs), error.end


def check_folder() -> None:
    """Refuse a current folder that was deleted: libraries fail in it without saying why."""
    try:
        os.getcwd()
    except OSError:
        raise WarmstartError(
            "the current folder no longer exists: go to one that does, then run the command again"
        ) from None


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn signals into an error; end quietly if nobody reads the output any more."""
    try:
        with raise_on_signals():
            yield
            sys.stdout.flush()
    except KeyboardInterrupt as stop:
        number = signal_of(stop)
        raise StoppedError(f"stopped by {signal.Signals(number).name}", number) from None
    except BrokenPipeError:
        discard_output()
        sys.exit(_BROKEN_PIPE)


def discard_output() -> None:
    """Forget what cannot be written to standard output, so that it fails only once."""
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):  # standard output has no number in tests
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
