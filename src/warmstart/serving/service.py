"""The state of a server: its runs, limits, metrics and random choices."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from warmstart.errors import WarmstartError
from warmstart.formats import one_line
from warmstart.runs.saved import read_run
from warmstart.serving.guard import App, Message, Receive, RequestLimits, Send
from warmstart.serving.responses import LateError, UnknownError, UnprocessableError
from warmstart.serving.worker import Answer, BatchSize, Call, Worker
from warmstart.settings.base import suggestion
from warmstart.settings.shared import Machine
from warmstart.settings.using import Sampling
from warmstart.tasks.registry import open_saved
from warmstart.tasks.text_model import VERBS, GeneratedPiece, TextModel


@dataclass(frozen=True)
class Generation:
    """What a text is generated with."""

    prompt: str
    max_tokens: int
    sampling: Sampling
    seed: int


@dataclass(frozen=True)
class HostedRuns:
    """The runs of a server with their threads."""

    workers: Mapping[str, Worker]

    @cached_property
    def _able(self) -> dict[str, list[str]]:
        """The runs that have each verb."""
        return {verb: [run for run, model in self if verb in model.abilities] for verb in VERBS}

    def __iter__(self) -> Iterator[tuple[str, TextModel]]:
        return iter((name, worker.model) for name, worker in self.workers.items())

    def choose(self, name: str | None, verb: str) -> Worker:
        """Return the run of this name; without one, the only run that has the verb."""
        if name is not None:
            if name not in self.workers:
                raise UnknownError(f"the model {name!r} is unknown{suggestion(name, self.workers)}")
            return self.workers[name]
        able = self._able[verb]
        if len(able) == 1:
            return self.workers[able[0]]
        if able:
            raise UnprocessableError(f"model is missing: it can be {', '.join(able)}")
        raise UnknownError(f"no run of this server can {verb.replace('_', ' ')}")

    def close(self) -> None:
        """Finish what was accepted."""
        for worker in self.workers.values():
            worker.close()


class Metrics:
    """The metrics of one server; nothing is shared with others in the process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "warmstart_requests", "Requests answered", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "warmstart_request_seconds", "Time to answer", ["path"], registry=registry
        )
        self.batch_texts = Histogram(
            "warmstart_batch_texts",
            "Texts computed together",
            ["model"],
            buckets=BATCH_BUCKETS,
            registry=registry,
        )
        self.tokens = Counter("warmstart_tokens", "Tokens read", ["model"], registry=registry)
        self.waiting = Gauge(
            "warmstart_waiting_texts", "Texts waiting", ["model"], registry=registry
        )

    def watch(self, name: str, worker: Worker) -> None:
        """Report how much waits for a run."""
        self.waiting.labels(name).set_function(lambda: worker.num_waiting)

    def observe_batch(self, name: str, size: BatchSize) -> None:
        """Count one batch of a run."""
        self.batch_texts.labels(name).observe(size.num_texts)
        self.tokens.labels(name).inc(size.num_tokens)

    @property
    def num_requests(self) -> int:
        """Return how many requests were answered."""
        samples = next(iter(self.requests.collect())).samples
        return round(sum(s.value for s in samples if s.name.endswith("_total")))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


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
                generation.sampling,
                generation.seed,
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


def load_runs(runs: tuple[str, ...], machine: Machine) -> dict[str, TextModel]:
    """Load every run under the name given as NAME=RUN, or that of its folder."""
    models: dict[str, TextModel] = {}
    for argument in runs:
        name, path = _parse(argument)
        if name in models:
            raise WarmstartError(
                f"RUNS: two runs are called '{name}'; write NAME={path} to choose another name"
            )
        saved = read_run(path)
        saved.refuse_if_ablated("be served")
        # Messages go to clients, who should not learn where the run is stored.
        models[name] = replace(open_saved(saved, machine), name=name)
    return models


def _parse(argument: str) -> tuple[str, str]:
    name, equals, path = argument.partition("=")
    if not equals or Path(argument).exists():
        name, path = Path(argument).resolve().name, argument
    if not name or one_line(name) != name:
        raise WarmstartError(f"RUNS {argument!r}: the name of a run is one line of text")
    return name, path


BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class MetricsGuard:
    """Counts and times every request."""

    def __init__(self, app: App, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status: list[Any] = []

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                status.append(message["status"])
            await send(message)

        started = time.perf_counter()
        try:
            await self.app(scope, receive, watched)
        finally:
            path = getattr(scope.get("route"), "path", "other")  # not what a client invents
            self.metrics.requests.labels(path, status[0] if status else "left").inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)
