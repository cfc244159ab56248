"""Commands in processes of their own, forked from one that has imported everything.

They start at once; `command_line.spawn` starts Python anew. Knows nothing about what any test looks
for.
"""

import multiprocessing
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
import torch._dynamo  # optimizers import it, which takes seconds

from command_line import Ran
from warmstart.cli.main import main
from warmstart.comparison import compare
from warmstart.recipes import finetune, pretrain, train_translator
from warmstart.recipes import use as predict

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])
RECIPES = (compare, finetune, predict, pretrain, train_translator)  # imported once


class Forked:
    """A command that runs beside the test."""

    def __init__(
        self,
        command: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        **places: object,
    ) -> None:
        self._streams = tempfile.TemporaryDirectory()
        folder = Path(self._streams.name)
        for name, content in zip("012", (stdin, b"", b""), strict=True):
            (folder / name).write_bytes(content)
        work = shlex.split(command.format(**places)), folder, dict(environment or {})
        self.process: BaseProcess = CONTEXT.Process(target=_run, args=work)
        with importable():
            self.process.start()

    @property
    def pid(self) -> int:
        """Return its number."""
        assert self.process.pid is not None
        return self.process.pid

    @property
    def err(self) -> str:
        """Return what it has written to standard error so far."""
        return Path(self._streams.name, "2").read_text(encoding="utf-8")

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Wait for a moment in the life of the process, or for its end."""
        until = time.monotonic() + 60
        while self.process.is_alive() and not is_ready() and time.monotonic() < until:
            time.sleep(0.01)

    def end(self, number: int | None = None) -> Ran:
        """Send a signal, if any; return how the process ended."""
        if number is not None and self.process.is_alive():
            os.kill(self.pid, number)
        self.process.join(120)
        self.process.kill()
        folder = Path(self._streams.name)
        out, err = ((folder / name).read_text(encoding="utf-8") for name in "12")
        self._streams.cleanup()
        return Ran(self.process.exitcode or 0, out, err)


def fork(command: str, stdin: bytes = b"", **places: object) -> Ran:
    """Run one command to its end."""
    return Forked(command, stdin, **places).end()


def stop_when(is_ready: Callable[[], bool], command: str, **places: object) -> Ran:
    """Start a command, send it SIGTERM once it is ready, and return how it ended."""
    started = Forked(command, **places)
    started.wait_until(is_ready)
    return started.end(signal.SIGTERM)


@contextmanager
def importable() -> Iterator[None]:
    """Inside the block, the process that others are forked from finds the modules of the tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(Path(__file__).parent), os.pathsep)
        yield


def _run(arguments: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Run a command with its streams in files."""
    os.environ |= environment
    torch.set_num_threads(1)
    for number, mode in enumerate(("rb", "wb", "wb")):
        with (folder / str(number)).open(mode) as file:
            os.dup2(file.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", closefd=False)
        for number, mode in enumerate(("r", "w", "w"))
    )
    sys.argv = ["warmstart", *arguments]
    main()
