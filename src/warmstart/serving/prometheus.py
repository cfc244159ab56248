"""What the server counts and times, for Prometheus."""

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from warmstart.serving.guard import App, Message, Receive, Send
from warmstart.serving.worker import BatchSize, Worker

BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


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
