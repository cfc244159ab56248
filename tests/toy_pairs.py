"""A toy language to translate from: digits into words, and a translator that has learned it.

Knows nothing about what any test looks for.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import MACHINE, succeed

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SHAPE = (
    "--preset translator-small --width 32 --heads 2 --depth 1 --decoder-depth 1 --ffn-width 64 "
    "--max-length 20 --dropout 0"
)
FILES = (
    "--source {source} --target {target} "
    "--valid-source {valid_source} --valid-target {valid_target}"
)
SMALL = f"{SHAPE} --vocab-size 320 --samples 0 {MACHINE}"
LEARN = (
    f"{SMALL} --batch-tokens 1024 --learning-rate 0.01 --label-smoothing 0 --steps 280 "
    "--eval-every 70"
)
SHORT = f"{SMALL} --batch-tokens 256 --steps 6 --eval-every 2"  # trains, learns nothing
EARLY = "--average 2 --select loss --learning-rate 1.0 --clip 1000 --patience 2 --steps 40"


@dataclass(frozen=True)
class Toy:
    """Files of pairs: digits on one side, their names on the other."""

    source: Path
    target: Path
    valid_source: Path
    valid_target: Path
    test_source: Path
    test_target: Path


def _write(source: Path, target: Path, num: int, seed: int) -> None:
    draw = random.Random(seed)
    rows = [draw.sample(range(10), draw.randint(2, 5)) for _ in range(num)]
    source.write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    target.write_text("".join(" ".join(WORDS[k] for k in row) + "\n" for row in rows))


def in_words(line: str) -> str:
    """Return the right translation of a line."""
    return " ".join(WORDS[int(digit)] for digit in line.split())


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    folder = tmp_path_factory.getbasetemp() / "toy"
    names = [
        f"{part}.{side}" for part in ("train", "valid", "test") for side in ("digits", "words")
    ]
    paths = [folder / name for name in names]
    folder.mkdir()
    for seed, num in enumerate((400, 30, 40)):
        _write(paths[2 * seed], paths[2 * seed + 1], num, seed)
    return Toy(*paths)


@pytest.fixture(scope="session")
def translator(toy: Toy) -> Path:
    """Return a run that translates the toy language well."""
    return _trained(toy, "learned", LEARN)


@pytest.fixture(scope="session")
def beginner(toy: Toy) -> Path:
    """Return a run that has taken six steps only."""
    return _trained(toy, "beginner", SHORT)


def _trained(toy: Toy, name: str, options: str) -> Path:
    run = toy.source.parent / name
    succeed(f"train-translator {FILES} -o {run} {options}", **vars(toy))
    return run
