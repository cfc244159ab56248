"""Entities, their scores and the best legal tags, against seqeval and by trying everything."""

from itertools import pairwise, product

import numpy as np
import pytest

from warmstart.data.tags import count_tags, marks_entities, to_bio
from warmstart.evaluation.entities import (
    EntitySpan,
    Transitions,
    accuracy_values,
    best_paths,
    entity_scores,
    entity_spans,
    f1_values,
    ratio_values,
)

BIO = ["O", "B-x", "I-x", "B-y", "I-y"]
BIOES = [*BIO, "E-x", "S-x", "E-y", "S-y"]


def random_tags(classes: list[str], num: int, seed: int) -> list[list[str]]:
    random = np.random.default_rng(seed)
    return [list(random.choice(classes, random.integers(1, 9))) for _ in range(num)]


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_seqeval_in_strict_mode(seed: int) -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    scheme = pytest.importorskip("seqeval.scheme").IOB2
    targets = random_tags(BIO, 200, seed)
    noise = np.random.default_rng(seed + 100)
    answers = [
        [tag if noise.random() < 0.7 else noise.choice(BIO) for tag in row] for row in targets
    ]
    ours = entity_scores(answers, targets)
    options = {"mode": "strict", "scheme": scheme, "zero_division": 0}
    assert ours[""].f1 == pytest.approx(metrics.f1_score(targets, answers, **options))
    assert ours[""].precision == pytest.approx(metrics.precision_score(targets, answers, **options))
    report = metrics.classification_report(targets, answers, output_dict=True, **options)
    for kind in "xy":
        assert ours[kind].recall == pytest.approx(report[kind]["recall"])
        assert ours[kind].num_true == report[kind]["support"]
    assert accuracy_values(answers, targets).mean() == pytest.approx(
        metrics.accuracy_score(targets, answers)
    )


def test_bioes_marks_the_entities_that_seqeval_finds() -> None:
    scheme = pytest.importorskip("seqeval.scheme")
    legal = Transitions.of(BIOES)
    random = np.random.default_rng(0)
    rows = [[BIOES[n] for n in path] for path in best_paths(random.normal(size=(50, 7, 9)), legal)]
    found = scheme.Entities(rows, scheme.IOBES)
    expected = [[EntitySpan(e.start, e.end, e.tag) for e in row] for row in found.entities]
    assert [entity_spans(to_bio(row)[0]) for row in rows] == expected
    assert sum(map(len, expected)) > 50


@pytest.mark.parametrize("classes", [BIO, BIOES, ["O", "I-x", "B-x", "L-x", "U-x"]])
def test_the_best_path_is_the_best_of_all_legal_ones(classes: list[str]) -> None:
    legal = Transitions.of(classes)
    random = np.random.default_rng(1)
    scores = [random.normal(size=(T, len(classes))) for T in (1, 3, 4, 2)]

    def is_legal(path: tuple[int, ...]) -> bool:
        steps = all(legal.follows[a, b] for a, b in pairwise(path))
        return bool(steps and legal.starts[path[0]] and legal.ends[path[-1]])

    for of_words, found in zip(scores, best_paths(scores, legal), strict=True):
        paths = filter(is_legal, product(range(len(classes)), repeat=len(of_words)))
        best = max(paths, key=lambda path: sum(of_words[t, c] for t, c in enumerate(path)))
        assert tuple(found) == best
        assert to_bio([classes[c] for c in found])[1] == 0


def test_a_text_without_words_has_an_empty_path() -> None:
    assert best_paths([np.zeros((0, 5)), np.zeros((1, 5))], Transitions.of(BIO))[0] == []


@pytest.mark.parametrize(
    ("tags", "bio", "num_repaired"),
    [
        ("I-x I-x O I-y", "B-x I-x O B-y", 2),
        ("B-x I-y", "B-x B-y", 1),
        ("S-x B-x E-x I-x", "B-x B-x I-x B-x", 1),
        ("U-x O B-y L-y", "B-x O B-y I-y", 0),
    ],
)
def test_other_schemes_become_bio(tags: str, bio: str, num_repaired: int) -> None:
    assert to_bio(tags.split()) == (bio.split(), num_repaired)


def test_plain_tags_are_no_entities() -> None:
    assert not marks_entities(["NOUN", "O"])
    assert not marks_entities(["B-", "-x", "O"])
    assert marks_entities(["O", "B-creative-work"])
    assert count_tags([["B-x", "I-x", "O"], ["B-x"]]) == {"x": 2}
    assert count_tags([["NOUN", "X"], ["X"]]) == {"NOUN": 1, "X": 2}


def test_the_mean_of_the_values_is_f1() -> None:
    targets, answers = random_tags(BIO, 300, 3), []
    noise = np.random.default_rng(9)
    answers = [[tag if noise.random() < 0.8 else "O" for tag in row] for row in targets]
    assert f1_values(answers, targets).mean() == pytest.approx(
        entity_scores(answers, targets)[""].f1
    )
    assert f1_values([["O"]], [["O"]]).tolist() == [0.0]


def test_the_variance_of_the_values_is_that_of_resampled_sentences() -> None:
    random = np.random.default_rng(0)
    wholes = random.poisson(3, 400).astype(float)
    parts = random.binomial(wholes.astype(int), 0.6).astype(float)
    values = ratio_values(parts, wholes)
    rows = random.integers(0, 400, (4000, 400))
    resampled = parts[rows].sum(1) / wholes[rows].sum(1)
    assert values.std(ddof=1) / 20 == pytest.approx(resampled.std(), rel=0.06)
