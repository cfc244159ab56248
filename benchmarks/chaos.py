"""Kill every kind of run with SIGKILL, resume it each time, and count the identical ends.

Then kill and race the commands that write one folder, and count the trials that lose nothing.

Run by `make chaos`; the first part is that of `warmstart verify-resume`. The same seed kills at the
same moments as far as the machine allows.
"""

import argparse
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from races import Arena, FolderJob, run_trials

from warmstart.interop.commands import ExportConfig
from warmstart.interop.exchange import export_model
from warmstart.recipes.pretrain import pretrain
from warmstart.samples.samples import SampleFiles, SampleSizes, write_samples
from warmstart.settings.base import Settings
from warmstart.settings.training import FinetuneConfig, PretrainConfig, TrainTranslatorConfig
from warmstart.verify.resume import SMALL, KilledJob, kill_and_resume

SIZES = SampleSizes(
    unlabelled=200, train=48, valid=24, test=24, train_pairs=96, valid_pairs=8, test_pairs=8
)
MACHINE: dict[str, Any] = {"device": "cpu", "precision": "fp32", "threads": 1}
SAVING = {"save_every": 5, "keep": 2}


def main() -> None:
    """Kill each kind of run in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=110, help="SIGKILLs over all kinds of run")
    parser.add_argument("--races", type=int, default=190, help="kills and races of other commands")
    parser.add_argument(
        "--ranks", type=int, default=100, help="SIGKILLs of single processes and of their launcher"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs to kill at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", help="only these runs, with commas between")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warmstart-chaos-") as made:
        kinds = kinds_of_run(Path(made))
        if given.kinds:
            kinds = {name: kinds[name] for name in given.kinds.split(",")}
        chaos = Chaos(Path(made), given.seed, given.jobs)
        num_good = chaos.kill_runs(kinds, given.kills)
        num_good += race_writers(given.races, given.seed, Path(made)) if given.races else 0
        if given.ranks:
            shared = {"two processes": shared_run(Path(made))}
            num_good += chaos.kill_runs(shared, given.ranks)
    num_trials = given.kills + given.races + given.ranks
    print(f"{num_good}/{num_trials} identical or without loss")
    sys.exit(num_good < num_trials)


@dataclass(frozen=True)
class Chaos:
    """Kills that depend on a seed, of several runs at a time."""

    folder: Path
    seed: int
    num_jobs: int

    def kill_runs(self, kinds: dict[str, KilledJob], num_kills: int) -> int:
        """Kill each kind of run; return how many ended as if nothing had happened."""
        with ThreadPoolExecutor(self.num_jobs) as pool:
            counts = []
            for name, share in zip(kinds, divided(num_kills, len(kinds)), strict=True):
                for part, num in enumerate(divided(share, self.num_jobs)):
                    counts.append(pool.submit(self._kill, name, kinds[name], part, num))
            return sum(count.result() for count in counts)

    def _kill(self, name: str, job: KilledJob, part: int, num_kills: int) -> int:
        if num_kills == 0:
            return 0
        num_identical, own = 0, self.folder / f"{name.replace(' ', '-')}-{part}"
        own.mkdir()
        rng = random.Random(f"{self.seed} {name} {part}")
        for kill in kill_and_resume(job, num_kills, rng, own):
            num_identical += kill.is_identical
            print(f"{name}: {kill!s}", flush=True)
        return num_identical


def divided(number: int, num_parts: int) -> list[int]:
    """Divide a number into parts that differ by one at most."""
    return [number // num_parts + (part < number % num_parts) for part in range(num_parts)]


def race_writers(num_trials: int, seed: int, folder: Path) -> int:
    """Kill and race the commands that write one folder; return how many trials lost nothing."""
    num_safe, own = 0, folder / "races"
    own.mkdir()
    arena = Arena(own, random.Random(seed))
    for trial in run_trials(arena, writers(folder), num_trials):
        num_safe += not trial.faults
        print(trial, flush=True)
    return num_safe


def writers(folder: Path) -> list[FolderJob]:
    """Return the commands that write one folder, and a run that competes with them."""
    texts = [str(folder / "samples" / "unlabelled.txt")]
    run, exported = folder / "exportable", folder / "exported"
    short = {**SMALL, **MACHINE, "files": texts, "steps": 6}
    pretrain(PretrainConfig.from_values({**short, "preset": "mini", "out": str(run)}))
    export_model(ExportConfig(run=str(run), out=str(exported)))
    return [
        FolderJob("tokenizer", {"files": texts, "vocab_size": 1000}),
        FolderJob("export", {"run": str(run)}),
        FolderJob("import", {"folder": str(exported)}),
        FolderJob("pretrain", short, only_competes=True),
    ]


def kinds_of_run(folder: Path) -> dict[str, KilledJob]:
    """Return a small job of every kind, with the files and the base that they need."""
    files = write_samples(folder / "samples", sizes=SIZES)
    base = folder / "base"
    short = {**SMALL, **MACHINE, "files": [str(files.unlabelled)]}
    pretrain(PretrainConfig.from_values({**short, "steps": 6, "out": str(base)}))
    pretraining = {**short, **SAVING, "steps": 60, "eval_every": 15}
    labelled = {"train": str(files.train), "valid": str(files.valid), **MACHINE}
    tuning = {**labelled, **SAVING, "epochs": 10, "batch_size": 8}
    comparison = {**labelled, "epochs": 6, "labels": ["16", "all"], "seeds": [0, 1], "trials": 1}
    return {
        "causal pretraining": KilledJob("pretrain", pretraining),
        "masked pretraining": KilledJob("pretrain", {**pretraining, "objective": "masked"}),
        "warm fine-tuning": KilledJob("finetune", {**tuning, "from": str(base)}),
        "cold fine-tuning": KilledJob("finetune", {**tuning, **_shape(FinetuneConfig)}),
        "comparison": KilledJob("compare", {**comparison, "from": [str(base)]}),
        "translation": KilledJob("train-translator", _translation(files)),
    }


def shared_run(folder: Path) -> KilledJob:
    """Return a run that a launcher and two processes share."""
    files = [str(folder / "samples" / "unlabelled.txt")]
    pace = {"steps": 100, "eval_every": 30, "save_every": 10, "keep": 2, "processes": "2"}
    return KilledJob("pretrain", {**SMALL, **MACHINE, **pace, "files": files, "dropout": 0.1})


def _shape(settings: type[Settings]) -> dict[str, Any]:
    """Return the small shape, as far as a job knows its words."""
    known = {setting.key for setting in settings.declared()}
    return {key: value for key, value in SMALL.items() if key in known}


def _translation(files: SampleFiles) -> dict[str, Any]:
    shape = {**_shape(TrainTranslatorConfig), "decoder_depth": 1, "max_length": 96}
    return {
        **shape,
        **SAVING,
        **MACHINE,
        "steps": 60,
        "eval_every": 15,
        "source": str(files.train_pairs.english),
        "target": str(files.train_pairs.french),
        "valid_source": str(files.valid_pairs.english),
        "valid_target": str(files.valid_pairs.french),
    }


if __name__ == "__main__":
    main()
