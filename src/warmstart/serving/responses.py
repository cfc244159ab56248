"""Answers: refusals with their status, and streams."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import ValidationError
from pydantic_core import to_json as to_json_bytes
from starlette.exceptions import HTTPException

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import to_json
from warmstart.tasks.text_model import GeneratedPiece


class RefusedError(Exception):
    """A request that gets no answer but this one."""

    status = 400
    headers: Mapping[str, str] = {}


class UnknownError(RefusedError):
    """It asks for something that is not here."""

    status = 404


class SlowBodyError(RefusedError):
    """Its body did not arrive in time."""

    status = 408


class TooLargeError(RefusedError):
    """It is larger than the server allows."""

    status = 413


class NotJsonError(RefusedError):
    """Its body is not announced as JSON."""

    status = 415


class UnprocessableError(RefusedError):
    """Its JSON has another form than the endpoint expects."""

    status = 422


class BusyError(RefusedError):
    """Too much is waiting already."""

    status = 429
    headers: Mapping[str, str] = {"Retry-After": "1"}


class UnauthorizedError(RefusedError):
    """It does not carry the token."""

    status = 401
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class ClosingError(RefusedError):
    """The server is shutting down."""

    status = 503
    headers: Mapping[str, str] = {"Retry-After": "5"}


class DeadError(RefusedError):
    """The thread that would answer has died."""

    status = 503


class LateError(RefusedError):
    """The answer takes longer than the server allows."""

    status = 504


class Json(Response):
    """An answer as strict JSON: a number that is not finite becomes null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json_bytes(content, inf_nan_mode="null")  # a vector takes a tenth of json's time


def error_values(status: int, message: str) -> dict[str, Any]:
    """Return an error in the form that clients of OpenAI know."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def refused(error: RefusedError) -> Json:
    """Return the response to a request that is refused."""
    return Json(error_values(error.status, str(error)), error.status, dict(error.headers))


def handle_errors(app: FastAPI) -> None:
    """Turn every error of a route into one sentence."""

    @app.exception_handler(RefusedError)
    async def _(request: Request, error: RefusedError) -> Response:
        return refused(error)

    @app.exception_handler(WarmstartError)
    async def _(request: Request, error: WarmstartError) -> Response:
        return refused(RefusedError(str(error)))

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        message = f"{request.method} {request.url.path}: {error.detail}"
        return Json(error_values(error.status_code, message), error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def _(request: Request, error: Exception) -> Response:
        return Json(error_values(500, "the server failed; its log says why"), 500)


def unprocessable(error: ValidationError) -> RefusedError:
    """Return the first problem of a body."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return RefusedError(f"the body is not valid JSON: {first['ctx']['error']}")
    field = ".".join(map(str, first["loc"]))
    return UnprocessableError(f"{field or 'the body'}: {first['msg']}")


Pieces = AsyncGenerator[GeneratedPiece, None]


@dataclass(frozen=True)
class WholeText:
    """A generated text, complete."""

    text: str
    end: str | None
    num_tokens: int


async def whole(pieces: Pieces) -> WholeText:
    """Wait for a text to its end."""
    texts, end = [], None
    async with aclosing(pieces):
        async for piece in pieces:
            texts.append(piece.text)
            end = piece.end
    return WholeText("".join(texts), end, len(texts) - 1)


async def opened(pieces: Pieces) -> Pieces:
    """Wait for the first piece: what it fails with can still have its own status."""
    first = await anext(pieces)

    async def every() -> Pieces:
        async with aclosing(pieces):
            yield first
            async for piece in pieces:
                yield piece

    return every()


async def until(pieces: Pieces, stops: Sequence[str]) -> Pieces:
    """End a text before the first of these strings; no part of one is sent."""
    held = ""
    async with aclosing(pieces):
        async for piece in pieces:
            held += piece.text
            found = [at for at in (held.find(stop) for stop in stops) if at >= 0]
            if found:
                yield GeneratedPiece(held[: min(found)], "stop")
                return
            size = len(held) - (0 if piece.end else _num_pending(held, stops))
            yield GeneratedPiece(held[:size], piece.end)
            held = held[size:]


def _num_pending(text: str, stops: Sequence[str]) -> int:
    """Return how many characters at the end of a text may be the beginning of a stop string."""
    sizes = (size for stop in stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
    return max(sizes, default=0)


def event_stream(chunks: AsyncIterator[Mapping[str, Any]], last: str = "") -> StreamingResponse:
    """Send every chunk as an event, and `last` at the end."""

    async def events() -> AsyncIterator[str]:
        try:
            async for chunk in chunks:
                yield f"data: {to_json(chunk)}\n\n"
        except (RefusedError, WarmstartError) as error:  # the status is sent already
            yield f"data: {to_json(error_values(500, str(error)))}\n\n"
        if last:
            yield f"data: {last}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
