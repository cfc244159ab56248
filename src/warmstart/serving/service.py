"""The state of a server: its runs, limits, metrics and random choices."""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from warmstart.decoding.sample import Sampling
from warmstart.results.predictions import GeneratedPiece
from warmstart.serving.calls import Call
from warmstart.serving.guard import RequestLimits
from warmstart.serving.hosted import HostedRuns
from warmstart.serving.jobs import Answer
from warmstart.serving.prometheus import Metrics
from warmstart.serving.refusals import LateError, UnprocessableError
from warmstart.serving.worker import Worker


@dataclass(frozen=True)
class Generation:
    """What a text is generated with."""

    prompt: str
    max_tokens: int
    sampling: Sampling
    seed: int


@dataclass(frozen=True)
class Service:
    """What the routes call."""

    runs: HostedRuns
    limits: RequestLimits
    metrics: Metrics
    randomness: random.Random = field(default_factory=random.Random)

    async def answer(
        self,
        worker: Worker,
        call: Call,
        texts: Sequence[str],
        texts2: Sequence[str] | None = None,
    ) -> Answer:
        """Return the results for texts, computed together with those of other requests."""
        self.limits.check_texts(len(texts))
        if texts2 is not None and len(texts2) != len(texts):
            raise UnprocessableError(f"{len(texts):,} texts but {len(texts2):,} second texts")
        future = worker.submit(call, texts, texts2)
        try:
            async with asyncio.timeout(self.limits.timeout_s):
                return await future
        except TimeoutError:
            raise self._late() from None

    async def generate(
        self, worker: Worker, generation: Generation
    ) -> AsyncGenerator[GeneratedPiece, None]:
        """Yield a text as it grows."""
        stream = worker.stream(
            lambda: worker.model.stream(
                generation.prompt,
                generation.max_tokens,
                sampling=generation.sampling,
                seed=generation.seed,
            )
        )
        try:
            async for piece in stream.pieces(self.limits.timeout_s):
                yield piece
        except TimeoutError:
            raise self._late() from None

    def seed(self, wanted: int | None) -> int:
        """Return the seed that a request names, or a new one."""
        return self.randomness.getrandbits(31) if wanted is None else wanted

    def _late(self) -> LateError:
        return LateError(f"no answer in {self.limits.timeout_s:g} seconds: send less, or retry")
