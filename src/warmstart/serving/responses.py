"""Answers: JSON, errors with their status, and texts that grow piece by piece."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
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
            message = f"{request.method} {request.url.path}: {error.detail}"
            return refusal(RefusedError(error.status_code, message, error.headers))
    return refusal(RefusedError(500, "the server failed; its log says why"))


async def read_whole(pieces: Pieces) -> tuple[GeneratedPiece, int]:
    """Wait for the end of a text; return the text in one piece, and its number of tokens."""
    async with aclosing(pieces):
        parts = [piece async for piece in pieces]
    return GeneratedPiece("".join(part.text for part in parts), parts[-1].end), len(parts) - 1


async def await_first(pieces: Pieces) -> Pieces:
    """Wait for the first piece, whose error can still have its own status; return all pieces."""
    first = await anext(pieces)

    async def every() -> Pieces:
        async with aclosing(pieces):
            yield first
            async for piece in pieces:
                yield piece

    return every()


async def stop_before(pieces: Pieces, stops: Sequence[str]) -> Pieces:
    """End a text before the first stop string; no part of a stop string is sent."""
    unsent = ""
    async with aclosing(pieces):
        async for piece in pieces:
            unsent += piece.text
            starts = [start for stop in stops if (start := unsent.find(stop)) >= 0]
            if starts:
                yield GeneratedPiece(unsent[: min(starts)], "stop")
                return
            size = len(unsent) - (0 if piece.end else _num_pending(unsent, stops))
            yield GeneratedPiece(unsent[:size], piece.end)
            unsent = unsent[size:]


def _num_pending(text: str, stops: Sequence[str]) -> int:
    """Return how many characters at the end of a text may be the beginning of a stop string."""
    sizes = (size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
    return max(sizes, default=0)


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
