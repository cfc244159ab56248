"""Sessions of a job, each a process of its own that can be killed at any moment.

They are forked from a server that has imported everything, so that a session starts at once.
"""

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from warmstart import progress
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.compare import compare
from warmstart.errors import WarmstartError
from warmstart.interop.commands import ExportConfig, ImportConfig
from warmstart.interop.exchange import export_model, import_model
from warmstart.pool import block_signals, hide_script
from warmstart.recipes.finetune import finetune
from warmstart.recipes.prepare_files import make_tokenizer
from warmstart.recipes.pretrain import pretrain
from warmstart.recipes.train_translator import train_translator
from warmstart.settings.base import Settings
from warmstart.settings.training import FinetuneConfig, PretrainConfig, TrainTranslatorConfig
from warmstart.settings.using import TokenizerConfig

JOBS: dict[str, tuple[type[Settings], Callable[[Any], object]]] = {
    "pretrain": (PretrainConfig, pretrain),
    "finetune": (FinetuneConfig, finetune),
    "compare": (CompareConfig, compare),
    "train-translator": (TrainTranslatorConfig, train_translator),
}
WRITERS: dict[str, tuple[type[Settings], Callable[[Any], object]]] = {  # of whole folders
    "tokenizer": (TokenizerConfig, make_tokenizer),
    "import": (ImportConfig, import_model),
    "export": (ExportConfig, export_model),
}
# What a job imports only when it needs it; torch's optimizers import the first.
PRELOADED = (
    __name__,
    "torch._dynamo",
    "sklearn.linear_model",
    "sklearn.feature_extraction.text",
)


class Session:
    """One process that works on a job; what it prints goes to a log."""

    def __init__(self, command: str, settings: Mapping[str, Any], log: Path) -> None:
        """Start the process."""
        self.log = log
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        self._process = context.Process(target=_run, args=(command, dict(settings), log))
        with block_signals(), hide_script():
            self._process.start()

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_over(self) -> bool:
        """Tell whether the process has ended."""
        return self._process.exitcode is not None

    def kill(self, victim: int | None = None) -> int:
        """Send SIGKILL to the process, or to one that it started; return its exit code."""
        self.send_kill(victim)
        return self.wait()

    def send_kill(self, victim: int | None = None) -> None:
        """Send SIGKILL without waiting for its effect."""
        with suppress(ProcessLookupError):  # it may have ended
            os.kill(victim or self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Return the exit code once the process has ended; negative for a signal."""
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def close(self) -> None:
        """End the process if it has not ended."""
        if not self.is_over:
            self.kill()

    def output(self) -> str:
        """Return what the job printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def _run(command: str, settings: dict[str, Any], log: Path) -> None:
    """Run the job with its output in the log, and end this process with its exit code."""
    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    Thread(target=_end_with_parent, daemon=True).start()
    config, recipe = (JOBS | WRITERS)[command]
    code = 0
    try:
        with progress.show_on(_LogDisplay()):
            recipe(config.from_values(settings))
    except WarmstartError as error:
        sys.stderr.write(f"warmstart: {error}\n")
        code = 2
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def _end_with_parent() -> None:
    """End this process as soon as the verifying process has ended, even by a kill."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


class _LogDisplay:
    """Writes what a job prints to standard error, without bars."""

    def say(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def advance(self, amount: float, note: str = "") -> None: ...

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Any]:
        yield self
