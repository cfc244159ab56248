"""A folder that has every file the guides name, and their commands on tiny settings.

Knows which files and runs a guide expects, and nothing about what commands answer.
"""

import csv
import json
import lzma
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from command_line import MACHINE, succeed
from command_line import SHAPE as TINY_SHAPE
from hub_folders import save_random
from warmstart.samples.samples import SampleSizes, write_samples

ROOT = Path(__file__).parents[2]
SIZES = SampleSizes(
    unlabelled=200, train=48, valid=24, test=24, train_pairs=60, valid_pairs=12, test_pairs=12
)
SHAPE = TINY_SHAPE.replace("--max-length 16", "--max-length 40")
LENGTH = f"--batch-tokens 64 --steps 6 --save-every 2 {MACHINE}"
PAIRS = f"--preset tiny --width 16 --heads 2 --depth 1 --decoder-depth 1 --ffn-width 32 {LENGTH}"
SOURCES = "--source train.en --target train.fr --valid-source valid.en --valid-target valid.fr"
# A run of each kind; the names that guides give to runs of that kind.
KINDS = {
    f"pretrain texts.txt {SHAPE} {LENGTH} -o": (
        "base",
        "masked",
        "lab",
        "own",
        "moving",
        "small",
    ),
    f"pretrain texts.txt --objective causal {SHAPE} {LENGTH} -o": ("causal",),
    f"finetune {SHAPE} --depth 2 --train train.tsv --epochs 1 {MACHINE} -o": (
        "warm",
        "labels",
        "large",
    ),
    "import bert-folder -o": ("bert",),
    f"train-translator {SOURCES} {PAIRS} --vocab-size 320 -o": (
        *("en-fr", "en-de", "translator", "objects", "warm-en-de"),
    ),
}
# Settings that make a command quick, in place of those of the guide.
QUICK = {
    "pretrain": LENGTH,
    "train-translator": f"{LENGTH} --eval-every 6 --samples 0",
    "finetune": f"--epochs 1 {MACHINE}",
    "compare": f"--labels 12,all --seeds 0 --trials 1 --epochs 1 {MACHINE}",
    "tokenizer": "--vocab-size 300",
    "look ablations": f"--steps 5 --seeds 0 {MACHINE}",
    "look complexity": "--seconds 0.3 --threads 1",
    "look positions": "--length 16",
    "plan": "--seconds 0.5",
    "plan compare": "--seconds 0.5 --labels 12,all",
}
ENDLESS = r" --(?:minutes|tokens) [\d.]+"  # they exclude --steps


@dataclass(frozen=True)
class GuideFiles:
    """Files and runs that folders are furnished with."""

    files: Path
    runs: dict[str, Path]

    def put(self, folder: Path) -> None:
        """Fill a folder with every file."""
        shutil.copytree(self.files, folder, dirs_exist_ok=True)
        (folder / "configs").symlink_to(ROOT / "configs")

    def ready(self, command: str, folder: Path) -> None:
        """Make room for what a command writes, and provide the runs it reads."""
        words = shlex.split(command)
        out = words[words.index("-o") + 1] if "-o" in words else ""
        if "--resume" not in words and (folder / out).is_dir() and out:
            shutil.rmtree(folder / out)
        elif (folder / out).is_file():
            (folder / out).unlink()
        for name in re.findall(r"runs/([\w-]+)", command):
            run = folder / "runs" / name
            if not run.exists() and f"runs/{name}" != out and name in self.runs:
                shutil.copytree(self.runs[name], run)


def tiny(command: str) -> str:
    """Return a command of a guide with settings that take seconds."""
    words = shlex.split(command, comments=True)[1:]
    verb = next(
        verb for verb in (" ".join(words[:2]), words[0]) if verb in QUICK or verb == words[0]
    )
    line = shlex.join(words).replace("step-500", "step-4")
    if verb in ("pretrain", "train-translator", "finetune", "compare"):
        line = re.sub(ENDLESS, "", line)
    is_new = "--from" not in words and "config.json" not in line
    shape = {"pretrain": SHAPE, "train-translator": PAIRS, "finetune": SHAPE}.get(verb, "")
    if "--tokenizer" in words:
        shape = shape.replace("--vocab-size 300", "")
    quick = QUICK.get(verb, "")
    for flag in re.findall(r"--[a-z-]+", quick):
        line = re.sub(rf" {flag} \S+", "", line)
    return f"{line} {shape if is_new else ''} {quick}"


def make_guide_files(folder: Path) -> GuideFiles:
    """Write every file, and train a run of each kind."""
    files = folder / "files"
    files.mkdir(parents=True)
    _write_files(files)
    runs = {}
    for number, (command, names) in enumerate(KINDS.items()):
        run = folder / f"run-{number}"
        paths = re.sub(r"\b((?:train|valid|texts)\.\w+|bert-folder)", rf"{files}/\1", command)
        succeed(f"{paths} {run}")
        runs |= dict.fromkeys(names, run)
    return GuideFiles(files, runs)


def _write_files(folder: Path) -> None:
    samples = write_samples(folder, sizes=SIZES)
    texts = samples.unlabelled.read_text(encoding="utf-8")
    english = samples.train_pairs.english.read_text(encoding="utf-8")
    for name in (
        "texts",
        "archive",
        "new",
        "more",
        "notes",
        "novel",
        "novels",
        "reviews",
        "english",
        "german",
    ):
        (folder / f"{name}.txt").write_text(texts, encoding="utf-8")
    (folder / "sentences.txt").write_text("The bank is old.\nA bank of sand.\nThe river bank.\n")
    (folder / "new.en").write_text(english, encoding="utf-8")
    for name in ("new", "topics-test"):
        shutil.copy(samples.test, folder / f"{name}.tsv")
    shutil.copy(samples.train, folder / "topics.tsv")
    shutil.copy(samples.valid, folder / "topics-valid.tsv")
    for name, table in (("new", samples.test), ("labels", samples.train)):
        with table.open(encoding="utf-8") as rows, (folder / f"{name}.csv").open("w") as file:
            csv.writer(file).writerows(row.rstrip("\n").split("\t") for row in rows)
    for part in ("train", "valid", "test"):
        shutil.copy(folder / f"{part}.fr", folder / f"{part}.de")
        _write_columns(folder, part)
    (folder / "novels").mkdir()
    with lzma.open(folder / "novels/first.txt.xz", "wt", encoding="utf-8") as file:
        file.write(texts)
    _write_lines(folder / "reviews.jsonl", (json.dumps({"body": t}) for t in texts.splitlines()))
    for name in ("bert-folder", "bert-base-uncased"):
        (folder / name).mkdir()
        save_random(folder / name, "bert", "BertForPreTraining")


def _write_columns(folder: Path, part: str) -> None:
    """Write labelled texts as two files, and pairs as objects."""
    rows = [line.split("\t") for line in (folder / f"{part}.tsv").read_text().splitlines()[1:]]
    _write_lines(folder / f"{part}.txt", (text for _, text in rows))
    _write_lines(folder / f"{part}.labels", (label for label, _ in rows))
    sides = [(folder / f"{part}.{side}").read_text().splitlines() for side in ("en", "de")]
    pairs = [{"en": en, "de": de} for en, de in zip(*sides, strict=True)]
    _write_lines(folder / f"{part}.jsonl", map(json.dumps, pairs))


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
