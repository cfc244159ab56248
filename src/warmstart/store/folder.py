"""A run folder: it stands alone, loads anywhere and holds no pickle.

Knows what its files are called, not what a job is.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warmstart.errors import WarmstartError
from warmstart.files import write_json


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.weights_file = self.path / "model.safetensors"
        self.scores_file = self.path / "scores.json"
        self.data_file = self.path / "data.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.cells = self.path / "cells"  # finished parts of a comparison
        self.cache = self.path / "cache"  # tokens of an unfinished run; goes when it is finished

    @property
    def is_finished(self) -> bool:
        """Tell whether the job ran to its end; scores are written last."""
        return self.scores_file.exists()

    @property
    def has_work(self) -> bool:
        """Tell whether anything was trained that must not be lost."""
        return self.is_finished or any(self.path.glob("checkpoints/*")) or self.cells.is_dir()

    def read_json(self, file: Path) -> dict[str, Any]:
        """Return a JSON file of this run."""
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise WarmstartError(f"{self.path} is not a run folder: no {file.name} in it") from None
        except (OSError, ValueError) as fault:
            raise WarmstartError(f"{file} cannot be read: {fault}") from None
        if not isinstance(data, dict):
            raise WarmstartError(f"{file} must hold a JSON object")
        return data

    def config(self) -> dict[str, Any]:
        """Return the resolved configuration the run was made with."""
        config = self.read_json(self.config_file)
        for key in ("command", "settings", "model"):
            if key not in config:
                raise WarmstartError(f"{self.config_file} has no '{key}': not written by warmstart")
        return config

    def add_scores(self, entry: dict[str, Any]) -> None:
        """Enter a test evaluation in the ledger."""
        scores = self.read_json(self.scores_file) if self.is_finished else {}
        scores.setdefault("ledger", []).append(entry)
        write_json(self.scores_file, scores)

    def drop_cache(self) -> None:
        """Delete what only an unfinished run needs."""
        shutil.rmtree(self.cache, ignore_errors=True)


@contextmanager
def claimed(path: str | Path, resume: bool) -> Iterator[RunFolder]:
    """Yield the folder for one job, refusing one that is in use or holds something else."""
    run = RunFolder(path)
    is_used = run.path.exists() and (not run.path.is_dir() or any(not p.name.endswith(".tmp") for p in run.path.iterdir()))
    if is_used and not resume:
        raise WarmstartError(
            f"{run.path} exists already: add --resume to go on with it, or choose another -o"
        )
    if is_used and not run.config_file.exists():
        raise WarmstartError(f"{run.path} is not a run folder, so nothing there can be resumed")
    try:
        run.path.mkdir(parents=True, exist_ok=True)
        lock = os.open(run.path, os.O_RDONLY)  # the folder is its own lock
    except OSError as fault:
        raise WarmstartError(f"{run.path} cannot be written: {fault.strerror}") from None
    try:
        _take(lock, run.path)
    except WarmstartError:  # the folder is another's: nothing in it is ours to remove
        os.close(lock)
        raise
    try:
        yield run
    except WarmstartError:
        if not is_used and not run.has_work:
            shutil.rmtree(run.path, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def _take(lock: int, path: Path) -> None:
    """Take the lock; the system frees it when the process dies, however it dies."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise WarmstartError(f"{path} is in use by another warmstart process") from None
