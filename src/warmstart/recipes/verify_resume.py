"""Prove on the user's own machine and job that a killed run loses nothing.

Knows how a job is made short; killing is done elsewhere.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.recipes.chaos import Job, Kill, torment
from warmstart.recipes.sittings import JOBS, Sittings
from warmstart.samples.files import SampleSizes, write_samples
from warmstart.settings.base import read_settings_file
from warmstart.settings.resuming import VerifyResumeConfig

SIZES = SampleSizes(
    unlabelled=200, train=48, valid=24, test=24, train_pairs=1, valid_pairs=1, test_pairs=1
)
SMALL: dict[str, Any] = {
    "preset": "tiny",
    "width": 16,
    "heads": 2,
    "depth": 1,
    "ffn_width": 32,
    "vocab_size": 300,
    "max_length": 16,
    "dropout": 0.1,
    "batch_tokens": 64,
}


@dataclass(frozen=True)
class VerifyResult:
    """Every kill, and what the run resumed after it came to."""

    kills: tuple[Kill, ...]

    @property
    def num_identical(self) -> int:
        """Return how many resumed runs ended as if nothing had happened."""
        return sum(kill.is_identical for kill in self.kills)


def verify_resume(config: VerifyResumeConfig) -> VerifyResult:
    """Kill a short run at random moments, resume it each time, and compare the final weights."""
    with _folder(config.out) as folder:
        job = _job(config, folder)
        rng = random.Random(config.seed)
        kills = []
        with Sittings() as sittings, progress.bar("killing", config.kills, "kill") as bar:
            for kill in torment(job, config.kills, rng, sittings, folder):
                kills.append(kill)
                progress.say(in_words(kill))
                bar.advance(1)
    return VerifyResult(tuple(kills))


def in_words(kill: Kill) -> str:
    """Say what one kill hit and what came of it."""
    verdict = f"{', '.join(kill.differs)} differ" if kill.differs else "identical"
    return f"killed while {kill.moment}, resumed from {kill.unit} {kill.step}: {verdict}"


@contextmanager
def _folder(out: str | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="warmstart-verify-") as made:
            yield Path(made)
        return
    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise WarmstartError(f"{folder} is not empty: choose another -o")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def _job(config: VerifyResumeConfig, folder: Path) -> Job:
    """Return the user's job, or a tiny one, made short."""
    if config.job is None:
        files = write_samples(folder / "samples", sizes=SIZES)
        return short_job("pretrain", {**SMALL, "files": [str(files.unlabelled)]}, config)
    path = Path(config.job)
    values = read_settings_file(path)
    command = _command_in(path) or config.command
    if command not in JOBS:
        raise WarmstartError(f"{path} was written by {command}, which is not one of {list(JOBS)}")
    JOBS[command][0].check_keys(values, f"{path}: ")
    return short_job(command, values, config)


def _command_in(path: Path) -> str | None:
    """Return the command that a run's config.json names."""
    if path.suffix != ".json":
        return None
    found = json.loads(path.read_text(encoding="utf-8")).get("command")
    return None if found is None else str(found)


def short_job(command: str, values: dict[str, Any], config: VerifyResumeConfig) -> Job:
    """Return a job that takes seconds, with many checkpoints."""
    settings = JOBS[command][0]
    steps, every = config.steps, config.save_every
    stepwise = {"steps": steps, "save_every": every, "eval_every": -(-steps // 4)}
    brief: dict[str, dict[str, Any]] = {
        "pretrain": stepwise,
        "finetune": {"epochs": 2, "save_every": every},
        "compare": {"epochs": 1, "seeds": [0], "trials": 1},
        "train-translator": stepwise,
    }
    machine: dict[str, Any] = {
        "device": config.device if config.device != "auto" else None,
        "precision": config.precision if config.precision != "auto" else None,
        "threads": config.threads,
    }
    given = {key: value for key, value in machine.items() if value is not None}
    return Job(command, settings.overridden(values, {**brief[command], **given}))
