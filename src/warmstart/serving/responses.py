"""Answers: JSON, errors with their status, and texts that grow piece by piece."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from pydantic_core import to_json as to_json_bytes
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import to_json
from warmstart.tasks.text_model import GeneratedPiece

Pieces = AsyncGenerator[GeneratedPiece, None]
MOST_CHARS = 1000  # of the message of an error, which may quote what a client sent


class RefusedError(Exception):
    """A request whose answer is a status and one sentence."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class Json(Response):
    """An answer as strict JSON: a number that is not finite becomes null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json_bytes(content, inf_nan_mode="null")  # a vector takes a tenth of json's time


def error_values(status: int, message: str) -> dict[str, Any]:
    """Return an error in the form that clients of OpenAI know."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    message = message if len(message) <= MOST_CHARS else f"{message[:MOST_CHARS]}…"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def refusal(error: RefusedError) -> Json:
    """Return the response to a request that is refused."""
    return Json(error_values(error.status, str(error)), error.status, error.headers)


async def answer_error(request: Request, error: Exception) -> Json:
    """Turn an error of a route into one sentence with its status."""
    match error:
        case RefusedError():
            return refusal(error)
        case WarmstartError():
            return refusal(RefusedError(400, str(error)))
        case HTTPException():
            # Not request.url, which fails where the Host header is not a host.
            message = f"{request.method} {request.scope['path']}: {error.detail}"
            return refusal(RefusedError(error.status_code, message, error.headers))
    return refusal(RefusedError(500, "the server failed; its log says why"))


async def read_whole(pieces: Pieces) -> GeneratedPiece:
    """Wait for the end of a text; return it in one piece."""
    async with aclosing(pieces):
        parts = [piece async for piece in pieces]
    return GeneratedPiece("".join(part.text for part in parts), parts[-1].end)


async def await_first(pieces: Pieces) -> Pieces:
    """Wait for the first piece, whose error can still have its own status; return all pieces."""
    first = await anext(pieces)

    async def every() -> Pieces:
        async with aclosing(pieces):
            yield first
            async for piece in pieces:
                yield piece

    return every()


class StopSearch:
    """Finds a stop string in a text that grows, in linear time (Knuth, Morris and Pratt 1977)."""

    def __init__(self, stop: str) -> None:
        self.stop, self.num_matched = stop, 0  # characters of it that the text ends with
        self._borders = [0]  # of each beginning: how much of it is also its end
        for char in stop[1:]:
            self._borders.append(self._extend(self._borders[-1], char))

    def read(self, char: str) -> bool:
        """Read one more character; return whether the text now ends with the stop string."""
        self.num_matched = self._extend(self.num_matched, char)
        return self.num_matched == len(self.stop)

    def _extend(self, num_matched: int, char: str) -> int:
        while num_matched and self.stop[num_matched] != char:
            num_matched = self._borders[num_matched - 1]
        return num_matched + (self.stop[num_matched] == char)


def stop_before(pieces: Iterable[GeneratedPiece], stops: Sequence[str]) -> Iterator[GeneratedPiece]:
    """End a text before the first complete stop string; no part of a stop string is yielded."""
    searches = [StopSearch(stop) for stop in stops]
    unsent = ""
    for piece in pieces:
        for char in piece.text:
            unsent += char
            if ends := [len(search.stop) for search in searches if search.read(char)]:
                yield GeneratedPiece(unsent[: -max(ends)], "stop")
                return
        num_pending = max((search.num_matched for search in searches), default=0)
        size = len(unsent) if piece.end else len(unsent) - num_pending
        yield GeneratedPiece(unsent[:size], piece.end)
        unsent = unsent[size:]


def event_stream(chunks: AsyncIterator[Mapping[str, Any]], last: str = "") -> StreamingResponse:
    """Send every chunk as a server-sent event, and `last` at the end."""

    async def events() -> AsyncIterator[str]:
        try:
            async for chunk in chunks:
                yield f"data: {to_json(chunk)}\n\n"
        except (RefusedError, WarmstartError) as error:  # the status is sent already
            yield f"data: {to_json(error_values(500, str(error)))}\n\n"
        if last:
            yield f"data: {last}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
