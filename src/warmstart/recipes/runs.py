"""Begin a run or go on with one.

Knows what every run has in common, whatever its job.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from warmstart.config.model import ModelConfig
from warmstart.config.settings import Settings
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.store.folder import RunFolder, claimed


def package_version() -> str:
    """Return the installed version, or `source` when run from a checkout."""
    try:
        return version("warmstart")
    except PackageNotFoundError:
        return "source"


@contextmanager
def opened(command: str, settings: Settings, out: str, resume: bool) -> Iterator[RunFolder]:
    """Yield the job's folder; one that holds the same job goes on, any other is refused."""
    with claimed(out, resume) as run:
        if run.config_file.exists():
            config = run.config()
            if config["command"] != command:
                raise WarmstartError(f"{out} holds a {config['command']} run, not a {command} run")
            changed = settings.changed_from(config["settings"])
            if changed:
                raise WarmstartError(f"{out} was begun with other settings: {'; '.join(changed)}")
        yield run


def write_config(
    run: RunFolder, command: str, settings: Settings, model: ModelConfig, **more: Any
) -> None:
    """Write the whole resolved configuration of a run."""
    write_json(
        run.config_file,
        {
            "warmstart": package_version(),
            "command": command,
            "settings": settings.recorded(),
            "model": model.to_json(),
            **more,
        },
    )
