"""The thread of one model: takes the requests that wait, as many as a token budget allows.

Nothing waits for a batch to fill: a batch starts once the event loop has sent the answers of the
last one and read the requests that have arrived. A request beyond the budget is computed in parts,
small ones between them; what nobody waits for any more is not begun.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from typing import Any

from warmstart.serving.responses import RefusedError
from warmstart.tasks.text_model import GeneratedPiece, TextModel, TextSize

MOST_STREAMS = 16  # texts generated in turns; each keeps its keys and values in memory
QUIET_TURNS = 2  # of the event loop: bytes that arrive in one turn are a request in the next
LONGEST_S = 0.02  # longest wait of a batch for requests to stop arriving
MEASURED_CHARS = 200_000  # counted in tokens before a batch, so that long texts delay few others
PART_CHARS = 40_000  # of one request that are counted together
YIELDED = 16  # a request beyond the budget takes this part of it while others are served, too
RECENT_S = 1.0  # since others were served: their next requests may be on their way


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
    cost: int = 1  # of one token, in the budget of a batch
    # Refuses sizes that are too much for one request, before anything is computed.
    check: Callable[[Any, Sequence[TextSize]], None] | None = field(default=None, compare=False)

    def measure(
        self, model: Any, texts: Sequence[str], texts2: Sequence[str] | None
    ) -> Sequence[TextSize]:
        """Return how much is read of each text."""
        if self.verb == "translate":  # what is too long is not cut, but translated in parts
            return [TextSize(len(ids)) for ids in model.tokenizer.encode(texts)]
        sizes: Sequence[TextSize] = model.measure(texts, texts2)
        return sizes

    def __call__(
        self,
        model: TextModel,
        texts: Sequence[str],
        texts2: Sequence[str] | None,
        first_number: int = 1,
    ) -> Sequence[Any]:
        """Return one result for every text; errors number the texts from `first_number`."""
        method = getattr(model, self.verb)
        if self.verb == "attention":  # the one verb that reads a single text
            seconds: Sequence[str | None] = texts2 or [None] * len(texts)
            pairs = zip(texts, seconds, strict=True)
            return [method(text, text2, **self.options) for text, text2 in pairs]
        pair = {} if texts2 is None else {"texts2": texts2}
        numbered = {"first_number": first_number} if self.verb == "fill_mask" else {}
        results: Sequence[Any] = method(texts, **pair, **self.options, **numbered)
        return results


@dataclass(eq=False)
class Job:
    """The texts of one request, and the future of its answer."""

    call: Call
    texts: Sequence[str]
    texts2: Sequence[str] | None
    future: asyncio.Future[Answer]
    sizes: list[TextSize] = field(default_factory=list)  # of the texts whose turn is near
    results: list[Any] = field(default_factory=list)  # of the texts that are computed
    num_taken: int = 0  # texts that are computed, or in the batch that is being computed

    @cached_property
    def num_chars(self) -> int:
        """Return how long all texts are."""
        return sum(map(len, [*self.texts, *(self.texts2 or ())]))

    @property
    def num_left(self) -> int:
        """Return how many texts are still to be taken."""
        return 0 if self.future.done() else len(self.texts) - self.num_taken

    @property
    def batch(self) -> slice:
        """Return which texts are being computed."""
        return slice(len(self.results), self.num_taken)

    @property
    def num_tokens(self) -> int:
        """Return how many tokens the texts being computed have, if they could be counted."""
        return sum(size.num_tokens for size in self.sizes[self.batch])

    def costs(self) -> Iterator[int]:
        """Return an iterator over the sums of what the next text costs, the next two, and so on."""
        sizes = self.sizes[self.num_taken :]
        return accumulate(self.call.cost * size.num_tokens for size in sizes)

    def uncounted(self) -> Sequence[slice]:
        """Return which texts to count next, if any: a part of them, unless all are checked."""
        start = len(self.sizes)
        if start > self.num_taken or start == len(self.texts):
            return []
        if self.call.check is not None:
            return [slice(start, len(self.texts))]
        totals = accumulate(map(len, self.texts[start:]))
        num_texts = max(1, sum(total <= PART_CHARS for total in totals))
        return [slice(start, start + num_texts)]

    def fits(self, budget: int) -> bool:
        """Tell whether a job that is not begun is known to fit into a budget."""
        is_counted = len(self.sizes) in (0, len(self.texts))  # 0: they cannot be counted
        return is_counted and not self.num_taken and max(self.costs(), default=0) <= budget

    def take(self, budget: int) -> int:
        """Take the texts that fit into a budget, at least one; return what they cost."""
        costs = list(self.costs())
        if not costs:  # they could not be counted
            self.num_taken = len(self.texts)
            return budget
        num_texts = max(1, sum(cost <= budget for cost in costs))
        self.num_taken += num_texts
        return costs[num_texts - 1]

    def answer(self, name: str) -> Answer | None:
        """Return the answer, once every text is computed."""
        is_whole = len(self.results) == len(self.texts)
        return Answer(name, self.results, self.sizes) if is_whole else None

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
    """The texts of one request, which grow one after the other, and the queue of what is not sent.

    The model never waits for a slow client: the queue holds at most the tokens of one request.
    """

    start: Callable[[], Iterator[GeneratedPiece]]
    num_texts: int  # the last piece of each says why it ends
    loop: asyncio.AbstractEventLoop
    is_cancelled: bool = False
    num_ended: int = 0
    _pieces: asyncio.Queue[GeneratedPiece | Exception] = field(default_factory=asyncio.Queue)
    _source: Iterator[GeneratedPiece] | None = None

    def advance(self) -> bool:
        """Compute one piece in the model's thread; return whether more may follow."""
        outcome: GeneratedPiece | Exception
        try:
            self._source = self._source or self.start()
            outcome = next(self._source)
        except Exception as error:  # an error ends this text, not the thread
            outcome = error
        hand_over(self.loop, self._pieces.put_nowait, outcome)
        if isinstance(outcome, Exception):
            return False
        self.num_ended += outcome.end is not None
        return self.num_ended < self.num_texts

    def refuse(self, error: Exception) -> None:
        """End the text with an error."""
        hand_over(self.loop, self._pieces.put_nowait, error)

    async def pieces(self, timeout_s: float) -> AsyncIterator[GeneratedPiece]:
        """Yield every piece, each within the time limit; leaving early stops the generation."""
        num_read = 0
        try:
            while num_read < self.num_texts:
                async with asyncio.timeout(timeout_s):
                    outcome = await self._pieces.get()
                if isinstance(outcome, Exception):
                    raise outcome
                num_read += outcome.end is not None
                yield outcome
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
        self._changed = threading.Condition()
        self._is_ready = self._is_closing = self._is_dead = False
        self._num_arrived = 0
        self._gathering: asyncio.Task[None] | None = None
        self._overtaken: Job | None = None  # the large request whose turn small ones have taken
        self._served_at = -RECENT_S  # when the last small request was taken
        self._thread = threading.Thread(target=self._work, name=model.name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Tell whether the thread can still answer."""
        return self._thread.is_alive()

    @property
    def num_waiting(self) -> int:
        """Return how many texts wait or are being generated."""
        with self._changed:
            num_growing = sum(stream.num_texts - stream.num_ended for stream in self._streams)
            return num_growing + sum(job.num_left for job in self._jobs)

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

    def stream(
        self, start: Callable[[], Iterator[GeneratedPiece]], num_texts: int = 1
    ) -> GrowingText:
        """Queue texts to generate one after the other."""
        stream = GrowingText(start, num_texts, asyncio.get_running_loop())
        with self._changed:
            self._admit(num_texts)
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
        num_waiting = self.num_waiting
        # Half of the room that is left: a few large requests do not turn away the small ones.
        room = self.max_queue - num_waiting
        if num_texts > (-(-room // 2) if num_waiting else room):
            raise RefusedError(
                429,
                f"{num_waiting:,} texts are waiting for {self.model.name}, which takes "
                f"{self.max_queue:,}: try again in a second",
                {"Retry-After": "1"},
            )

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
                jobs, streams = self._jobs, self._streams
                self._jobs, self._streams = [], []
            self._refuse(jobs)
            for stream in streams:
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
        """Compute one token for each request of which a text is being generated."""
        with self._changed:
            self._streams = [stream for stream in self._streams if not stream.is_cancelled]
            streams = self._streams[:MOST_STREAMS]
        ended = {stream for stream in streams if not stream.advance()}
        with self._changed:
            self._streams = [stream for stream in self._streams if stream not in ended]

    def _take(self) -> list[Job]:
        """Take the texts of the next batch: of the first job, and of others beside it."""
        with self._changed:
            self._is_ready = False  # until the answers are sent
            self._jobs = [job for job in self._jobs if job.num_left]
            waiting = [job for job in self._jobs if job.is_like(self._jobs[0])]
            are_others = len(self._jobs) > 1
        batch = self._choose(self._measure(waiting), are_others)
        with self._changed:  # a job that has texts left waits behind the others
            others = [job for job in self._jobs if job not in batch]
            self._jobs = others + [job for job in batch if job.num_left]
        return batch

    def _choose(self, jobs: Sequence[Job], are_others: bool) -> list[Job]:
        """Take small jobs, as many as fit into the budget together, or a part of a large one.

        If the first job is large, small ones overtake it, but not twice in a row.
        """
        batch: list[Job] = []
        budget = self.batch_tokens
        large = jobs[0] if jobs and not jobs[0].fits(budget) else None
        for job in jobs if large is None or large is not self._overtaken else ():
            if job.fits(budget):
                budget -= job.take(budget)
                batch.append(job)
        self._overtaken = large if batch else None
        if batch:
            self._served_at = time.monotonic()
        elif large:
            are_others = are_others or time.monotonic() - self._served_at < RECENT_S
            large.take(budget // (YIELDED if are_others else 1))
            batch.append(large)
        return batch

    def _measure(self, jobs: Sequence[Job]) -> list[Job]:
        """Count the tokens of the first job and of short ones; return those that are allowed."""
        others = sorted(jobs[1:], key=lambda job: job.num_chars)
        sizes = accumulate(0 if job.sizes else job.num_chars for job in others)
        num_short = sum(size <= MEASURED_CHARS for size in sizes)
        jobs = [*jobs[:1], *others[:num_short]]
        self._count_tokens([(job, part) for job in jobs for part in job.uncounted()])
        return [job for job in jobs if self._is_allowed(job)]

    def _count_tokens(self, parts: Sequence[tuple[Job, slice]]) -> None:
        """Count the tokens of texts; a job whose texts cannot be read fails when it is computed."""
        if not parts:
            return
        try:
            sizes = iter(parts[0][0].call.measure(self.model, *_texts(parts)))
        except Exception:
            if len(parts) > 1:
                for part in parts:
                    self._count_tokens([part])
            return
        for job, texts in parts:
            job.sizes += islice(sizes, texts.stop - texts.start)

    def _is_allowed(self, job: Job) -> bool:
        """Tell whether one request may have a job of this size; refuse it if not."""
        is_new = job.sizes and not job.num_taken
        if job.call.check is None or not (is_new and hasattr(self.model, job.call.verb)):
            return True  # what the model cannot do fails when it is computed
        try:
            job.call.check(self.model, job.sizes)
        except Exception as error:
            job.num_taken = len(job.texts)
            hand_over(job.future.get_loop(), self._settle, [job], [error])
            return False
        return True

    def _answer(self, jobs: Sequence[Job]) -> None:
        """Compute jobs together, and hand over their answers together."""
        try:
            outcomes = self._outcomes(jobs)
        except BaseException:
            self._refuse(jobs)
            raise
        hand_over(jobs[0].future.get_loop(), self._settle, jobs, outcomes)

    def _settle(self, jobs: Sequence[Job], outcomes: Sequence[Answer | Exception | None]) -> None:
        """Give jobs their outcomes, then start on the jobs that wait; runs in the event loop."""
        for job, outcome in zip(jobs, outcomes, strict=True):
            if outcome is not None:
                job.settle(outcome)
        if self._jobs:
            self._start_gathering()

    def _outcomes(self, jobs: Sequence[Job]) -> Sequence[Answer | Exception | None]:
        """Compute jobs together; if that fails, one by one, so that no job spoils the others."""
        try:
            self._compute(jobs)
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].num_taken = len(jobs[0].texts)  # the rest is not computed
                return [error]
            return [outcome for job in jobs for outcome in self._outcomes([job])]
        return [job.answer(self.model.name) for job in jobs]

    def _compute(self, jobs: Sequence[Job]) -> None:
        """Add the results of the texts that are taken to each job."""
        texts, texts2 = _texts([(job, job.batch) for job in jobs])
        self._observe(len(texts), sum(job.num_tokens for job in jobs))
        first_number = len(jobs[0].results) + 1  # right where it counts: when one fails alone
        results = iter(jobs[0].call(self.model, texts, texts2, first_number))
        for job in jobs:
            job.results += islice(results, job.num_taken - len(job.results))


def _texts(parts: Sequence[tuple[Job, slice]]) -> tuple[list[str], list[str] | None]:
    """Return a part of the texts of each job, and of their second texts if they are pairs."""
    texts = [text for job, part in parts for text in job.texts[part]]
    if parts[0][0].texts2 is None:
        return texts, None
    return texts, [text for job, part in parts for text in (job.texts2 or ())[part]]


def hand_over(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: Any) -> None:
    """Call a function in the event loop, from another thread."""
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(function, *args)
