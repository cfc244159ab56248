"""Train with random options, then use the run: every command must end with an answer or a sentence.

    python tests/fuzz/options.py --cases 500 --seed 0

A case draws up to four options of a training command with values they allow. What ends in anything
else is printed at once, and the exit code is 1.
"""

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tampering import Failure, Tally, run_command

from warmstart.comparison.commands import CompareConfig
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.base import Setting, Settings
from warmstart.settings.training import FinetuneConfig, PretrainConfig, TrainTranslatorConfig

# Options that name files, other machines or other starts, or that only take long.
LEFT_OUT = {
    "columns",
    "config",
    "device",
    "minutes",
    "overwrite",
    "pieces",
    "ray",
    "resume",
    "task",
}
LARGEST = {"batch_tokens": 4096, "steps": 8, "tokens": 4096, "threads": 2, "vocab_size": 400}
LEAST = {"threads": 1, "vocab_size": 300, "max_length": 3}
SHAPE = {"width": 16, "heads": 2, "depth": 1, "ffn-width": 32, "threads": 1}
ROWS = {**SHAPE, "preset": "tiny", "vocab-size": 300, "max-length": 16}
USED = ["export run --to hf -o exported"]


@dataclass(frozen=True)
class Job:
    """A training command with its settings, and the commands that use what it wrote."""

    command: str
    settings: type[Settings]
    base: dict[str, Any]
    uses: tuple[str, ...]

    def draw(self, draw: random.Random) -> list[str]:
        """Return the arguments of one case."""
        declared = self.settings.declared()
        is_fixed = "--from" in self.command  # a backbone's shape cannot change
        options = [s for s in declared if _values(s) and not (is_fixed and s.panel == "Model")]
        values = {key: str(value) for key, value in self.base.items()}
        for setting in draw.sample(options, draw.randint(1, 4)):
            for other in declared:
                if setting.key in other.excludes or other.key in setting.excludes:
                    values.pop(other.flag[2:], None)
            value = draw.choice(_values(setting))
            name = setting.flag[2:]
            if isinstance(value, bool):
                values[name if value else f"no-{name}"] = ""
            else:
                values[name] = str(value)
        flags = {f"--{name}": value for name, value in values.items()}
        return [*self.command.split(), *(part for pair in flags.items() for part in pair if part)]


TABLES = "--train train.tsv --valid valid.tsv"
PAIRS = "--source few.txt --target few.txt --valid-source few.txt --valid-target few.txt"
JOBS = (
    Job(
        "pretrain unlabelled.txt -o run",
        PretrainConfig,
        {**ROWS, "batch-tokens": 64, "steps": 4},
        (f"finetune --from run {TABLES} --epochs 1 --threads 1 -o tuned", *USED),
    ),
    Job(
        f"finetune {TABLES} -o run",
        FinetuneConfig,
        {**ROWS, "epochs": 1},
        ("predict run few.txt --threads 1", "evaluate run --test test.tsv --threads 1", *USED),
    ),
    Job(
        f"finetune --from base {TABLES} -o run",
        FinetuneConfig,
        {"epochs": 1, "threads": 1},
        ("predict run few.txt --threads 1", *USED),
    ),
    Job(
        f"train-translator {PAIRS} -o run",
        TrainTranslatorConfig,
        {**ROWS, "preset": "translator-small", "decoder-depth": 1, "steps": 4, "samples": 0},
        ("translate run few.txt --threads 1", "export run --to ctranslate2 -o exported"),
    ),
    Job(
        "compare --from base --train train.tsv -o run",
        CompareConfig,
        {
            "test": "test.tsv",
            "epochs": 1,
            "trials": 1,
            "seeds": "0,1",
            "arms": "warm,tfidf",
            "threads": 1,
        },
        ("predict run/models/warm few.txt --threads 1",),
    ),
)


def _values(setting: Setting) -> Sequence[Any]:
    """Return values that an option allows; none: it is left as it is."""
    name = setting.name
    if name in LEFT_OUT or setting.is_list or setting.positional or not setting.has_flag:
        return ()
    if setting.choices:
        return setting.choices
    if setting.value_type is bool:
        return (True, False)
    least = max(setting.least or 0, setting.above or 0, LEAST.get(name, 0))
    if setting.value_type is int:
        largest = min(LARGEST.get(name, 12), setting.most or 12)
        return sorted({max(1, int(least), value) for value in (1, 2, 3, int(largest))})
    if setting.value_type is float:
        most = max(least, min(1.0, 1.0 if setting.most is None else setting.most))
        return (least + 1e-3, (least + most) / 2, most)
    return ()


def fuzz_options(num_cases: int, seed: int, folder: Path) -> Tally:
    """Run cases in a folder of small files; return how they ended."""
    tally, draw = Tally(), random.Random(seed)
    with contextlib.chdir(folder):
        _write_files()
        for number in range(num_cases):
            job = JOBS[number % len(JOBS)]
            trained = job.draw(draw)
            for arguments in (trained, *map(str.split, job.uses)):
                code, _, err = run_command(arguments)
                said = err.strip().rpartition("\n")[2]
                if code and not (code == 2 and said.startswith("warmstart: ")):
                    tally.fail(Failure(" ".join(arguments), " ".join(trained).encode(), err))
                if code:
                    tally.add("refused")
                    break
                tally.add("answered")
            for name in ("run", "tuned", "exported"):
                shutil.rmtree(name, ignore_errors=True)
    return tally


def _write_files() -> None:
    sizes = SampleSizes(unlabelled=60, train=24, test=12)
    files = write_samples(Path("samples"), sizes=sizes)
    for file in (files.unlabelled, files.train, files.valid, files.test):
        file.rename(file.name)
    Path("few.txt").write_text("a good book\na bad film, really\n" * 8)
    base = [part for key, value in ROWS.items() for part in (f"--{key}", str(value))]
    code, _, err = run_command(["pretrain", "unlabelled.txt", *base, "--steps", "2", "-o", "base"])
    assert code == 0, err


def main() -> None:
    """Fuzz as much as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory(prefix="warmstart-options-") as folder:
        tally = fuzz_options(given.cases, given.seed, Path(folder))
    sys.stdout.write(f"commands with random options: {tally}\n")
    sys.exit(bool(tally.failures))


if __name__ == "__main__":
    main()
