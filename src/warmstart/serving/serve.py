"""Runs -> a server, until it is stopped."""

import os
from pathlib import Path

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.serving.commands import ServeConfig

TOKEN_VARIABLE = "WARMSTART_TOKEN"


def serve(config: ServeConfig) -> int:
    """Serve runs over HTTP until SIGINT or SIGTERM; return the number of requests answered."""
    try:
        from warmstart.serving.app import create_app, listen, serve_app, url_of
        from warmstart.serving.labelling import read_label_table
        from warmstart.serving.service import Service, load_references, load_runs
    except ImportError as error:
        raise WarmstartError(
            f"serve needs {error.name}, which is not installed: pip install 'warmstart[serve]'"
        ) from None
    token = config.token or os.environ.get(TOKEN_VARIABLE)
    if config.label is not None:
        table = read_label_table(Path(config.label), config)
        num_labelled = sum(bool(text.label) for text in table.texts)
        done = f"{num_labelled:,} of {quantity(len(table.texts), 'row')} labelled"
        progress.say(f"{config.label}: {done}, in column '{table.column}'")
    models = load_runs(config.runs, config)
    references = load_references(models, config)
    with listen(config.host, config.port) as listener:
        service = Service(models, config, references)
        app = create_app(service, token)
        for name, model in models.items():
            verbs = ", ".join(verb.replace("_", "-") for verb in model.abilities)
            progress.say(f"{name} is {model.description}: {verbs}")
        if not (token or config.is_local):
            progress.say(f"everybody who can reach {config.host} may use it: --token limits that")
        progress.say(f"serving on {url_of(listener)}; Ctrl-C stops")
        serve_app(app, listener, config)
        return service.metrics.num_requests
