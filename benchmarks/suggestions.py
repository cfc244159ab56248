"""Accuracy against labels: texts that `suggest` chooses beside texts drawn at random.

    python benchmarks/suggestions.py --unlabelled unlabelled.txt.xz --train imdb/train.tsv \
        --test imdb/test.tsv

Every seed draws a pool and its first labels. From there on each way to choose adds texts of the
pool, and the LSA model of its labels predicts the test texts; `suggest` sees the model of the
labels before. Intervals are of paired differences, over seeds and test texts. Without --unlabelled
the analysis is of the training texts. Rows with several labels, with commas between, are left out.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from warmstart.data.corpus import read_texts
from warmstart.data.labelled import Dataset, read_labelled
from warmstart.evaluation.intervals import paired_interval
from warmstart.labelling.choosing import MAX_DIMENSIONS, choose_texts
from warmstart.settings.shared import TableFormat
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.latent_semantics import LatentSpace, fit_space
from warmstart.tasks.logistic import class_shares
from warmstart.tasks.lsa import fit_nested

C = 0.3  # of the LSA model, its default
TASK = ClassifyTask()


def read_single(path: str) -> Dataset:
    """Read the rows with one label."""
    data = read_labelled(Path(path), TableFormat())
    return data.subset([row for row, label in enumerate(data.labels) if "," not in label])


class Race:
    """The texts and vectors of a pool and of a test, on which ways to choose compete."""

    def __init__(self, space: LatentSpace, train: Dataset, test: Dataset) -> None:
        names = sorted({*train.labels, *test.labels})
        self.labels = {"classes": names}
        self.classes, self.truth = (
            np.array([names.index(label) for label in data.labels]) for data in (train, test)
        )
        self.vectors, self.test = space.vectors(train.texts), space.vectors(test.texts)

    def predict(self, rows: Sequence[int], vectors: np.ndarray) -> np.ndarray:
        """Return the probabilities of a model that is fitted on these rows."""
        model = fit_nested(self.vectors[rows], self.classes[rows], C, "none", tolerance=1e-4)
        return class_shares(model, vectors, len(self.labels["classes"]))

    def correct(self, rows: Sequence[int]) -> np.ndarray:
        """Tell which test texts the model of these rows labels correctly."""
        return self.predict(rows, self.test).argmax(1) == self.truth

    def suggest(self, rows: list[int], free: np.ndarray, num: int, seed: int) -> list[int]:
        """Return what `suggest` chooses with the model of these rows."""
        predictions = TASK.predictions(self.predict(rows, self.vectors[free]), self.labels)
        uncertainty = np.array([prediction.uncertainty for prediction in predictions])
        vectors = self.vectors[free][:, :MAX_DIMENSIONS]
        return free[choose_texts(vectors, uncertainty, num, seed)].tolist()

    def spread(self, rows: list[int], free: np.ndarray, num: int, seed: int) -> list[int]:
        """Return what `suggest` chooses without a classifier."""
        vectors = self.vectors[free][:, :MAX_DIMENSIONS]
        return free[choose_texts(vectors, None, num, seed)].tolist()

    def draw(self, rows: list[int], free: np.ndarray, num: int, seed: int) -> list[int]:
        """Return texts at random."""
        generator = np.random.default_rng([seed, len(rows)])
        return generator.choice(free, num, replace=False).tolist()

    def run(self, start: int, sizes: Sequence[int], pool: int, seed: int) -> np.ndarray:
        """Return which test texts are correct: (ways to choose, sizes, texts)."""
        drawn = np.random.default_rng(seed).permutation(len(self.classes))[:pool]
        first = drawn[:start].tolist()
        outcomes = []
        for choose in (self.draw, self.suggest, self.spread):
            rows, of_sizes = list(first), []
            for size in sizes:
                free = np.setdiff1d(drawn, rows)
                rows += choose(rows, free, size - len(rows), seed)
                of_sizes.append(self.correct(rows))
            outcomes.append(of_sizes)
        return np.array(outcomes, np.float64)


def main() -> None:
    """Print accuracies at every number of labels, and their differences to random texts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unlabelled", help="text of the analysis, a document a line")
    parser.add_argument("--train", required=True, help="labelled texts to choose from")
    parser.add_argument("--test", required=True, help="labelled texts to score on")
    parser.add_argument("--start", type=int, default=50, help="labels drawn at random first")
    parser.add_argument("--labels", default="100,200")
    parser.add_argument("--pool", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    train, test = map(read_single, (given.train, given.test))
    documents = read_texts(Path(given.unlabelled), TableFormat()) if given.unlabelled else None
    space = fit_space(documents or train.texts)
    assert space is not None, "too little text"
    sizes = [int(size) for size in given.labels.split(",")]
    run = partial(Race(space, train, test).run, given.start, sizes, given.pool)
    outcomes = []
    for seed in range(given.seeds):
        outcomes.append(run(seed))
        means = 100 * outcomes[-1].mean(-1)
        print(f"seed {seed}: {', '.join(map(str, means.round(1).tolist()))}", flush=True)
    by_way = np.array(outcomes).transpose(1, 2, 0, 3)  # (ways, sizes, seeds, texts)
    for number, size in enumerate(sizes):
        random, *others = by_way[:, number]
        print(f"{size} labels: random {random.mean():.1%}")
        for name, other in zip(("suggest", "spread alone"), others, strict=True):
            found = paired_interval(other, random)
            low, high = 100 * found.low, 100 * found.high
            print(
                f"  {name} {other.mean():.1%}, {100 * found.mean:+.1f} ({low:+.1f} to {high:+.1f})"
            )


if __name__ == "__main__":
    main()
