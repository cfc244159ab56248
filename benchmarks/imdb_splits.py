"""Write IMDB's labelled reviews as `label TAB text`: a held-out `test.tsv`, the rest `train.tsv`.

    python benchmarks/imdb_splits.py train.tsv.xz imdb

The input has lines of `label TAB rating TAB text`, sorted by label. The held-out reviews are a
stratified sample; both files are shuffled. The seed alone determines the split. The same reviews
with their ratings, from 1 to 10, are in `ratings-test.tsv` and `ratings-train.tsv`. Of
`train.tsv`, `others-test.tsv` has 5,000 reviews, to test again on, and `others-train.tsv` the rest.
"""

import lzma
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SEED, HELD_OUT = 2017, 2_000
OTHERS_SEED, OTHERS = 5000, 5_000
Rows = Sequence[tuple[str, ...]]


def read(file: Path) -> list[tuple[str, str, str]]:
    """Return label, rating and text of every line."""
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return [(label, rating, text) for label, rating, text in rows]


def split(labels: list[str], num_held_out: int) -> tuple[list[int], list[int]]:
    """Return shuffled row numbers: the rest, and a held-out sample with the labels' shares."""
    generator = np.random.default_rng(SEED)
    held_out: list[int] = []
    for label in sorted(set(labels)):
        rows = np.flatnonzero(np.asarray(labels) == label)
        num = round(num_held_out * len(rows) / len(labels))
        held_out += generator.permutation(rows)[:num].tolist()
    rest = np.setdiff1d(np.arange(len(labels)), held_out)
    return generator.permutation(rest).tolist(), generator.permutation(held_out).tolist()


def split_others(labels: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the row numbers of the rest in order, and a shuffled sample of the two classes."""
    generator = random.Random(OTHERS_SEED)
    sample: list[int] = []
    for label in sorted(set(labels)):
        rows = [row for row, row_label in enumerate(labels) if row_label == label]
        sample += generator.sample(rows, OTHERS // 2)
    generator.shuffle(sample)
    return sorted(set(range(len(labels))) - set(sample)), sample


def write(file: Path, header: tuple[str, ...], rows: Rows) -> None:
    """Write a table and say how many reviews it has."""
    file.write_text("\n".join(map("\t".join, [header, *rows])) + "\n", encoding="utf-8")
    print(f"{file}: {len(rows):,} reviews")


def main() -> None:
    """Read the file named first; write the folder named second."""
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    rows = read(source)
    rest, held_out = split([label for label, _, _ in rows], HELD_OUT)
    folder.mkdir(parents=True, exist_ok=True)
    for name, numbers in (("train.tsv", rest), ("test.tsv", held_out)):
        write(folder / name, ("label", "text"), [rows[number][::2] for number in numbers])
        rated = [rows[number][1:] for number in numbers]
        write(folder / f"ratings-{name}", ("rating", "text"), rated)
    train = [rows[number][::2] for number in rest]
    for name, numbers in zip(
        ("others-train.tsv", "others-test.tsv"), split_others([r[0] for r in train]), strict=True
    ):
        write(folder / name, ("label", "text"), [train[number] for number in numbers])


if __name__ == "__main__":
    main()
