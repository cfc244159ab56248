"""The application: its routes, and the guards around every request; the server that runs it."""

import asyncio
import hmac
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import uvicorn
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from warmstart.errors import WarmstartError
from warmstart.serving.commands import ServeConfig, is_loopback
from warmstart.serving.connections import (
    MOST_CONNECTIONS,
    Connection,
    SilentConnections,
    connection_limit,
)
from warmstart.serving.labelling import label_routes
from warmstart.serving.openai import openai_routes
from warmstart.serving.pages import monitor_routes, page_routes
from warmstart.serving.responses import RefusedError, answer_error, refusal
from warmstart.serving.routes import VERB_PATHS, post_routes
from warmstart.serving.service import LEFT, Metrics, Service

OPEN_PATHS = {"/", "/page.css", "/page.js", "/tables.js", "/health", "/docs", "/openapi.json"}
PORT = re.compile(r":\d*$")
DISCARDED = 64  # times the limit: a body is read so far and dropped; the client gets an error


def create_app(service: Service, token: str | None) -> Starlette:
    """Return the application with its guards, the outermost first."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_sync(service.close)

    verbs = post_routes(service, dict(VERB_PATHS.values()))
    documented = [
        *verbs,
        *openai_routes(service),
        *label_routes(service),
        *monitor_routes(service),
    ]
    routes = [*documented, *page_routes(documented)]
    paths = {route.endpoint: route.path for route in routes}
    guards = [Middleware(MetricsGuard, metrics=service.metrics, paths=paths)]
    if origins := service.config.allow_origin:
        anything: Any = {"allow_methods": ["*"], "allow_headers": ["*"]}
        guards.append(Middleware(CORSMiddleware, allow_origins=origins, **anything))
    if token:
        guards.append(Middleware(TokenGuard, token=token))
    elif service.config.is_local:
        # A web page could point its host name at this machine, and so read the answers.
        guards.append(Middleware(HostGuard))
    timeout_s = service.config.timeout
    guards.append(Middleware(LimitGuard, timeout_s=timeout_s, max_bytes=service.max_bytes))
    kinds = (RefusedError, WarmstartError, HTTPException, Exception)
    handlers: Any = dict.fromkeys(kinds, answer_error)
    return Starlette(
        routes=routes, middleware=guards, exception_handlers=handlers, lifespan=lifespan
    )


class MetricsGuard:
    """Counts and times every request."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Mapping[Any, str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status: list[Any] = []

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
            await send(message)

        started = time.perf_counter()
        try:
            await self.app(scope, receive, watch)
        finally:
            path = self.paths.get(scope.get("endpoint"), "other")  # no path that a client invents
            self.metrics.requests.labels(path, status[0] if status else LEFT).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)


class HostGuard:
    """Refuses requests under any name but those of this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            host = hosts[0].decode("latin-1") if len(hosts) == 1 else ""
            name = host.rpartition(":")[0] if PORT.search(host) else host
            if not is_loopback(name.removeprefix("[").removesuffix("]")):
                error = RefusedError(400, "this server answers only to the names of its machine")
                await refusal(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class TokenGuard:
    """Refuses requests without the token, except to the open paths, such as the page."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            received = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(received, self.expected):
                message = "this server needs a token: Authorization: Bearer TOKEN"
                error = RefusedError(401, message, {"WWW-Authenticate": "Bearer"})
                await refusal(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class LimitGuard:
    """Reads a whole body within its limits; then ends the work as soon as the client leaves."""

    def __init__(self, app: ASGIApp, timeout_s: float, max_bytes: int) -> None:
        self.app, self.timeout_s, self.max_bytes = app, timeout_s, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await self._read(receive)
        except RefusedError as error:
            await refusal(error)(scope, receive, send)
            return
        if body is not None:
            await self._answer(scope, body, receive, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """Return the body; None if the client left before its end."""
        body, num_bytes = bytearray(), 0
        try:
            async with asyncio.timeout(self.timeout_s):
                while num_bytes <= DISCARDED * self.max_bytes:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    num_bytes += len(message.get("body", b""))
                    if num_bytes <= self.max_bytes:
                        body += message.get("body", b"")
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            seconds = f"{self.timeout_s:g} seconds"
            raise RefusedError(408, f"the request did not arrive in {seconds}") from None
        if num_bytes > self.max_bytes:
            raise RefusedError(413, f"the request is larger than {self.max_bytes:,} bytes")
        return bytes(body)

    async def _answer(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application; cancel it when the client is gone."""
        parts: asyncio.Queue[Message] = asyncio.Queue()
        parts.put_nowait({"type": "http.request", "body": body, "more_body": False})
        work = asyncio.current_task()
        assert work is not None

        def leave(_: asyncio.Future[None]) -> None:
            work.cancel()

        gone = asyncio.ensure_future(_wait_for_disconnect(receive))
        gone.add_done_callback(leave)
        try:
            await self.app(scope, parts.get, send)
        except asyncio.CancelledError:
            if not gone.done():
                raise  # the server itself ends the work
        finally:
            gone.remove_done_callback(leave)
            gone.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WarmstartError(
            f"--host {host} --port {port} cannot be listened on ({reason}); choose another"
        ) from None


def url_of(listener: socket.socket) -> str:
    """Return the address of a socket for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_app(app: Starlette, listener: socket.socket, limits: ServeConfig) -> None:
    """Serve until SIGINT or SIGTERM; then take no more requests, and answer those accepted."""
    silent, most = SilentConnections(limits.max_silent), connection_limit()
    connection: Any = partial(Connection, silent=silent, most=most, timeout_s=limits.timeout)
    config = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        log_level="error",  # a warning for every request that is not HTTP would fill a disk
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client could write what it likes into them
        timeout_graceful_shutdown=max(1, round(limits.timeout)),
    )
    _Server(config).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends normally when a signal asks it to."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
