"""A job -> proof that it survives being killed."""

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.jsonfiles import read_object, typed
from warmstart.recipes.compare import compare
from warmstart.recipes.export_model import export_model
from warmstart.recipes.finetune import finetune
from warmstart.recipes.import_model import import_model
from warmstart.recipes.make_tokenizer import make_tokenizer
from warmstart.recipes.pretrain import pretrain
from warmstart.recipes.train_translator import train_translator
from warmstart.report.html import bullets
from warmstart.report.notebook import Shown
from warmstart.runs.chaos import Kill, KilledJob, kill_and_resume
from warmstart.runs.sessions import Sessions
from warmstart.samples.sample_files import SampleSizes, write_samples
from warmstart.settings.base import Settings, read_settings_file
from warmstart.settings.exchanging import ExportConfig, ImportConfig
from warmstart.settings.finetuning import CompareConfig, FinetuneConfig
from warmstart.settings.pretraining import PretrainConfig
from warmstart.settings.starting import TokenizerConfig, VerifyResumeConfig
from warmstart.settings.translating import TrainTranslatorConfig

JOBS: dict[str, tuple[type[Settings], Callable[[Any], object]]] = {
    "pretrain": (PretrainConfig, pretrain),
    "finetune": (FinetuneConfig, finetune),
    "compare": (CompareConfig, compare),
    "train-translator": (TrainTranslatorConfig, train_translator),
}
WRITERS: dict[str, tuple[type[Settings], Callable[[Any], object]]] = {  # of one folder, at once
    "tokenizer": (TokenizerConfig, make_tokenizer),
    "import": (ImportConfig, import_model),
    "export": (ExportConfig, export_model),
}
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
class VerifyResult(Shown):
    """Every kill, compared after its run was resumed."""

    kills: tuple[Kill, ...]

    def pieces(self) -> list[str]:
        return [bullets(map(str, self.kills))]

    @property
    def num_identical(self) -> int:
        """Return how many resumed runs equal the uninterrupted one."""
        return sum(kill.is_identical for kill in self.kills)


def verify_resume(config: VerifyResumeConfig) -> VerifyResult:
    """Kill a short run at random moments, resume it each time, and compare the final weights."""
    with _folder(config.out) as folder:
        job = _job(config, folder)
        rng = random.Random(config.seed)
        kills = []
        with Sessions(__name__) as sessions, progress.bar("killing", config.kills, "kill") as bar:
            for kill in kill_and_resume(job, config.kills, rng, sessions, folder):
                kills.append(kill)
                progress.say(str(kill))
                bar.advance(1)
    return VerifyResult(tuple(kills))


def run_job(command: str, settings: Mapping[str, Any]) -> object:
    """Run one of the jobs in this process."""
    config, recipe = (JOBS | WRITERS)[command]
    return recipe(config.from_values(settings))


@contextmanager
def _folder(out: str | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="warmstart-verify-") as temporary:
            yield Path(temporary)
        return
    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise WarmstartError(f"{folder} is not empty: choose another -o")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def _job(config: VerifyResumeConfig, folder: Path) -> KilledJob:
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
    command = read_object(path).get("command")
    return None if command is None else typed(str, command, path, "command")


def short_job(command: str, values: dict[str, Any], config: VerifyResumeConfig) -> KilledJob:
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
    return KilledJob(command, settings.overridden(values, {**brief[command], **given}))
