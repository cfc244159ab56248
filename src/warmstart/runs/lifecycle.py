"""Begin a run or go on with one.

Knows what every run has in common, whatever its job.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.settings.training import Destination
from warmstart.settings.model import ModelConfig, ArchitectureOverrides
from warmstart.settings.base import Settings
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.runs.faults import explained
from warmstart.runs.folder import RunFolder, claimed
from warmstart.textfiles import sha256_of
from warmstart.version import package_version


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
        if run.is_finished:
            run.drop_cache()  # a kill just before the end leaves these
            run.drop_snapshots()
        elif isinstance(settings, Destination) and settings.changed_data:
            _accept_changes(run)
        with explained(command, run):
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


def file_facts(rows: Mapping[Path, int]) -> list[dict[str, Any]]:
    """Return what identifies each file, and how many rows were read from it."""
    return [
        {"path": str(path), "sha256": sha256_of(path), "rows": count}
        for path, count in rows.items()
    ]


def check_unchanged(facts: dict[str, Any]) -> None:
    """Refuse to go on with files that are not those the run began with."""
    for entry in _entries(facts):
        if sha256_of(_present(entry)) != entry["sha256"]:
            raise WarmstartError(
                f"{entry['path']} changed since the run began; start a new run for it, or go on "
                "all the same with --changed-data"
            )


def _accept_changes(run: RunFolder) -> None:
    """Enter the checksums that files have now, and keep those they had."""
    if not run.data_file.exists():
        return
    facts = run.read_json(run.data_file)
    for entry in _entries(facts):
        found = sha256_of(_present(entry))
        if found != entry["sha256"]:
            entry["earlier"] = [*entry.get("earlier", []), entry["sha256"]]
            entry["sha256"] = found
            progress.say(
                f"{entry['path']} changed since the run began; going on, but a later search for "
                "texts already seen knows only those it held at first"
            )
    write_json(run.data_file, facts)


def _present(entry: dict[str, Any]) -> Path:
    path = Path(entry["path"])
    if not path.exists():
        raise WarmstartError(f"{path}, which the run began with, is gone; put it back")
    return path


def _entries(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what data.json says about each file, training and validation alike."""
    try:
        entries: list[dict[str, Any]] = [*facts["files"], *facts.get("valid", {}).get("files", [])]
        is_whole = all(isinstance(e["path"], str) and isinstance(e["sha256"], str) for e in entries)
    except (KeyError, TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise WarmstartError("data.json of the run does not name its files with their checksums")
    return entries


def refuse_overrides(config: ArchitectureOverrides, allowed: Sequence[str]) -> None:
    """Refuse to change the shape of weights that exist."""
    for field in fields(ArchitectureOverrides):
        if getattr(config, field.name) is not None and field.name not in allowed:
            flag = field.name.replace("_", "-")
            raise WarmstartError(f"--{flag} cannot change with --from: the weights fix it")


def refuse_together(config: Settings, given: str, rivals: Sequence[str]) -> None:
    """Refuse settings that another one, where given, decides already."""
    values = config.recorded()
    for rival in rivals:
        if values[given] and values[rival]:
            flag = rival.replace("_", "-")
            raise WarmstartError(f"--{flag} has no effect with --{given}: leave one of them out")


def check_length(model: ModelConfig, length: int | None, path: Path) -> None:
    """Refuse texts longer than the positions that were learned."""
    if model.positions == "learned" and (length or 0) > model.max_length:
        raise WarmstartError(
            f"--max-length {length} is more than the {model.max_length} positions "
            f"that {path} has learned"
        )
