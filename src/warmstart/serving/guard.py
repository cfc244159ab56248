"""What surrounds every request, as ASGI middleware: a token, limits of size and time."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from warmstart.serving.responses import (
    RefusedError,
    SlowBodyError,
    TooLargeError,
    UnauthorizedError,
    refused,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN_PATHS = {"/", "/page.css", "/page.js", "/health", "/docs", "/openapi.json"}
DISCARDED = 64  # times the limit: so much of a body is read in vain, so that the client gets a word


@dataclass(frozen=True)
class RequestLimits:
    """How large a request may be, and how long it may take."""

    max_bytes: int = 1_000_000
    max_texts: int = 256
    timeout_s: float = 60.0

    def check_texts(self, num_texts: int) -> None:
        """Refuse too many texts."""
        if num_texts > self.max_texts:
            raise TooLargeError(
                f"{num_texts:,} texts are too many: a request may have {self.max_texts:,}"
            )


class TokenGuard:
    """Lets only requests pass that carry the token; the page itself is open."""

    def __init__(self, app: App, token: str) -> None:
        self.app, self.expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self.expected):
                error = UnauthorizedError("this server needs a token: Authorization: Bearer TOKEN")
                await refused(error)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class LimitGuard:
    """Reads a whole body within its limits; then ends the work as soon as the client leaves."""

    def __init__(self, app: App, limits: RequestLimits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            body = await self._read(receive)
        except RefusedError as error:
            await refused(error)(scope, receive, send)
            return
        if body is not None:
            await self._answer(scope, body, receive, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """Return the body; None if the client left before its end."""
        body, num_bytes, limit = bytearray(), 0, self.limits.max_bytes
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                while num_bytes <= DISCARDED * limit:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    num_bytes += len(message.get("body", b""))
                    if num_bytes <= limit:
                        body += message.get("body", b"")
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise SlowBodyError(
                f"the request did not arrive in {self.limits.timeout_s:g} seconds"
            ) from None
        if num_bytes > limit:
            raise TooLargeError(f"the request is larger than {limit:,} bytes")
        return bytes(body)

    async def _answer(self, scope: Message, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application; cancel it when the client is gone."""
        parts: asyncio.Queue[Message] = asyncio.Queue()
        parts.put_nowait({"type": "http.request", "body": body, "more_body": False})
        work = asyncio.current_task()
        assert work is not None

        def leave(_: asyncio.Future[None]) -> None:
            work.cancel()

        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(leave)
        try:
            await self.app(scope, parts.get, send)
        except asyncio.CancelledError:
            if not gone.done():
                raise  # the server itself ends the work
        finally:
            gone.remove_done_callback(leave)
            gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
