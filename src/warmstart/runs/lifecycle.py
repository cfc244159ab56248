"""The life of a run folder: start it, resume it, refuse what does not fit."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.jsonfiles import typed
from warmstart.runs.facts import InputFiles
from warmstart.runs.faults import explained
from warmstart.runs.folder import FORMAT, RunFolder, claimed
from warmstart.settings.architecture import ArchitectureOverrides
from warmstart.settings.base import Settings
from warmstart.settings.in_force import describe, in_force
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import Destination
from warmstart.textfiles import sha256_of
from warmstart.version import package_version


@contextmanager
def open_run(command: str, settings: Settings, out: str, resume: bool) -> Iterator[RunFolder]:
    """Yield the folder of a job, new or resumed; refuse one that holds another job."""
    with claimed(out, resume) as run:
        if run.config_file.exists():
            config = run.config()
            if config["command"] != command:
                raise WarmstartError(f"{out} holds a {config['command']} run, not a {command} run")
            changed = settings.changed_from(config["settings"])
            if changed:
                raise WarmstartError(f"{out} was started with other settings: {'; '.join(changed)}")
        if run.is_finished:
            run.drop_cache()  # a kill just before the end leaves these
            run.drop_snapshots()
        elif isinstance(settings, Destination) and settings.changed_data:
            _accept_changes(run)
        with explained(command, run):
            yield run


def write_config(
    run: RunFolder, command: str, settings: Settings, model: ModelConfig | None, **more: Any
) -> None:
    """Write the whole resolved configuration of a run."""
    write_json(
        run.config_file,
        {
            "format": FORMAT,
            "warmstart": package_version(),
            "command": command,
            "settings": settings.recorded(),
            "model": model.to_json() if model else {},  # empty: no Transformer
            **more,
        },
    )


def update_config(run: RunFolder, **more: Any) -> None:
    """Replace entries of config.json, unless another process does."""
    if not run.is_read_only:
        write_json(run.config_file, run.config() | more)


def announce(run: RunFolder, settings: Settings, **values: float) -> None:
    """Say which settings are in force and who chose them, and record it."""
    choices = in_force(settings, values)
    progress.say(f"settings: {describe(choices)}")
    update_config(run, in_force={key: asdict(choice) for key, choice in choices.items()})


def recorded_values(run: RunFolder) -> dict[str, Any]:
    """Return the settings that were in force when a run was started; empty: a new run."""
    if not run.config_file.exists():
        return {}
    return {key: choice["value"] for key, choice in run.config().get("in_force", {}).items()}


def check_unchanged(run: RunFolder) -> None:
    """Refuse to resume with files that changed since the run started."""
    for entry in _entries(run.read_json(run.data_file)):
        if sha256_of(_present(entry)) == entry["sha256"]:
            continue
        if run.is_read_only:  # the process that writes has checked its own
            raise WarmstartError(
                f"{entry['path']} is another file on {socket.gethostname()} than where the run was "
                "started: give every machine the same"
            )
        raise WarmstartError(
            f"{entry['path']} changed since the run started; start a new run, or continue with "
            "the changed file by adding --changed-data"
        )


def _accept_changes(run: RunFolder) -> None:
    """Record the checksums that files have now, beside those they had."""
    if not run.data_file.exists():
        return
    facts = run.read_json(run.data_file)
    for entry in _entries(facts):
        checksum = sha256_of(_present(entry))
        if checksum != entry["sha256"]:
            entry["earlier"] = [*entry.get("earlier", []), entry["sha256"]]
            entry["sha256"] = checksum
            progress.say(
                f"{entry['path']} changed since the run started; continuing, but a later search "
                "for texts already seen only knows the texts it held at first"
            )
    write_json(run.data_file, facts)


def _present(entry: dict[str, Any]) -> Path:
    path = Path(entry["path"])
    if not os.path.exists(path):  # never raises, whatever the name
        raise WarmstartError(f"{path}, which the run was started with, is missing; restore it")
    return path


def _entries(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of data.json about training and validation files."""
    typed(InputFiles, facts, "data.json")
    return [*facts["files"], *(facts.get("valid") or {}).get("files", [])]


def refuse_overrides(config: ArchitectureOverrides, allowed: Sequence[str]) -> None:
    """Refuse to change the architecture of existing weights."""
    for field in fields(ArchitectureOverrides):
        if getattr(config, field.name) is not None and field.name not in allowed:
            flag = field.name.replace("_", "-")
            raise WarmstartError(f"--{flag} cannot change with --from: the weights fix it")


def refuse_together(config: Settings, key: str, redundant: Sequence[str]) -> None:
    """Refuse settings that have no effect beside another one."""
    values = config.recorded()
    for other in redundant:
        if values[key] and values[other]:
            flag = other.replace("_", "-")
            raise WarmstartError(f"--{flag} has no effect with --{key}: leave one of them out")


def check_length(model: ModelConfig, length: int | None, path: Path) -> None:
    """Refuse texts longer than the learned positions of a run."""
    if model.positions == "learned" and (length or 0) > model.max_length:
        raise WarmstartError(
            f"--max-length {length} is more than the {model.max_length} positions "
            f"that {path} was trained with"
        )
