"""Units of work for a model's thread: texts to answer together, and text that is generated."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from warmstart.inference.text_model import TextSize
from warmstart.results.predictions import GeneratedPiece
from warmstart.serving.calls import Call


def hand_over(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: Any) -> None:
    """Call a function in the event loop, from another thread."""
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(function, *args)


@dataclass(frozen=True)
class Answer:
    """One result for every text of a request, and how much was read."""

    results: Sequence[Any]
    sizes: Sequence[TextSize]

    @property
    def num_tokens(self) -> int:
        """Return how many tokens were read."""
        return sum(size.num_tokens for size in self.sizes)

    @property
    def num_truncated(self) -> int:
        """Return how many texts were too long."""
        return sum(size.is_truncated for size in self.sizes)


@dataclass(eq=False)
class Job:
    """The texts of one request, and where its answer is awaited."""

    call: Call
    texts: Sequence[str]
    texts2: Sequence[str] | None
    future: asyncio.Future[Answer]
    sizes: Sequence[TextSize] = ()  # of each text; counted when its turn comes near

    @property
    def num_tokens(self) -> int:
        """Return how many tokens are to be read, once they are counted."""
        return sum(size.num_tokens for size in self.sizes)

    def joins(self, other: "Job") -> bool:
        """Tell whether both can be computed together."""
        has_pairs, others_has = self.texts2 is not None, other.texts2 is not None
        return self.call == other.call and has_pairs == others_has

    def settle(self, outcome: Answer | Exception) -> None:
        """Hand over the answer, unless nobody waits for it any more; runs in the event loop."""
        if self.future.done():
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


@dataclass(eq=False)
class GrowingText:
    """One text that grows piece by piece, and the queue of what is not yet sent.

    The model never waits for a slow client: the queue holds at most the tokens of one text.
    """

    start: Callable[[], Iterator[GeneratedPiece]]
    loop: asyncio.AbstractEventLoop
    is_cancelled: bool = False
    _pieces: asyncio.Queue[GeneratedPiece | Exception] = field(default_factory=asyncio.Queue)
    _source: Iterator[GeneratedPiece] | None = None

    def advance(self) -> bool:
        """Compute one piece in the model's thread; return whether more may follow."""
        if self.is_cancelled:
            return False
        outcome: GeneratedPiece | Exception
        try:
            self._source = self._source or self.start()
            outcome = next(self._source)
        except Exception as error:  # it ends this text, not the thread
            outcome = error
        hand_over(self.loop, self._pieces.put_nowait, outcome)
        return isinstance(outcome, GeneratedPiece) and outcome.end is None

    def refuse(self, error: Exception) -> None:
        """End the text with an error."""
        hand_over(self.loop, self._pieces.put_nowait, error)

    async def pieces(self, timeout_s: float) -> AsyncIterator[GeneratedPiece]:
        """Yield every piece; the time limit is for each. Leaving early stops the computing."""
        try:
            while True:
                async with asyncio.timeout(timeout_s):
                    outcome = await self._pieces.get()
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome
                if outcome.end is not None:
                    return
        finally:
            self.is_cancelled = True
