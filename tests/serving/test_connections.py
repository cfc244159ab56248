"""Connections beyond the limits, and answers that nobody fetches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from warmstart.serving import connections
from warmstart.serving.app import listen
from warmstart.serving.connections import Connection, SilentConnections, connection_limit

LARGE = b"x" * 20_000_000


async def hang(request: Request) -> Response:
    await asyncio.sleep(60)
    return PlainTextResponse("at last")


async def answer(request: Request) -> Response:
    return PlainTextResponse(LARGE if request.url.path == "/large" else b"fine")


PATHS = {"/hang": hang, "/health": answer, "/other": answer, "/large": answer}


@asynccontextmanager
async def running(most: int, timeout_s: float) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """Run a server with few connections; yield it, and its port."""
    connection: Any = partial(
        Connection, silent=SilentConnections(0), most=most, timeout_s=timeout_s
    )
    app = Starlette(routes=[Route(path, function) for path, function in PATHS.items()])
    config = uvicorn.Config(app, http=connection, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(server._serve([listener]))
        while not server.started:
            await asyncio.sleep(0.01)
        yield server, listener.getsockname()[1]
        server.should_exit = True
        await serving


async def ask(port: int, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return reader, writer


def test_health_has_a_reserve_when_every_connection_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "RESERVED", 2)

    async def run() -> list[bytes]:
        async with running(most=3, timeout_s=60) as (server, port):
            busy = [await ask(port, "/hang") for _ in range(3)]
            while len(server.server_state.tasks) < 3:
                await asyncio.sleep(0.01)
            lines = []
            for path in ("/other", "/health"):
                reader, writer = await ask(port, path)
                lines.append(await reader.readline())
                writer.close()
            for _ in range(20):  # beyond the reserve
                busy.append(await asyncio.open_connection("127.0.0.1", port))
            reader, writer = await ask(port, "/health")
            lines.append(await reader.readline())  # the silent ones made room
            for _, writer in busy:
                writer.close()
            return lines

    statuses = [line.split()[1] for line in asyncio.run(run())]
    assert statuses == [b"503", b"200", b"200"]


def test_an_answer_that_nobody_fetches_ends_its_connection() -> None:
    async def run() -> None:
        async with running(most=10, timeout_s=0.5) as (server, port):
            reader, writer = await ask(port, "/large")
            await reader.readline()
            while server.server_state.connections:
                await asyncio.sleep(0.01)
            writer.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_large_answer_reaches_a_slow_client() -> None:
    async def run() -> int:
        async with running(most=10, timeout_s=60) as (_, port):
            reader, writer = await ask(port, "/large")
            await asyncio.sleep(0.5)
            answered = await reader.read(-1)
            writer.close()
            return len(answered)

    assert asyncio.run(run()) > len(LARGE)


def test_the_limit_of_connections_fits_the_limit_of_open_files() -> None:
    resource = pytest.importorskip("resource")
    limit = connection_limit()
    assert 32 <= limit <= connections.MOST_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == resource.RLIM_INFINITY or limit < soft
