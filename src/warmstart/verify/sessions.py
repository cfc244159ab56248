"""Sessions of a job, each a process of its own that can be killed at any moment.

They are forked from one process that has imported everything, so that a session starts at once;
requests and answers are lines of JSON.
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
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from warmstart import progress
from warmstart.errors import WarmstartError

# What a job imports only when it needs it; torch's optimizers import the first.
_PRELOADED = (
    "torch._dynamo",
    "tensorboard.compat.proto.event_pb2",
    "tensorboard.compat.proto.summary_pb2",
    "tensorboard.summary.writer.record_writer",
    "sklearn.linear_model",
    "sklearn.feature_extraction.text",
)


class Session:
    """One process that works on a job."""

    def __init__(self, server: "Sessions", pid: int, log: Path) -> None:
        self._server, self.pid, self.log = server, pid, log

    @property
    def is_over(self) -> bool:
        """Tell whether the job ended by itself, successfully or not."""
        return _end_mark(self.log).exists()

    def kill(self, victim: int | None = None) -> int:
        """Send SIGKILL to the process, or to one that it started; return its exit code."""
        self.send_kill(victim)
        return self.wait()

    def send_kill(self, victim: int | None = None) -> None:
        """Send SIGKILL without waiting for its effect."""
        with suppress(ProcessLookupError):  # a process that it started may have ended
            os.kill(victim or self.pid, signal.SIGKILL)  # its own id is ours until it is waited for

    def wait(self) -> int:
        """Return the exit code once the process has ended; negative for a signal."""
        return int(self._server.ask({"wait": self.pid})["code"])

    def output(self) -> str:
        """Return what the job printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Sessions:
    """The process that sessions are forked from."""

    def __init__(self, jobs: str, *preloaded: str) -> None:
        """Start it; `jobs` names a module with `run_job(command, settings)`."""
        self._server = subprocess.Popen(
            [sys.executable, "-m", "warmstart.verify.sessions", jobs, *preloaded],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, command: str, settings: Mapping[str, Any], log: Path) -> Session:
        """Start a job in a process of its own."""
        _end_mark(log).unlink(missing_ok=True)
        request = {"command": command, "settings": dict(settings), "log": str(log)}
        return Session(self, int(self.ask(request)["pid"]), log)

    def ask(self, request: object) -> dict[str, Any]:
        """Send one line and return the answer."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise WarmstartError("the process that starts sessions has ended")
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
    """Writes what a job prints to standard error, without bars."""

    def say(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def advance(self, amount: float, note: str = "") -> None: ...

    def bar(self, title: str, total: float | None, unit: str, done: float) -> Iterator[Any]:
        yield self


def _serve(jobs: str, *preloaded: str) -> None:
    """Fork a session for every request, and wait for it when asked."""
    warnings.simplefilter("ignore", DeprecationWarning)  # no thread here has begun to work
    run_job = importlib.import_module(jobs).run_job
    for module in (*_PRELOADED, *preloaded):
        importlib.import_module(module)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = {"code": os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])}
        else:
            pid = os.fork()
            if pid == 0:
                os._exit(_run(run_job, request))
            answer = {"pid": pid}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _run(run_job: Callable[[str, Mapping[str, Any]], object], request: Mapping[str, Any]) -> int:
    """Run the job with its output in the log; return the exit code."""
    log = Path(request["log"])
    with log.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    code = 0
    try:
        with progress.shown_by(_LogDisplay()):
            run_job(request["command"], request["settings"])
    except WarmstartError as error:
        sys.stderr.write(f"warmstart: {error}\n")
        code = 2
    except BaseException:
        traceback.print_exc()
        code = 1
    _end_mark(log).touch()
    return code


if __name__ == "__main__":
    _serve(*sys.argv[1:])
