"""The layout of a run folder: self-contained, portable, no pickle."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warmstart.errors import WarmstartError
from warmstart.files import remove_own, take_over, write_json
from warmstart.jsonfiles import from_json, read_object, show
from warmstart.locks import address, lock
from warmstart.runs.facts import ConfigFile, Figures, ScoresFile

FORMAT = 2  # of a run folder; raised whenever a run of an earlier version can no longer be resumed
READABLE = (1, FORMAT)  # formats of runs that can be used once they are finished


class RunFolder:
    """The files of one run."""

    def __init__(self, path: str | Path, is_read_only: bool = False) -> None:
        self.path = Path(path)
        self.is_read_only = is_read_only  # while another process writes to it
        self.config_file = self.path / "config.json"
        self.weights_file = self.path / "model.safetensors"
        self.scores_file = self.path / "scores.json"
        self.data_file = self.path / "data.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.snapshots = self.path / "snapshots"  # weights of the last validations, to average
        self.cells = self.path / "cells"  # finished cells of a comparison
        self.models = self.path / "models"  # run folders of the models that a comparison keeps
        self.cache = self.path / "cache"  # token files; deleted when the run is finished
        self.shards = self.path / "shards"  # parts of token files; deleted when those are complete

    @property
    def is_finished(self) -> bool:
        """Tell whether the job is complete: its own scores are written last."""
        return self.scores().valid is not None

    @property
    def has_work(self) -> bool:
        """Tell whether anything was trained that must not be lost."""
        has_results = self.scores_file.exists() or self.weights_file.exists() or self.cells.is_dir()
        return has_results or any(self.path.glob("checkpoints/*"))

    @property
    def has_preparation(self) -> bool:
        """Tell whether text was tokenized, all of it or a part that is large enough to keep."""
        return self.data_file.exists() or len(self.finished_shards()) > 1

    def finished_shards(self) -> list[Path]:
        """Return the parts of the text that an unfinished preparation has tokenized."""
        return [path for path in self.shards.glob("[!.]*") if path.is_dir()]

    def read_json(self, file: Path) -> dict[str, Any]:
        """Return a JSON file of this run."""
        if not file.exists():
            address(file)  # a folder that was moved away is the reason
            raise WarmstartError(f"{self.path} is not a run folder: no {file.name} in it")
        return read_object(file)

    def config(self) -> dict[str, Any]:
        """Return the resolved configuration the run was made with."""
        config = self.read_json(self.config_file)
        if "format" not in config:
            raise WarmstartError(f"{self.config_file} has no 'format'")
        if config["format"] not in READABLE:
            raise WarmstartError(
                f"{self.config_file} has run format {show(config['format'])}, this version "
                f"reads {READABLE[0]} and {FORMAT}: warmstart {show(config.get('warmstart'))} "
                "reads it, which wrote it; use that, or train the run again"
            )
        classes = from_json(ConfigFile, config, self.config_file).classes
        if len(set(classes)) < len(classes):
            raise WarmstartError(f"{self.config_file}: classes={show(classes)} must be different")
        return config

    def entry(self, key: str) -> Any:
        """Return an entry of config.json; refuse a run that lacks it."""
        config = self.config()
        if config.get(key) is None:
            raise WarmstartError(f"{self.config_file} has no '{key}'")
        return config[key]

    def scores(self) -> ScoresFile:
        """Return the scores of the run; those of an unfinished one are empty."""
        return from_json(ScoresFile, self._scores(), self.scores_file)

    def valid_scores(self) -> Figures:
        """Return the validation scores of a finished run."""
        return Figures(self.scores().valid or {}, self.scores_file)

    def finish(self, scores: dict[str, Any]) -> None:
        """Write the run's own scores; earlier test evaluations stay in the ledger."""
        with self.alone():
            write_json(self.scores_file, {**scores, "ledger": self._scores().get("ledger", [])})

    def add_scores(self, entry: dict[str, Any]) -> None:
        """Enter a test evaluation in the ledger."""
        with self.alone():
            self.scores()  # refused if it has another form
            scores = self._scores()
            scores.setdefault("ledger", []).append(entry)
            write_json(self.scores_file, scores)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock under which scores and kept models are compared and replaced."""
        owned = lock(self.config_file, wait=True)
        assert owned is not None
        try:
            yield
        finally:
            owned.release()

    def _scores(self) -> dict[str, Any]:
        return self.read_json(self.scores_file) if self.scores_file.exists() else {}

    def take_over(self) -> None:
        """Count what an earlier process left here among what this one may delete."""
        take_over([self.cache, self.shards, self.snapshots])
        take_over([*self.checkpoints.glob("step-*"), *self.snapshots.glob("step-*")])

    def drop_cache(self) -> None:
        """Delete the token files, which only an unfinished run needs."""
        remove_own(self.cache)
        self.drop_shards()

    def drop_shards(self) -> None:
        """Delete the shards, which only an unfinished preparation needs."""
        remove_own(self.shards)

    def drop_snapshots(self) -> None:
        """Delete the weights that a translator has averaged."""
        remove_own(self.snapshots)
