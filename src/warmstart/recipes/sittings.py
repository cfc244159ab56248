"""Sittings of a job, each a process of its own that can be killed at any moment.

They are forked from one process that has imported everything, so that a sitting begins at once;
requests and answers are lines of JSON. Knows nothing about why a sitting is killed.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.recipes.compare import compare
from warmstart.recipes.finetune import finetune
from warmstart.recipes.pretrain import pretrain
from warmstart.recipes.train_translator import train_translator
from warmstart.settings.base import Settings
from warmstart.settings.training import CompareConfig, FinetuneConfig, PretrainConfig
from warmstart.settings.translation import TrainTranslatorConfig

JOBS: dict[str, tuple[type[Settings], Callable[[Any], object]]] = {
    "pretrain": (PretrainConfig, pretrain),
    "finetune": (FinetuneConfig, finetune),
    "compare": (CompareConfig, compare),
    "train-translator": (TrainTranslatorConfig, train_translator),
}

# What a job imports only when it needs it; torch's optimizers import the first.
_PRELOADED = (
    "torch._dynamo",
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.compat.proto.summary_pb2",
    "tensorboard.summary.writer.record_writer",
    "sklearn.linear_model",
    "sklearn.feature_extraction.text",
)


class Sitting:
    """One process at work on a job."""

    def __init__(self, server: "Sittings", pid: int, log: Path) -> None:
        self._server, self.pid, self.log = server, pid, log

    @property
    def is_over(self) -> bool:
        """Tell whether the job came to its own end, well or not."""
        return _end_mark(self.log).exists()

    def kill(self) -> int:
        """Send SIGKILL; return how the process ended, 0 if it was quicker."""
        os.kill(self.pid, signal.SIGKILL)  # still ours: nobody has waited for it yet
        return self.wait()

    def wait(self) -> int:
        """Return the exit code once the process has ended; negative for a signal."""
        return int(self._server.ask("wait")["code"])

    def said(self) -> str:
        """Return what the job said."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Sittings:
    """The process that sittings are forked from; one sitting at a time."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "warmstart.recipes.sittings"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, command: str, settings: Mapping[str, Any], log: Path) -> Sitting:
        """Start a job in a process of its own."""
        _end_mark(log).unlink(missing_ok=True)
        request = {"command": command, "settings": dict(settings), "log": str(log)}
        return Sitting(self, int(self.ask(request)["pid"]), log)

    def ask(self, request: object) -> dict[str, Any]:
        """Send one line and return the answer."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise WarmstartError("the process that starts sittings has died")
        reply: dict[str, Any] = json.loads(answer)
        return reply

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._server.kill()
        self._server.communicate()


def _end_mark(log: Path) -> Path:
    return log.with_suffix(".end")


class _LogDisplay:
    """Writes what a job says to standard error, without bars."""

    def say(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def advance(self, amount: float, note: str = "") -> None: ...

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Any]:
        yield self


def _serve() -> None:
    """Fork a sitting for every request, and wait for it when told."""
    warnings.simplefilter("ignore", DeprecationWarning)  # no thread here has begun to work
    for module in _PRELOADED:
        importlib.import_module(module)
    pid = 0
    for line in sys.stdin:
        request = json.loads(line)
        if request == "wait":
            answer = {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}
        else:
            pid = os.fork()
            if pid == 0:
                os._exit(_sit(request))
            answer = {"pid": pid}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _sit(request: Mapping[str, Any]) -> int:
    """Do the job, with its output in the log; return the exit code."""
    log = Path(request["log"])
    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    settings, recipe = JOBS[request["command"]]
    code = 0
    try:
        with progress.shown_by(_LogDisplay()):
            recipe(settings.from_values(request["settings"]))
    except WarmstartError as error:
        sys.stderr.write(f"warmstart: {error}\n")
        code = 2
    except BaseException:
        traceback.print_exc()
        code = 1
    _end_mark(log).touch()
    return code


if __name__ == "__main__":
    _serve()
