"""A server as a user starts it, in a process of its own, and a client that hides nothing."""

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from product import ENVIRONMENT, MACHINE, arguments_of


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """Return the sentence of an error."""
        message: str = self.json["error"]["message"]
        return message


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[str]

    def get(self, path: str, **headers: str) -> Reply:
        return self.send(urllib.request.Request(self.url + path, headers=headers))

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **headers}
        return self.send(urllib.request.Request(self.url + path, content, headers))

    def send(self, request: urllib.request.Request) -> Reply:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Reply(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, error.read(), error.headers)

    def stop(self) -> tuple[int, str]:
        """Send SIGTERM; return the exit code and the last line on standard output."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out.strip()


@contextmanager
def serving(arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start `serve`, and end it if it has not ended by itself."""
    process = subprocess.Popen(
        arguments_of(f"serve {arguments} --port 0 {MACHINE}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **(environment or {})},
    )
    assert process.stderr
    said = ""
    for line in process.stderr:
        said += line
        if found := re.search(r"serving on (http://\S+);", line):
            break
    else:
        raise AssertionError(said)
    try:
        yield Server(found[1], process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def server(base: Path, masked: Path, warm: Path, beginner: Path) -> Iterator[Server]:
    """Serve a run of every kind."""
    with serving(f"{base} {masked} sentiment={warm} fr={beginner}") as started:
        yield started
