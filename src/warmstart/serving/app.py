"""The application: the routes, and what surrounds them."""

import signal
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from random import Random

import uvicorn
from anyio.to_thread import run_sync
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.trustedhost import TrustedHostMiddleware

from warmstart.errors import WarmstartError
from warmstart.serving.commands import LOOPBACK, ServeConfig
from warmstart.serving.guard import LimitGuard, RequestLimits, TokenGuard
from warmstart.serving.openai import OpenAIRoutes
from warmstart.serving.pages import page_routes
from warmstart.serving.responses import handle_errors
from warmstart.serving.routes import VerbRoutes
from warmstart.serving.service import HostedRuns, Metrics, MetricsGuard, Service
from warmstart.serving.worker import QueueLimits, Worker
from warmstart.tasks.text_model import TextModel
from warmstart.version import package_version


def start_service(models: Mapping[str, TextModel], config: ServeConfig) -> Service:
    """Start a thread for every model."""
    metrics = Metrics()
    queue = QueueLimits(config.batch_tokens, config.max_queue)
    workers = {
        name: Worker(model, queue, partial(metrics.observe_batch, name))
        for name, model in models.items()
    }
    for name, worker in workers.items():
        metrics.watch(name, worker)
    max_bytes = round(config.max_megabytes * 1e6)
    limits = RequestLimits(max_bytes, config.max_texts, config.timeout)
    return Service(HostedRuns(workers), limits, metrics, Random(config.seed))


def create_app(service: Service, config: ServeConfig, token: str | None) -> FastAPI:
    """Return the application with its guards."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await run_sync(service.runs.close)

    app = FastAPI(
        title="warmstart",
        version=package_version(),
        description="Trained runs behind HTTP.",
        lifespan=lifespan,
        docs_url=None,  # it loads scripts from the network; pages.py has one that does not
        redoc_url=None,
    )
    verbs, openai = VerbRoutes(service).router(), OpenAIRoutes(service).router()
    for router in (verbs, openai, page_routes(service, app)):
        app.router.routes += router.routes  # without a router inside the router to pass through
    handle_errors(app)
    _guard(app, service, config, token)
    return app


def _guard(app: FastAPI, service: Service, config: ServeConfig, token: str | None) -> None:
    """Surround an application by its guards; the outermost is added last."""
    app.add_middleware(LimitGuard, limits=service.limits)
    if token:
        app.add_middleware(TokenGuard, token=token)
    elif config.is_local:
        # A web page could give its own name this machine's address, and so read the answers.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK)
    if config.allow_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.allow_origin,
            allow_methods=["*"],
            allow_headers=["*"],
        )
    app.add_middleware(MetricsGuard, metrics=service.metrics)


MOST_CONNECTIONS = 2048


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WarmstartError(
            f"--host {host} --port {port} cannot be listened on ({reason}); choose another"
        ) from None


def url_of(listener: socket.socket) -> str:
    """Return the address of a socket for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_app(app: FastAPI, listener: socket.socket, timeout_s: float) -> None:
    """Serve until SIGINT or SIGTERM; then take no more requests, and answer those accepted."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here depends on the address of a client
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=max(1, round(timeout_s)),
    )
    _Server(config).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends normally when a signal asks it to."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
