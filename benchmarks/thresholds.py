"""How outputs become answers: thresholds of several labels, legal sequences of tags.

    python benchmarks/thresholds.py labels goemotions/train.tsv.xz
    python benchmarks/thresholds.py tags wnut17/train.conll wnut17/valid.conll

`labels` fits TF-IDF on 30,000 rows of the file, chooses thresholds on others by three rules, and
scores them on 10,000 more. `tags` scores word features with Viterbi's algorithm and without.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from warmstart.data.label_sets import read_label_sets
from warmstart.data.splits import nested_rows
from warmstart.data.tagged import read_tagged
from warmstart.data.tags import to_bio
from warmstart.evaluation.intervals import paired_interval
from warmstart.tasks.multilabel import THRESHOLDS, MultilabelTask
from warmstart.tasks.tag import TagTask
from warmstart.tasks.word_features import WordFeatureBaseline

TRAINED, CHOOSING, SCORED = 30_000, 3_000, 10_000  # rows
SIZES = {200: 3, 1_000: 3, 2_000: 1}  # rows that choose, and how many draws of them
Marks = NDArray[np.bool_]


def micro_f1(given: Marks, truth: Marks) -> float:
    """Return F1 over all labels of all texts."""
    return 2 * float((given & truth).sum()) / max(1, int(given.sum() + truth.sum()))


def macro_f1(given: Marks, truth: Marks) -> float:
    """Return the mean F1 of the classes that occur."""
    occurs = given.sum(0) + truth.sum(0)
    return float((2 * (given & truth).sum(0) / np.maximum(occurs, 1))[occurs > 0].mean())


def each_class(shares: NDArray[np.float64], truth: Marks, least: int, usual: float) -> list[float]:
    """Return the best threshold of each class with so many texts; of the others, the usual one."""
    return [
        max(THRESHOLDS, key=lambda t: micro_f1(of_class >= t, marks))
        if marks.sum() >= least
        else usual
        for of_class, marks in zip(shares.T, truth.T, strict=True)
    ]


def compare_thresholds(file: Path) -> None:
    """Print micro and macro F1 by each rule."""
    task, data = MultilabelTask(), read_label_sets(file)
    labels = task.read_labels(data)
    truth = np.zeros((len(data), len(labels["classes"])), bool)
    for row, numbers in enumerate(task.targets(data, labels)):
        truth[row, numbers] = True
    order = np.random.default_rng(0).permutation(len(data))
    texts, truth = [data.texts[row] for row in order], truth[order]
    columns = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit_transform(texts)
    rest = slice(TRAINED, TRAINED + CHOOSING + SCORED)
    models = [
        LogisticRegression(C=5, max_iter=200, tol=1e-3).fit(columns[:TRAINED], marks)
        for marks in truth[:TRAINED].T
    ]
    shares = np.stack([model.predict_proba(columns[rest])[:, 1] for model in models], 1)
    truth = truth[rest]
    for size, num_draws in SIZES.items():
        step = (CHOOSING - size) // num_draws
        found = [
            score_rules(shares, truth, slice(first, first + size))
            for first in (draw * step for draw in range(num_draws))
        ]
        means = np.mean(found, 0)  # (rules, 2)
        print(f"{size:,}: {'; '.join(f'{100 * a:.1f} / {100 * b:.1f}' for a, b in means)}")


def score_rules(
    shares: NDArray[np.float64], truth: Marks, chosen: slice
) -> list[tuple[float, float]]:
    """Return micro and macro F1 of thresholds by each rule, chosen on some rows."""
    few, marks = shares[chosen], truth[chosen]
    one = max(THRESHOLDS, key=lambda t: micro_f1(few >= t, marks))
    rules = [[one], [max(THRESHOLDS, key=lambda t: macro_f1(few >= t, marks))]]
    rules += [each_class(few, marks, least, one) for least in (50, 20)]
    scored, expected = shares[CHOOSING:], truth[CHOOSING:]
    answers = [scored >= np.array(rule) for rule in rules]
    return [(micro_f1(given, expected), macro_f1(given, expected)) for given in answers]


def compare_sequences(train: Path, valid: Path) -> None:
    """Print entity F1 of the best legal sequences, and of the most probable tag of each word."""
    task, files = TagTask(), [read_tagged(path) for path in (train, valid)]
    labels = task.read_labels(files[0])
    data, held_out = (replace(each, targets=task.targets(each, labels)) for each in files)
    baseline = WordFeatureBaseline(labels["classes"], data.texts)
    for size in (300, 1_000, len(data)):
        rows = nested_rows(task.strata(data.targets), 0)[:size]
        outputs = baseline.fit(data.subset(rows), 3.0).outputs(held_out)
        best = task.answers(outputs, labels)
        tags = [[labels["classes"][k] for k in of_words.argmax(1)] for of_words in outputs]
        alone = [to_bio(of_text)[0] for of_text in tags]
        scores = [task.text_scores(each, held_out.targets)[None] for each in (best, alone)]
        found = paired_interval(*scores)
        means = [100 * task.answer_scores(e, held_out.targets)["entity_f1"] for e in (best, alone)]
        interval = f"{100 * found.mean:+.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"
        print(f"{size:,}: {means[0]:.1f}, {means[1]:.1f}, {interval}", flush=True)


if __name__ == "__main__":
    kind, *paths = sys.argv[1:]
    if kind == "labels":
        compare_thresholds(Path(paths[0]))
    else:
        compare_sequences(Path(paths[0]), Path(paths[1]))
