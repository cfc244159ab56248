"""The thread of one model: takes the requests that wait, as many as a token budget allows.

Nothing waits for a batch to fill: a batch starts once the event loop has sent the answers of the
last one and read the requests that have arrived.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any

from warmstart.serving.responses import RefusedError
from warmstart.tasks.text_model import GeneratedPiece, TextModel, TextSize

MOST_STREAMS = 16  # texts generated in turns; each keeps its keys and values in memory
QUIET_TURNS = 2  # of the event loop: bytes that arrive in one turn are a request in the next
LONGEST_S = 0.02  # longest wait of a batch for requests to stop arriving


@dataclass(frozen=True)
class Answer:
    """One result for every text of a request, and how much was read."""

    model: str  # the name of the run
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


@dataclass(frozen=True)
class Call:
    """A verb with its options; equal calls are computed together."""

    verb: str
    options: Mapping[str, Any] = field(default_factory=dict)  # other options have their defaults

    def __call__(
        self, model: TextModel, texts: Sequence[str], texts2: Sequence[str] | None
    ) -> Sequence[Any]:
        """Return one result for every text."""
        method = getattr(model, self.verb)
        if self.verb == "attention":  # the one verb that reads a single text
            seconds: Sequence[str | None] = texts2 or [None] * len(texts)
            pairs = zip(texts, seconds, strict=True)
            return [method(text, text2, **self.options) for text, text2 in pairs]
        pair = {} if texts2 is None else {"texts2": texts2}
        results: Sequence[Any] = method(texts, **pair, **self.options)
        return results


@dataclass(eq=False)
class Job:
    """The texts of one request, and the future of its answer."""

    call: Call
    texts: Sequence[str]
    texts2: Sequence[str] | None
    future: asyncio.Future[Answer]
    sizes: Sequence[TextSize] = ()  # of each text; counted when its turn comes near

    @property
    def num_tokens(self) -> int:
        """Return how many tokens are to be read, once they are counted."""
        return sum(size.num_tokens for size in self.sizes)

    def is_like(self, other: "Job") -> bool:
        """Tell whether both jobs can be computed together."""
        return self.call == other.call and (self.texts2 is None) == (other.texts2 is None)

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
        except Exception as error:  # an error ends this text, not the thread
            outcome = error
        hand_over(self.loop, self._pieces.put_nowait, outcome)
        return isinstance(outcome, GeneratedPiece) and outcome.end is None

    def refuse(self, error: Exception) -> None:
        """End the text with an error."""
        hand_over(self.loop, self._pieces.put_nowait, error)

    async def pieces(self, timeout_s: float) -> AsyncIterator[GeneratedPiece]:
        """Yield every piece, each within the time limit; leaving early stops the generation."""
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


class Worker:
    """Computes the answers of one model in a thread of its own."""

    def __init__(
        self,
        model: TextModel,
        batch_tokens: int = 8192,  # computed together
        max_queue: int = 1024,  # texts that may wait
        observe: Callable[[int, int], None] = lambda num_texts, num_tokens: None,
    ) -> None:
        self.model, self._observe = model, observe
        self.batch_tokens, self.max_queue = batch_tokens, max_queue
        self._jobs: list[Job] = []
        self._streams: list[GrowingText] = []
        self._num_waiting = 0
        self._changed = threading.Condition()
        self._is_ready = self._is_closing = self._is_dead = False
        self._num_arrived = 0
        self._gathering: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._work, name=model.name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Tell whether the thread can still answer."""
        return self._thread.is_alive()

    @property
    def num_waiting(self) -> int:
        """Return how many texts wait or are being generated."""
        return self._num_waiting

    def submit(
        self, call: Call, texts: Sequence[str], texts2: Sequence[str] | None = None
    ) -> asyncio.Future[Answer]:
        """Queue texts; a caller who no longer wants the answer cancels the future."""
        loop = asyncio.get_running_loop()
        job = Job(call, texts, texts2, loop.create_future())
        with self._changed:
            self._admit(len(texts))
            self._jobs.append(job)
        self._num_arrived += 1
        self._start_gathering()
        return job.future

    def stream(self, start: Callable[[], Iterator[GeneratedPiece]]) -> GrowingText:
        """Queue a text to generate."""
        stream = GrowingText(start, asyncio.get_running_loop())
        with self._changed:
            self._admit(1)
            self._streams.append(stream)
            self._changed.notify()
        return stream

    def close(self) -> None:
        """Finish the accepted requests, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join()

    def _admit(self, num_texts: int) -> None:
        if self._is_dead:
            raise self._death()
        if self._is_closing:
            raise RefusedError(503, "the server is shutting down", {"Retry-After": "5"})
        if self._num_waiting + num_texts > self.max_queue:
            raise RefusedError(
                429,
                f"{self._num_waiting:,} texts are waiting for {self.model.name}, which takes "
                f"{self.max_queue:,}: try again in a second",
                {"Retry-After": "1"},
            )
        self._num_waiting += num_texts

    def _start_gathering(self) -> None:
        """Let the next batch start soon; runs in the event loop."""
        if self._gathering is None or self._gathering.done():
            self._gathering = asyncio.get_running_loop().create_task(self._gather())

    async def _gather(self) -> None:
        """Let the next batch start when requests have stopped arriving."""
        loop, num_quiet = asyncio.get_running_loop(), 0
        until = loop.time() + LONGEST_S
        while num_quiet < QUIET_TURNS and loop.time() < until:
            num_arrived = self._num_arrived
            await asyncio.sleep(0)
            num_quiet = num_quiet + 1 if num_arrived == self._num_arrived else 0
        with self._changed:
            self._is_ready = True
            self._changed.notify()

    def _work(self) -> None:
        try:
            while self._wait():
                self._advance_streams()
                if jobs := self._take():
                    self._answer(jobs)
        except BaseException:  # such as a panic in a library's Rust code: the thread dies
            with self._changed:
                self._is_dead = True
                self._num_waiting = 0
            self._refuse(self._jobs)
            for stream in self._streams:
                stream.refuse(self._death())
            raise

    def _refuse(self, jobs: Sequence[Job]) -> None:
        """Settle jobs with the error that the thread has died."""
        for job in jobs:
            hand_over(job.future.get_loop(), job.settle, self._death())

    def _death(self) -> RefusedError:
        name = self.model.name
        return RefusedError(503, f"the thread of {name} has died: the server must be restarted")

    def _wait(self) -> bool:
        """Wait for work; return whether there is any."""
        with self._changed:
            self._changed.wait_for(
                lambda: (self._jobs and self._is_ready) or self._streams or self._is_closing
            )
            return bool(self._jobs or self._streams)

    def _advance_streams(self) -> None:
        """Compute one token of each text that is being generated."""
        finished = [stream for stream in self._streams[:MOST_STREAMS] if not stream.advance()]
        with self._changed:
            self._streams = [stream for stream in self._streams if stream not in finished]
            self._num_waiting -= len(finished)

    def _take(self) -> list[Job]:
        """Take the first job, and later ones that can be computed with it within the budget."""
        with self._changed:
            self._is_ready = False  # until the answers are sent
            waiting = [job for job in self._jobs if not job.future.done()]
        waiting = [job for job in waiting if job.is_like(waiting[0])]
        self._measure(waiting)
        totals = accumulate(job.num_tokens for job in waiting)
        num_fitting = sum(total <= self.batch_tokens for total in totals)
        batch = waiting[: max(1, num_fitting)]
        with self._changed:
            kept = [job for job in self._jobs if job not in batch and not job.future.done()]
            self._num_waiting -= sum(len(job.texts) for job in self._jobs)
            self._num_waiting += sum(len(job.texts) for job in kept)
            self._jobs = kept
        return batch

    def _measure(self, jobs: Sequence[Job]) -> None:
        """Count the tokens of jobs; one whose texts cannot be read fails when it is computed."""
        jobs = [job for job in jobs if not job.sizes]
        if not jobs:
            return
        try:
            sizes = iter(self.model.measure(*_texts(jobs)))
        except Exception:
            if len(jobs) > 1:
                for job in jobs:
                    self._measure([job])
            return
        for job in jobs:
            job.sizes = list(islice(sizes, len(job.texts)))

    def _answer(self, jobs: Sequence[Job]) -> None:
        """Compute jobs together, and hand over their answers together."""
        try:
            outcomes = self._outcomes(jobs)
        except BaseException:
            self._refuse(jobs)
            raise
        hand_over(jobs[0].future.get_loop(), self._settle, jobs, outcomes)

    def _settle(self, jobs: Sequence[Job], outcomes: Sequence[Answer | Exception]) -> None:
        """Give every job its outcome, then start on the jobs that wait; runs in the event loop."""
        for job, outcome in zip(jobs, outcomes, strict=True):
            job.settle(outcome)
        if self._jobs:
            self._start_gathering()

    def _outcomes(self, jobs: Sequence[Job]) -> Sequence[Answer | Exception]:
        """Compute jobs together; if that fails, one by one, so that no job spoils the others."""
        try:
            return self._compute(jobs)
        except Exception as error:
            if len(jobs) == 1:
                return [error]
        return [outcome for job in jobs for outcome in self._outcomes([job])]

    def _compute(self, jobs: Sequence[Job]) -> list[Answer]:
        texts, texts2 = _texts(jobs)
        self._observe(len(texts), sum(job.num_tokens for job in jobs))
        results = jobs[0].call(self.model, texts, texts2)
        ends = list(accumulate(len(job.texts) for job in jobs))
        return [
            Answer(self.model.name, results[end - len(job.texts) : end], job.sizes)
            for job, end in zip(jobs, ends, strict=True)
        ]


def _texts(jobs: Sequence[Job]) -> tuple[list[str], list[str] | None]:
    """Return the texts of jobs, and their second texts if they are pairs."""
    texts = [text for job in jobs for text in job.texts]
    if jobs[0].texts2 is None:
        return texts, None
    return texts, [text for job in jobs for text in job.texts2 or ()]


def hand_over(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: Any) -> None:
    """Call a function in the event loop, from another thread."""
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(function, *args)
