"""A server in a process of its own, and a client that hides nothing."""

import json
import re
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from command_line import MACHINE
from forked_commands import Forked

READY = re.compile(r"serving on (http://\S+);")


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
    process: Forked

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
        ran = self.process.end(signal.SIGTERM)
        return ran.code, ran.out.strip()


@contextmanager
def serving(arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start `serve`, and end it if it has not ended by itself."""
    process = Forked(f"serve {arguments} --port 0 {MACHINE}", environment=environment)
    process.wait_until(lambda: READY.search(process.err) is not None)
    ready = READY.search(process.err)
    try:
        assert ready, process.err
        yield Server(ready[1], process)
    finally:
        if process.process.is_alive():
            process.end(signal.SIGKILL)


def connect(server: Server) -> socket.socket:
    """Open a connection on which a client may send what it likes."""
    parts = urlsplit(server.url)
    assert parts.hostname
    assert parts.port
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def head(path: str, length: int) -> bytes:
    """Return the head of a request with a body of so many bytes."""
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


@pytest.fixture(scope="session")
def server(base: Path, masked: Path, warm: Path, beginner: Path) -> Iterator[Server]:
    """Serve a run of every kind."""
    with serving(f"{base} {masked} sentiment={warm} fr={beginner}") as started:
        yield started
