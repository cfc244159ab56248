"""Runs -> a server, until it is stopped."""

import os
from dataclasses import dataclass

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.serving.commands import ServeConfig

TOKEN_VARIABLE = "WARMSTART_TOKEN"


@dataclass(frozen=True)
class ServeResult:
    """What a server did before it was stopped."""

    url: str
    num_requests: int


def serve(config: ServeConfig) -> ServeResult:
    """Serve runs over HTTP until SIGINT or SIGTERM."""
    try:
        from warmstart.serving.app import create_app, listen, serve_app, start_service, url_of
        from warmstart.serving.service import load_runs
    except ImportError as error:
        raise WarmstartError(
            f"serve needs {error.name}, which is not installed: pip install 'warmstart[serve]'"
        ) from None
    token = config.token or os.environ.get(TOKEN_VARIABLE)
    models = load_runs(config.runs, config)
    with listen(config.host, config.port) as listener:
        service = start_service(models, config)
        app = create_app(service, config, token)
        for name, model in models.items():
            verbs = ", ".join(verb.replace("_", "-") for verb in model.abilities)
            progress.say(f"{name} is {model.description}: {verbs}")
        if not (token or config.is_local):
            progress.say(f"everybody who can reach {config.host} may use it: --token limits that")
        url = url_of(listener)
        progress.say(f"serving on {url}; Ctrl-C stops")
        serve_app(app, listener, config.timeout)
        return ServeResult(url, service.metrics.num_requests)
