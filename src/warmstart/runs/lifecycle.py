"""The life of a run folder: start it, resume it, refuse what does not fit."""

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.errors import (
    LostProcessError,
    MovedFolderError,
    StoppedError,
    WarmstartError,
    is_out_of_memory,
    signal_of,
)
from warmstart.files import (
    is_temporary,
    lock_destination,
    remove_leftovers,
    remove_own,
    write_json,
)
from warmstart.formats import shell_line
from warmstart.jsonfiles import from_json
from warmstart.runs.checkpoint import list_checkpoints
from warmstart.runs.facts import InputFiles
from warmstart.runs.folder import FORMAT, RunFolder
from warmstart.settings.base import Settings, describe, in_force
from warmstart.settings.model import ArchitectureOverrides, ModelConfig
from warmstart.settings.shared import Destination
from warmstart.textfiles import sha256_of
from warmstart.version import package_version

# What a job writes before it has work that must not be lost.
_PREPARED = (
    *("config.json", "data.json", "metrics.jsonl", "README.md"),
    *("tokenizer.json", "tokenizer.model", "special_tokens_map.json", "target", "lsa.safetensors"),
    *("cache", "shards", "events", "checkpoints", "snapshots"),
)
RESUMABLE = (StoppedError, LostProcessError)  # the same job may succeed when it is repeated
_DISK = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room in your quota",
    errno.EFBIG: "raise the limit on the size of files",
    errno.EROFS: "make the file system writable",
    errno.EACCES: "make the folder writable",
    errno.EPERM: "make the folder writable",
    errno.EIO: "check the disk",
}


@contextmanager
def claim_folder(path: str | Path, resume: bool) -> Iterator[RunFolder]:
    """Hold the folder of one job, refusing one that is in use or holds something else.

    If the job fails before it has work to lose, what it wrote is removed.
    """
    run = RunFolder(path)
    with lock_destination(run.path):
        is_occupied = any(not is_temporary(entry) for entry in run.path.iterdir())
        if is_occupied and not resume:
            raise WarmstartError(
                f"{run.path} already exists: add --resume to continue it, or choose another -o"
            )
        if is_occupied and not run.config_file.exists():
            raise WarmstartError(f"{run.path} is not a run folder, so nothing there can be resumed")
        remove_leftovers(run.path)
        run.take_over()
        try:
            yield run
        except MovedFolderError:
            raise
        except WarmstartError as fault:
            is_prepared = isinstance(fault, RESUMABLE) and run.has_preparation
            if not (is_occupied or run.has_work or is_prepared):
                remove_leftovers(run.path)
                for name in _PREPARED:
                    remove_own(run.path / name)
            raise


@contextmanager
def open_run(command: str, settings: Settings, out: str, resume: bool) -> Iterator[RunFolder]:
    """Yield the folder of a job, new or resumed; refuse one that holds another job."""
    with claim_folder(out, resume) as run:
        if run.config_file.exists():
            _check_same_job(run, command, settings)
        if run.is_finished:
            run.drop_cache()  # a kill just before the end leaves these
            run.drop_snapshots()
        elif isinstance(settings, Destination) and settings.changed_data:
            _accept_changes(run)
        with explain_faults(command, run):
            yield run


def _check_same_job(run: RunFolder, command: str, settings: Settings) -> None:
    config = run.config()
    if config["format"] != FORMAT and not run.is_finished:
        raise WarmstartError(
            f"{run.path} was started by an earlier version of warmstart (run format "
            f"{config['format']}, now {FORMAT}), and only that version can resume it: use it, or "
            "start again with another -o"
        )
    if config["command"] != command:
        raise WarmstartError(f"{run.path} holds a {config['command']} run, not a {command} run")
    if changed := settings.changed_from(config["settings"]):
        raise WarmstartError(f"{run.path} was started with other settings: {'; '.join(changed)}")


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
    """Say which settings are in force and who chose them; record both."""
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
        if run.is_read_only:  # the lead process has checked its own files
            raise WarmstartError(
                f"{entry['path']} is another file on {socket.gethostname()} than where the run was "
                "started: give every machine the same"
            )
        raise WarmstartError(
            f"{entry['path']} changed since the run started; start a new run, or continue with "
            "the changed file by adding --changed-data"
        )


def _accept_changes(run: RunFolder) -> None:
    """Record the present checksums of input files beside the earlier ones."""
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
    from_json(InputFiles, facts, "data.json")
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


@contextmanager
def explain_faults(command: str, run: RunFolder) -> Iterator[None]:
    """Turn interruptions and system errors into a sentence that says how to continue."""
    try:
        yield
    except KeyboardInterrupt as stop:
        message = "stopped before there was anything to save"
        if run.has_work or run.has_preparation:
            message = f"stopped; continue with: {resume_command(command, run)}"
        raise StoppedError(message, signal_of(stop)) from None
    except MovedFolderError as fault:
        safe = _safe(command, RunFolder(fault.place)) if fault.place else ""
        raise MovedFolderError(f"{fault}{safe}", fault.place) from fault
    except LostProcessError as fault:
        safe = _safe(command, run) or _describe_preparation(command, run)
        raise LostProcessError(f"{fault}{safe}") from fault
    except StoppedError as stop:
        message = f"{stop}, as in: {resume_command(command, run)}"
        raise StoppedError(message, stop.signal_number) from None
    except OSError as fault:
        if fault.errno not in _DISK:
            raise
        where = f"{fault.filename or run.path}: {(fault.strerror or '').lower()}"
        raise WarmstartError(f"{where}; {_DISK[fault.errno]}{_safe(command, run)}") from fault
    except (MemoryError, RuntimeError) as fault:
        if not is_out_of_memory(fault):
            raise
        raise WarmstartError(
            "out of memory: lower --micro-tokens, --max-length or the size of the model, or take "
            f"--precision bf16{_safe(command, run)}"
        ) from fault


def resume_command(command: str, run: RunFolder) -> str:
    """Return the command that resumes a run."""
    words = ["warmstart", command, "--config", str(run.config_file), "-o", str(run.path)]
    return shell_line([*words, "--resume"])


def _safe(command: str, run: RunFolder) -> str:
    """Say which step or cells are saved, and how to resume."""
    steps = [path.name.removeprefix("step-") for path in list_checkpoints(run)]
    cells = list(run.cells.glob("*.json"))
    if not steps and not cells:
        return ""
    kept = f"{len(cells)} finished cell{' is' if len(cells) == 1 else 's are'} safe"
    saved = f"step {steps[-1]} is safe" if steps else kept
    return f". {saved}; continue with: {resume_command(command, run)}"


def _describe_preparation(command: str, run: RunFolder) -> str:
    """Say that tokenized text is kept, if there is any, and how to resume."""
    if not run.has_preparation:
        return ""
    return f". The text tokenized so far is kept; continue with: {resume_command(command, run)}"
