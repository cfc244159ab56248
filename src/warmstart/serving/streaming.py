"""Text that is sent while it grows, as server-sent events."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from fastapi.responses import StreamingResponse

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import to_json
from warmstart.results.predictions import GeneratedPiece
from warmstart.serving.refusals import RefusedError, error_values

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
