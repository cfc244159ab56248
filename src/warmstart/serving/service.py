"""The state of a server: its runs with their threads, metrics, random choices."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from warmstart.data.labelled import join_pair
from warmstart.errors import WarmstartError
from warmstart.formats import one_line
from warmstart.runs.saved import read_run
from warmstart.serving.commands import ServeConfig
from warmstart.serving.responses import Pieces, RefusedError
from warmstart.serving.worker import Answer, Call, Worker
from warmstart.settings.base import suggestion
from warmstart.settings.shared import Machine, TableFormat
from warmstart.tasks.registry import open_saved
from warmstart.tasks.text_model import VERBS, GeneratedPiece, TextModel
from warmstart.tasks.unusual import Reference, Unusualness, find_reference, read_usual_texts

MOST_TOKENS = 131_072  # that one request may have generated, in all its texts and hypotheses
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
LEFT = "left"  # the status of a request whose client left before its answer began


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

    def observe_batch(self, name: str, num_texts: int, num_tokens: int) -> None:
        """Count one batch of a run."""
        self.batch_texts.labels(name).observe(num_texts)
        self.tokens.labels(name).inc(num_tokens)

    @property
    def num_requests(self) -> int:
        """Return how many requests were answered."""
        samples = next(iter(self.requests.collect())).samples
        counted = (s for s in samples if s.name.endswith("_total") and s.labels["status"] != LEFT)
        return round(sum(sample.value for sample in counted))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class Service:
    """What the routes call; starts a thread for every model."""

    def __init__(
        self,
        models: Mapping[str, TextModel],
        config: ServeConfig,
        references: Mapping[str, Reference] | None = None,
    ) -> None:
        self.config, self.metrics = config, Metrics()
        self._references = references or {}  # usual texts, by the name of a run
        self._comparing = CapacityLimiter(1)  # requests whose texts are compared with these
        self.workers: dict[str, Worker] = {}
        for name, model in models.items():
            observe = partial(self.metrics.observe_batch, name)
            worker = Worker(model, config.batch_tokens, config.max_queue, observe)
            self.metrics.waiting.labels(name).set_function(partial(getattr, worker, "num_waiting"))
            self.workers[name] = worker
        self._able = {
            verb: [name for name, model in models.items() if verb in model.abilities]
            for verb in VERBS
        }
        self.label_lock = asyncio.Lock()  # one label is written at a time
        self._randomness = random.Random(config.seed)

    def close(self) -> None:
        """Finish the accepted requests, and end the threads."""
        for worker in self.workers.values():
            worker.close()

    def choose(self, name: str | None, verb: str = "") -> Worker:
        """Return the worker of a run; without a name, of the only run that has the verb."""
        if name is not None:
            if name not in self.workers:
                hint = suggestion(name, self.workers)
                raise RefusedError(404, f"the model {name!r} is unknown{hint}")
            return self.workers[name]
        able = self._able[verb]
        if len(able) == 1:
            return self.workers[able[0]]
        if able:
            raise RefusedError(422, f"model is missing: it can be {', '.join(able)}")
        raise RefusedError(404, f"no run of this server can {verb.replace('_', ' ')}")

    async def answer(
        self,
        name: str | None,
        call: Call,
        texts: Sequence[str],
        texts2: Sequence[str] | None = None,
    ) -> Answer:
        """Return the results of a run for texts, computed together with other requests."""
        worker = self.choose(name, call.verb)
        self.check_number(len(texts))
        if texts2 is not None and len(texts2) != len(texts):
            raise RefusedError(422, f"{len(texts):,} texts but {len(texts2):,} second texts")
        future = worker.submit(call, texts, texts2)
        async with self.time_limit():
            return await future

    async def compare_with_usual(
        self, worker: Worker, texts: Sequence[str], texts2: Sequence[str] | None
    ) -> list[Unusualness]:
        """Tell how far each text lies from those that a run was trained on."""
        name = worker.model.name
        if name not in self._references:
            raise RefusedError(
                422, f"unusual: this server has no usual texts of {name}: start it with --unusual"
            )
        self.check_number(len(texts))
        whole = list(map(join_pair, texts, texts2)) if texts2 is not None else texts
        async with self.time_limit():
            compare = self._references[name].compare
            return await run_sync(compare, whole, limiter=self._comparing, abandon_on_cancel=True)

    @asynccontextmanager
    async def time_limit(self) -> AsyncIterator[None]:
        """Refuse what takes longer than one request may."""
        try:
            async with asyncio.timeout(self.config.timeout):
                yield
        except TimeoutError:
            raise self._late() from None

    def check_number(self, num_texts: int) -> None:
        """Refuse too many texts."""
        most = self.config.max_texts
        if num_texts > most:
            raise RefusedError(
                413, f"{num_texts:,} texts are too many: a request may have {most:,}"
            )

    async def generate(
        self,
        worker: Worker,
        start: Callable[[], Iterator[GeneratedPiece]],
        num_texts: int = 1,
    ) -> Pieces:
        """Yield the pieces of texts that a function starts to generate, one after the other."""
        try:
            async for piece in worker.stream(start, num_texts).pieces(self.config.timeout):
                yield piece
        except TimeoutError:
            raise self._late() from None

    @property
    def max_bytes(self) -> int:
        """Return how large the body of a request may be."""
        return round(self.config.max_megabytes * 1e6)

    def seed(self, wanted: int | None) -> int:
        """Return the seed that a request names, or a new one."""
        return self._randomness.getrandbits(31) if wanted is None else wanted

    def _late(self) -> RefusedError:
        seconds = self.config.timeout
        return RefusedError(504, f"no answer in {seconds:g} seconds: send less, or retry")


def load_runs(runs: tuple[str, ...], machine: Machine) -> dict[str, TextModel]:
    """Load every run under the name given as NAME=RUN, or under the name of its folder."""
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


def load_references(models: Mapping[str, TextModel], config: ServeConfig) -> dict[str, Reference]:
    """Return the usual texts of every run that predicts labels, if --unusual asks for them."""
    references: dict[str, Reference] = {}
    for name, path in map(_parse, config.runs) if config.unusual else ():
        model, usual = models[name], None
        if "predict" not in model.abilities:
            continue
        if config.like is not None:
            usual = read_usual_texts(Path(config.like), TableFormat(), model)
        references[name] = find_reference(read_run(path), model, usual, config.seed)
        references[name].compare([""])  # which measures the usual texts, once
    if config.unusual and not references:
        raise WarmstartError("--unusual needs a run that predicts labels, and none of these does")
    return references


def _parse(argument: str) -> tuple[str, str]:
    """Return the name and the path that NAME=RUN, or a path alone, stands for."""
    name, equals, path = argument.partition("=")
    if not equals or Path(argument).exists():
        name, path = Path(argument).resolve().name, argument
    if not name or one_line(name) != name:
        raise WarmstartError(f"RUNS {argument!r}: the name of a run is one line of text")
    return name, path
