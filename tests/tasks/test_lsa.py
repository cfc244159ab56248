"""The baseline to beat: it knows words that no labelled text has."""

from pathlib import Path

import numpy as np
import pytest
from test_latent_semantics import TOPICS, documents, space

from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.runs.folder import RunFolder
from warmstart.tasks.latent_semantics import LatentSpace, fit_space
from warmstart.tasks.logistic import CHOSEN_INSIDE, fit_logistic
from warmstart.tasks.lsa import SETTINGS, LsaBaseline, fit_nested
from warmstart.tasks.registry import load
from warmstart.tasks.tfidf import CountedTexts, TfidfBaseline

DRAW = np.random.default_rng(1)
LABELLED = Dataset(
    texts=[" ".join(DRAW.choice(TOPICS[i % 2][:8], 6)) for i in range(60)],
    targets=[i % 2 for i in range(60)],
)
UNSEEN = [" ".join(topic[8:12]) for topic in TOPICS]


def _baseline(analysis: LatentSpace) -> LsaBaseline:
    return LsaBaseline("lsa", analysis, 2, "none", CountedTexts())


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path)
    facts = {"format": 1, "command": "compare", "task": "lsa", "settings": {}, "model": {}}
    write_json(folder.config_file, {**facts, "classes": ["rain", "gold"]})
    write_json(
        folder.data_file, {"files": [], "fingerprints": fingerprints_of(LABELLED.texts).to_json()}
    )
    return folder


def test_it_knows_words_that_no_labelled_text_has() -> None:
    """Each of 16 topics has a class and 80 words; 48 labelled texts have few of them."""
    random = np.random.default_rng(0)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    topics = [["".join(random.choice(letters, 6)) for _ in range(80)] for _ in range(16)]
    texts = [" ".join(random.choice(topics[i % 16], 6)) for i in range(2400)]
    classes = [i % 2 for i in range(2400)]
    analysis = fit_space(texts[48:])
    assert analysis is not None
    train = Dataset(texts=texts[:48], targets=classes[:48])
    tfidf = TfidfBaseline(2, "none", CountedTexts())
    lsa, counts = (
        (fitted.outputs(Dataset(texts=texts[48:])).argmax(1) == classes[48:]).mean()
        for fitted in (_baseline(analysis).fit(train, CHOSEN_INSIDE), tfidf.fit(train, 10.0))
    )
    assert lsa > counts + 0.1


@pytest.mark.parametrize("words", ["雨水湿河海", "ฝนน้ำเปียก"])
def test_scripts_without_spaces_are_learnt_too(words: str) -> None:
    others = "金银钱富贵" if words[0] == "雨" else "ทองเงินรวย"
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list((words, others)[i % 2]), 8)) for i in range(80)]
    analysis = fit_space(texts)
    assert analysis is not None
    train = Dataset(texts=texts[:40], targets=[i % 2 for i in range(40)])
    outputs = _baseline(analysis).fit(train, CHOSEN_INSIDE).outputs(Dataset(texts=texts[40:]))
    assert (outputs.argmax(1) == np.arange(40, 80) % 2).mean() > 0.9


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_a_saved_run_predicts_and_embeds_as_it_did(number: int, run: RunFolder) -> None:
    fitted = _baseline(space()).fit(LABELLED, float(number))
    fitted.save(run)
    model, texts = load(run.path), [*UNSEEN, *LABELLED.texts, "unknown", ""]
    shares = [list(p.probabilities.values()) for p in model.predict(texts)]
    np.testing.assert_allclose(shares, fitted.outputs(Dataset(texts=texts)), atol=1e-6)
    assert model.abilities == ("predict", "embed")
    vectors = model.embed(texts)
    assert vectors.shape == (len(texts), space().num_dimensions)
    lengths = np.linalg.norm(model.embed(UNSEEN, normalize=True), axis=1)
    assert lengths == pytest.approx([1, 1])
    with pytest.raises(WarmstartError, match="leave out layer and pooling"):
        model.embed(texts, layer=1)


def test_nothing_in_it_is_random_and_order_does_not_matter() -> None:
    turned = Dataset(texts=LABELLED.texts[::-1], targets=LABELLED.targets[::-1])
    first, second = (_baseline(space()).fit(d, CHOSEN_INSIDE) for d in (LABELLED, turned))
    assert first.value == second.value
    assert np.array_equal(
        first.outputs(Dataset(texts=UNSEEN)), second.outputs(Dataset(texts=UNSEEN))
    )


def test_two_labels_are_enough() -> None:
    train = Dataset(texts=LABELLED.texts[:2], targets=[0, 1])
    fitted = _baseline(space()).fit(train, CHOSEN_INSIDE)
    assert fitted.value == 0
    assert fitted.outputs(Dataset(texts=train.texts)).argmax(1).tolist() == [0, 1]


def test_many_labels_may_choose_other_settings() -> None:
    """Labels that depend on one word each are beyond a few dimensions."""
    texts = documents(400)
    classes = [int("rain3" in text or "gold5" in text) for text in texts]
    fitted = _baseline(space()).fit(Dataset(texts=texts, targets=classes), CHOSEN_INSIDE)
    assert SETTINGS[int(fitted.value)] != SETTINGS[0]
    assert (fitted.outputs(Dataset(texts=texts)).argmax(1) == classes).mean() > 0.9


def test_an_average_of_regressions_is_a_regression() -> None:
    vectors = np.random.default_rng(0).normal(size=(80, 64))
    classes = [i % 3 for i in range(80)]
    mean = fit_nested(vectors, classes, 0.3, "none")
    logits = [
        fit_logistic(vectors[:, :size], classes, 0.3, "none").decision_function(vectors[:, :size])
        for size in (8, 16, 32, 64)
    ]
    np.testing.assert_allclose(mean.decision_function(vectors), np.mean(logits, axis=0), atol=1e-9)


def test_few_labels_use_few_dimensions() -> None:
    vectors = np.random.default_rng(0).normal(size=(10, 256))
    mean = fit_nested(vectors, [i % 2 for i in range(10)], 0.3, "none")
    assert mean.coef_[:, :32].all()
    assert not mean.coef_[:, 32:].any()


def test_pairs_of_words_tell_a_negation() -> None:
    """Praise and blame have the same words; only what "not" stands before tells them apart."""
    random = np.random.default_rng(0)
    words = [f"word{i}" for i in range(40)]

    def text(i: int) -> str:
        first, second = ("good", "bad") if i % 2 else ("bad", "good")
        around = random.choice(words, 4)
        return f"{' '.join(around[:2])} not {first} but {second} {' '.join(around[2:])}"

    texts = [text(i) for i in range(1200)]
    analysis = fit_space(texts)
    assert analysis is not None
    train = Dataset(texts=texts[:40], targets=[i % 2 for i in range(40)])
    outputs = _baseline(analysis).fit(train, 0.0).outputs(Dataset(texts=texts[40:]))
    assert (outputs.argmax(1) == np.arange(40, 1200) % 2).mean() > 0.95
