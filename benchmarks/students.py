"""Fine-tune several pretrainings on the same few labels, let them vote, teach one model the vote.

    python benchmarks/students.py runs/a runs/b runs/c --train imdb/train.tsv --test imdb/test.tsv \
        --unlabelled unlabelled.txt.xz --labels 25 100 -o students

The labels are drawn as `compare` draws them. `finetune` sets a fifth aside, as it does by default;
of 200 or fewer a teacher learns these, too, a student does not. `teacher` is each model, `vote` the
mean of their log-probabilities, `student` the first pretraining taught by all
(`finetune --teacher`), and `own student` the same taught by its own model alone, which tells what
the unlabelled texts add without the others. One line of JSON for each.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.data.splits import nested_rows
from warmstart.recipes.finetune import finetune
from warmstart.settings.training import FinetuneConfig
from warmstart.tasks.registry import load
from warmstart.tasks.teaching import average_views


@dataclass(frozen=True)
class Table:
    """Labelled texts of a file with the columns label and text."""

    header: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, file: str) -> "Table":
        """Read a file with a header."""
        header, *lines = Path(file).read_text(encoding="utf-8").splitlines()
        return cls(header, tuple(lines))

    @property
    def labels(self) -> list[str]:
        """Return the label of every text."""
        return [line.split("\t", 1)[0] for line in self.lines]

    @property
    def texts(self) -> list[str]:
        """Return the texts."""
        return [line.split("\t", 1)[1] for line in self.lines]

    def write(self, file: Path, rows: Sequence[int]) -> None:
        """Write some of the rows with the header."""
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [self.header, *(self.lines[row] for row in rows)]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")


class Draw:
    """The models of one draw of labels."""

    def __init__(self, given: argparse.Namespace, test: Table, folder: Path, seed: int) -> None:
        self._given, self._test, self._folder, self._seed = given, test, folder, seed
        self._classes = sorted(set(test.labels))

    def fit(self, name: str, run: str, teachers: Sequence[Path] = ()) -> NDArray[np.float64]:
        """Fine-tune a pretraining; return the probability of every class of every test text."""
        taught: dict[str, Any] = {}
        if teachers:
            taught = {"teacher": list(map(str, teachers)), "unlabelled": self._given.unlabelled}
        settings = {
            "from": run,
            "train": [str(self._folder / "train.tsv")],
            "out": str(self._folder / name),
            "seed": self._seed,
            "task": "classify",
            **taught,
        }
        finetune(FinetuneConfig.from_values(settings))
        answers = load(self._folder / name).predict(self._test.texts)
        return np.array([[a.probabilities[each] for each in self._classes] for a in answers])

    def accuracy(self, shares: NDArray[np.float64]) -> float:
        """Return the share of test texts whose most probable class is theirs."""
        said = [self._classes[best] for best in shares.argmax(axis=1)]
        return float(np.mean([a == b for a, b in zip(said, self._test.labels, strict=True)]))

    def models(self) -> Iterator[tuple[str, float, float]]:
        """Yield name, accuracy and seconds of every model."""
        runs, views = self._given.runs, []
        for turn, run in enumerate(runs):
            began = time.perf_counter()
            views.append(self.fit(f"teacher-{turn}", run))
            yield f"teacher {run}", self.accuracy(views[-1]), time.perf_counter() - began
        yield "vote", self.accuracy(average_views(views)), 0.0
        teachers = [self._folder / f"teacher-{turn}" for turn in range(len(runs))]
        for name, some in (("student", teachers), ("own student", teachers[:1])):
            began = time.perf_counter()
            shares = self.fit(name.replace(" ", "-"), runs[0], some)
            yield name, self.accuracy(shares), time.perf_counter() - began


def main() -> None:
    """Train every model for each number of labels and seed; print its accuracy."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", help="pretrained runs; the first is the student's")
    parser.add_argument("--train", required=True, help="table with the columns label and text")
    parser.add_argument("--test", required=True, help="such a table to score on")
    parser.add_argument("--unlabelled", nargs="+", required=True, help="texts to teach with")
    parser.add_argument("--labels", type=int, nargs="+", default=[25, 100])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("-o", "--out", required=True, help="folder of the models")
    given = parser.parse_args()
    train, test = Table.read(given.train), Table.read(given.test)
    for labels in given.labels:
        for seed in given.seeds:
            folder = Path(given.out) / f"{labels}-{seed}"
            train.write(folder / "train.tsv", nested_rows(train.labels, seed)[:labels])
            for name, accuracy, seconds in Draw(given, test, folder, seed).models():
                found = {"model": name, "labels": labels, "seed": seed, "accuracy": accuracy}
                print(json.dumps(found | {"seconds": round(seconds, 1)}), flush=True)


if __name__ == "__main__":
    main()
