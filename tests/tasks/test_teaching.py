from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from warmstart.batching.batches import LabelledBatch, LabelledStream
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import Dataset
from warmstart.model.models import Classifier
from warmstart.settings.model import ModelConfig
from warmstart.tasks.classify import ClassifyObjective, ClassifyTask, class_weights
from warmstart.tasks.teaching import (
    View,
    agree,
    average_views,
    label_folds,
    perturb,
    sample_texts,
    surest_rows,
)
from warmstart.tokenization.backends import train_tokenizer

NAMES = ("bad", "good", "mixed")
LABELS = ("good", "bad", "mixed", "good", "mixed")
TEXTS = [[1, *range(3, 3 + n), 2] for n in (2, 3, 5, 4, 7)]


def batches(train: Dataset) -> list[LabelledBatch]:
    rows = ClassifyTask().training_rows(train, {"classes": NAMES}, 16)
    return LabelledStream(TEXTS, rows.targets, 5, 1000, 0, seed=0).group(0)


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (0.5, 2.0, 7.0)])
def test_certain_shares_are_learned_as_labels(
    weights: tuple[float, ...], tiny: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    model: Classifier = randomised(Classifier(tiny, 3, "mean"))
    objective = ClassifyObjective(torch.tensor(weights, dtype=torch.float64))
    hard = Dataset(labels=LABELS, targets=[NAMES.index(label) for label in LABELS])
    groups = batches(hard), batches(replace(hard, shares=[{label: 1.0} for label in LABELS]))
    assert groups[0][0].targets.dim() == 1
    assert groups[1][0].targets.shape == (5, 3)
    counts = [objective.count(group)["label"] for group in groups]
    assert counts[0] == pytest.approx(counts[1])
    gradients = []
    for (batch,) in groups:
        model.zero_grad()
        objective(model, batch)["label"].backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert_close(*gradients, rtol=1e-6, atol=1e-9)


def test_shares_are_weighed_as_so_many_texts() -> None:
    """A text that is half of each class counts as half a text of each."""
    halves = [np.array([0.5, 0.5]), np.array([0.5, 0.5])]
    assert class_weights(halves, 2) == pytest.approx(class_weights([0, 1], 2))


shares = st.lists(
    st.tuples(*[st.floats(0.05, 1)] * 3).map(lambda row: np.array(row) / sum(row)),
    min_size=12,
    max_size=40,
).map(np.array)


@given(shares=shares, factor=st.floats(0.5, 2))
def test_agreement_has_the_shares_of_the_labels_whatever_the_scale(
    shares: np.ndarray, factor: float
) -> None:
    priors = np.array([0.5, 0.3, 0.2])
    agreed = agree([shares], [1.0], priors)
    assert agreed.sum(axis=1) == pytest.approx(1)
    assert agreed.mean(axis=0) == pytest.approx(priors, abs=0.02)
    sharper = average_views([shares]) ** factor
    sharper /= sharper.sum(axis=1, keepdims=True)
    if shares.std(axis=0).max() > 0.01:  # else all texts are alike, but for rounding
        assert agree([sharper], [1.0], priors) == pytest.approx(agreed, abs=0.01)


def test_a_view_that_is_often_wrong_counts_little() -> None:
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 2, 400)
    good, bad = (np.where(generator.random(400) < p, truth, 1 - truth) for p in (0.9, 0.55))
    views = [
        View(np.eye(2)[said] * 0.98 + 0.01, np.eye(2)[said][:100] * 0.98 + 0.01)
        for said in (good, bad)
    ]
    weights = [view.weight(truth[:100]) for view in views]
    agreed = agree([view.texts for view in views], weights, np.array([0.5, 0.5]))
    assert (agreed.argmax(axis=1) == good).mean() > 0.97


@given(counts=st.lists(st.integers(2, 9), min_size=2, max_size=4), num=st.integers(2, 6))
def test_without_any_fold_every_class_is_still_there(counts: list[int], num: int) -> None:
    classes = np.repeat(np.arange(len(counts)), counts)
    folds = label_folds(classes.tolist(), num)
    assert folds is not None
    for fold in set(folds):
        assert set(classes[folds != fold]) == set(classes)
    assert label_folds([*classes.tolist(), len(counts)], num) is None  # a class with one text


@given(shares=shares, part=st.floats(0.1, 1))
def test_the_surest_of_each_class_are_taken(shares: np.ndarray, part: float) -> None:
    rows = surest_rows(shares, part)
    predicted, certainty = shares.argmax(axis=1), shares.max(axis=1)
    for number in range(3):
        own = set(np.flatnonzero(predicted == number))
        taken = own & set(rows)
        assert len(taken) == round(part * len(own))
        others = own - taken
        if taken and others:
            assert min(certainty[list(taken)]) >= max(certainty[list(others)])
    assert surest_rows(shares, 1.0) == list(range(len(shares)))


def test_perturbed_texts_are_parts_of_the_texts_but_for_masks() -> None:
    tokenizer = train_tokenizer(["the cat sat on the mat and slept there"] * 4, "bpe", 300)
    tokenizer = tokenizer.with_mask()
    start = list(tokenizer.start)
    inner = list(range(20, 60))
    texts = Dataset(ids=tuple([*start, *inner, tokenizer.eos] for _ in range(50)))
    perturbed = perturb(texts, tokenizer, 3)
    for ids in perturbed.ids:
        assert list(ids[: len(start)]) == start
        assert ids[-1] == tokenizer.eos
        middle = list(ids[len(start) : -1])
        assert len(inner) / 2 - 1 <= len(middle) <= len(inner)
        known = [(place, id) for place, id in enumerate(middle) if id != tokenizer.mask]
        assert len({id - place for place, id in known}) == 1  # one piece, in order
    masked = sum(ids.count(tokenizer.mask) for ids in perturbed.ids)
    assert 0.05 < masked / sum(map(len, perturbed.ids)) < 0.3
    assert perturb(texts, tokenizer, 3).ids == perturbed.ids
    assert perturb(texts, tokenizer, 4).ids != perturbed.ids


def test_sampled_texts_are_new_and_do_not_depend_on_the_order() -> None:
    words = np.random.default_rng(0).integers(0, 10**6, (90, 12))
    texts = [" ".join(map(str, row)) for row in words]
    known = fingerprints_of(texts[:30])
    sampled = sample_texts([*texts, *texts, " "], 40, known)
    assert 20 <= len(sampled) <= 40
    assert set(sampled) <= set(texts[30:])
    assert sample_texts(texts[::-1], 40, known) == sampled
    assert set(sample_texts(texts, 1000, known)) == set(texts[30:])
