"""A frozen base reads every text once; its head is the best regression on the vectors."""

from copy import deepcopy
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from torch.testing import assert_close

import warmstart
from command_line import read_labelled_rows, succeed
from warmstart.data.labelled import Dataset
from warmstart.data.splits import nested_rows
from warmstart.evaluation.intervals import paired_interval
from warmstart.model.models import Classifier
from warmstart.runtime import Runtime
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Tuning
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.finetuning import Fit
from warmstart.tasks.fitting import Start, build_model
from warmstart.tasks.frozen import SETTINGS, FrozenVectors, describe_head, solve_head

TRAIN = Dataset(
    ids=[[1, *range(3, 4 + n), 2] for n in range(1, 12)], targets=[n % 2 for n in range(11)]
)
LABELS = {"classes": ["a", "b"]}
VALID = Dataset(ids=[[1, 9, 2], [1, 4, 5, 6, 2]], targets=[0, 1])
TUNING = Tuning(epochs=3, batch_size=4, micro_tokens=24, balance="none")


def _model(shape: ModelConfig) -> Classifier:
    donor = Classifier(shape, 2, "mean")
    weights = {n: w for n, w in donor.state_dict().items() if n.startswith("backbone.")}
    model, _ = build_model(ClassifyTask(), Start(shape, weights, True), LABELS, TUNING, 3)
    return cast(Classifier, model.double())


def _draw(num: int, num_classes: int = 2) -> tuple[np.ndarray, list[int]]:
    """Return vectors of very different spread, of which two dimensions tell the class."""
    random = np.random.default_rng(num)
    classes = np.arange(num) % num_classes
    vectors = random.normal(size=(num, 24)) * np.geomspace(0.1, 10, 24) + 5
    vectors[:, :2] += 0.1 * np.stack([classes, -classes], 1) * (1.5, 2)
    return vectors, classes.tolist()


def test_the_base_has_no_dropout_and_does_not_move(tiny: ModelConfig, cpu: Runtime) -> None:
    heads = []
    for dropout in (0.0, 0.6):
        torch.manual_seed(1)
        model = _model(replace(tiny, dropout=dropout))
        before = deepcopy(model.backbone.state_dict())
        fit = Fit(TRAIN, VALID, LABELS, TUNING, 0.0, 1.0, 3, 0, cpu, "frozen")
        head = ClassifyTask().solve_head(model, fit, ["mean"], FrozenVectors())
        assert_close(model.backbone.state_dict(), before, rtol=0, atol=0)
        heads.append(head.weight)
        vectors = FrozenVectors().of(model, VALID, fit.batches, "mean")
        outputs = ClassifyTask().outputs(model.eval(), VALID, fit.batches)
        np.testing.assert_allclose(head.outputs(vectors), outputs, atol=1e-6)
    assert np.array_equal(*heads)


def test_a_text_is_read_once(tiny: ModelConfig, cpu: Runtime) -> None:
    model, known = _model(tiny), FrozenVectors()
    batches = Fit(TRAIN, VALID, LABELS, TUNING, 0.0, 1.0, 3, 0, cpu).batches
    first = known.of(model, TRAIN, batches, "mean")
    torch.nn.init.zeros_(model.backbone.embed.weight)
    assert np.array_equal(known.of(model, TRAIN, batches, "mean"), first)
    assert not np.array_equal(known.of(model, TRAIN, batches, "cls")[:, 0], first[:, 0])


def test_the_number_of_a_setting_keeps_its_meaning() -> None:
    assert describe_head(6) == "last pooling, C 0.1"  # as before the choice of the scaling
    assert describe_head(16) == "cls pooling, C 0.1, dimensions keep their spread"


@pytest.mark.parametrize("num_classes", [2, 3])
def test_the_head_is_the_regression_on_scaled_vectors(num_classes: int) -> None:
    vectors, classes = _draw(60, num_classes)
    head = solve_head({"mean": vectors}, classes, num_classes, "none")
    _, scaling, c = SETTINGS[head.number]
    centred = vectors - vectors.mean(0)
    columns = centred / (centred.std(0) if scaling == "each" else centred.std())
    expected = LogisticRegression(C=c, tol=1e-8, max_iter=5000).fit(columns, classes)
    np.testing.assert_allclose(head.outputs(vectors), expected.predict_proba(columns), atol=1e-4)


@pytest.mark.parametrize("num", [100, 400])
def test_it_is_not_below_a_cross_validated_regression(num: int) -> None:
    vectors, classes = _draw(num + 1000)
    found, expected = [], []
    for draw in range(3):
        rows = np.random.default_rng(draw).permutation(len(vectors))
        train, test = rows[:num], rows[num:]
        labels = np.array(classes)
        head = solve_head({"mean": vectors[train]}, labels[train].tolist(), 2, "none")
        found.append((head.outputs(vectors[test]).argmax(1) == labels[test]).mean())
        peer = LogisticRegressionCV(
            Cs=4, cv=3, l1_ratios=(0,), scoring="accuracy", use_legacy_attributes=False
        )
        expected.append(peer.fit(vectors[train], labels[train]).score(vectors[test], labels[test]))
    assert np.mean(found) >= np.mean(expected) - 0.01


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return vectors of a short pretraining, and labels, of built-in reviews."""
    folder = tmp_path_factory.mktemp("embedded")
    sizes = SampleSizes(
        unlabelled=2_000, train=1_000, valid=2, test=500, train_pairs=1, valid_pairs=1, test_pairs=1
    )
    files = write_samples(folder, sizes=sizes)
    shape = "--preset tiny --depth 1 --max-length 64 --batch-tokens 1024 --steps 40"
    succeed(
        f"pretrain {{texts}} -o {{out}} {shape} --threads 1 --precision fp32",
        texts=files.unlabelled,
        out=folder / "base",
    )
    model = warmstart.load(folder / "base", precision="fp32", threads=1)
    rows = {path.stem: read_labelled_rows(path) for path in (files.train, files.test)}
    return {
        name: (
            model.embed([text for _, text in of_split]).astype(np.float64),
            np.array([label == "positive" for label, _ in of_split], int),
        )
        for name, of_split in rows.items()
    }


@pytest.mark.parametrize("num", [100, 1_000])
def test_on_the_samples_it_is_not_below_a_cross_validated_regression(
    embedded: dict[str, tuple[np.ndarray, np.ndarray]], num: int
) -> None:
    (columns, classes), (test_columns, truth) = embedded["train"], embedded["test"]
    found, expected = [], []
    for draw in range(3):
        rows = nested_rows(classes.tolist(), draw)[:num]
        head = solve_head({"mean": columns[rows]}, classes[rows].tolist(), 2, "none")
        found.append(head.outputs(test_columns).argmax(1) == truth)
        peer = LogisticRegressionCV(
            max_iter=1_000, l1_ratios=(0,), scoring="accuracy", use_legacy_attributes=False
        )
        peer.fit(columns[rows], classes[rows])
        expected.append(peer.predict(test_columns) == truth)
    assert np.mean(found) > 0.6
    assert paired_interval(np.array(found, float), np.array(expected, float)).high >= 0


def test_the_pooling_that_tells_classes_apart_is_chosen() -> None:
    vectors, classes = _draw(200)
    noise = np.random.default_rng(0).normal(size=vectors.shape)
    assert solve_head({"mean": noise, "cls": vectors}, classes, 2, "none").pooling == "cls"
    assert solve_head({"mean": vectors, "cls": noise}, classes, 2, "none").pooling == "mean"
    assert solve_head({"mean": vectors, "cls": vectors}, classes, 2, "none").pooling == "mean"


def test_dimensions_that_vary_more_may_say_more() -> None:
    random = np.random.default_rng(2)
    classes = np.arange(440) % 2
    vectors = 0.1 * random.normal(size=(440, 80))
    vectors[:, 0] += classes
    head = solve_head({"mean": vectors[:40]}, classes[:40].tolist(), 2, "none")
    assert (head.outputs(vectors[40:]).argmax(1) == classes[40:]).mean() > 0.97
    assert describe_head(head.number).endswith("dimensions keep their spread")


def test_few_labels_constant_vectors_and_absent_classes_are_no_problem() -> None:
    vectors, _ = _draw(6)
    vectors[:, 3] = 7.0
    for classes in ([0, 1], [0, 2, 2], [0, 0, 0, 2, 2, 2]):
        head = solve_head({"mean": vectors[: len(classes)]}, classes, 4, "weights")
        shares = head.outputs(vectors)
        assert np.isfinite(head.weight).all()
        assert shares[:, 3].max() < 1e-3
        assert shares.shape == (6, 4)


def test_positions_that_shorter_texts_never_reach_are_left_out(tiny: ModelConfig) -> None:
    learned = replace(tiny, positions="learned")
    weights = Classifier(learned, 2, "mean").state_dict()
    shorter = replace(learned, max_length=8)
    model, _ = build_model(ClassifyTask(), Start(shorter, weights), LABELS, TUNING, 3)
    found = model.backbone.embed_positions.weight
    assert torch.equal(found, weights["backbone.embed_positions.weight"][:8])
