"""The application: the routes, and what surrounds them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from random import Random

from anyio.to_thread import run_sync
from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi.middleware.trustedhost import TrustedHostMiddleware

from warmstart.inference.text_model import TextModel
from warmstart.serving.guard import LimitGuard, RequestLimits, TokenGuard
from warmstart.serving.hosted import HostedRuns
from warmstart.serving.openai import OpenAIRoutes
from warmstart.serving.pages import page_routes
from warmstart.serving.prometheus import Metrics, MetricsGuard
from warmstart.serving.refusals import handle_errors
from warmstart.serving.service import Service
from warmstart.serving.verbs import VerbRoutes
from warmstart.serving.worker import QueueLimits, Worker
from warmstart.settings.serving import LOOPBACK, ServeConfig
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
