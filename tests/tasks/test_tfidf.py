from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from warmstart.data.fingerprints import fingerprints_of
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.recipes.evaluate import evaluate
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import read_run
from warmstart.settings.shared import Machine
from warmstart.settings.training import Balance
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.logistic import class_shares
from warmstart.tasks.registry import load, load_transformer
from warmstart.tasks.tfidf import (
    BaselineTexts,
    CountedTexts,
    TfidfBaseline,
    TfidfModel,
    save_baseline,
)

GOOD = ["un livre magnifique", "magnifique et tendre", "une lecture tendre", "beau, magnifique"]
BAD = ["un livre ennuyeux", "ennuyeux et long", "une lecture trop longue", "long, ennuyeux"]
TEXTS, CLASSES = GOOD + BAD, [1] * len(GOOD) + [0] * len(BAD)


def fit_baseline(
    texts: list[str], classes: list[int], c: float, balance: Balance = "none"
) -> TfidfModel:
    """Fit one baseline."""
    return BaselineTexts(texts, classes, balance, CountedTexts()).fit(c)[0]


def test_it_learns_what_words_tell() -> None:
    found = fit_baseline(TEXTS, CLASSES, 10.0)
    assert found.predict(["vraiment magnifique", "vraiment ennuyeux"]) == [1, 0]


def test_characters_tell_what_unknown_words_mean() -> None:
    assert fit_baseline(TEXTS, CLASSES, 10.0).predict(["magnifiques", "ennuyeuse"]) == [1, 0]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path)
    facts = {"format": 1, "command": "compare", "task": "tfidf", "settings": {}, "model": {}}
    write_json(folder.config_file, {**facts, "classes": ["bad", "good", "new"]})
    seen = fingerprints_of(TEXTS).to_json()
    write_json(folder.data_file, {"files": [], "fingerprints": seen})
    return folder


@pytest.mark.parametrize("classes", [CLASSES, [number * 2 for number in CLASSES], [0, 1, 2, 1] * 2])
def test_a_saved_baseline_predicts_what_scikit_learn_does(
    classes: list[int], run: RunFolder
) -> None:
    fitted = fit_baseline(TEXTS, classes, 10.0)
    save_baseline(fitted, run)
    texts = [*TEXTS, "magnifiques", "", "tout autre chose"]
    expected = fitted.model.predict_proba(fitted.features.transform(texts))
    predictions = load(run.path).predict(texts)
    for prediction, shares in zip(predictions, expected, strict=True):
        named = dict.fromkeys(("bad", "good", "new"), 0.0)
        for number, share in zip(fitted.model.classes_, shares, strict=True):
            named[("bad", "good", "new")[number]] = share
        assert prediction.probabilities == named
    assert {path.suffix for path in run.path.iterdir()} <= {".json", ".safetensors"}


def test_what_only_transformers_can_is_refused(run: RunFolder) -> None:
    save_baseline(fit_baseline(TEXTS, CLASSES, 10.0), run)
    model = load(run.path)
    assert model.classes == ("bad", "good", "new")
    assert model.abilities == ("predict",)
    assert [size.num_tokens for size in model.measure(["two words", "one"])] == [2, 1]
    for verb in ("embed", "attention", "generate"):
        assert not hasattr(model, verb)
        with pytest.raises(WarmstartError, match="is a TF-IDF classifier"):
            getattr(model, verb)
    with pytest.raises(WarmstartError, match="has no Transformer inside"):
        load_transformer(run.path, Machine())
    with pytest.raises(WarmstartError, match="is no Transformer"):
        read_run(run.path).tokenizer  # noqa: B018


def test_an_evaluation_knows_texts_seen(run: RunFolder, tmp_path: Path) -> None:
    save_baseline(fit_baseline(TEXTS, CLASSES, 10.0), run)
    test = tmp_path / "test.tsv"
    rows = [("good", GOOD[0].upper()), ("bad", "ennuyeux"), ("good", "magnifique")]
    test.write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    settings = EvaluateConfig(run=str(run.path), test=str(test), columns=("label", "text"))
    scores = evaluate(settings).scores
    assert (scores["rows"], scores["accuracy"], scores["seen_in_training"]) == (3, 1.0, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"coef": torch.zeros(1, 3)},
        {"coef": torch.zeros(0)},
        {"words.idf": torch.zeros(2)},
        {"words.idf": torch.tensor(1.0)},
        {"classes": torch.tensor([0, 7])},
        {"classes": torch.tensor([0.0, 1.0])},
        {"intercept": torch.zeros(3)},
    ],
)
def test_tampered_weights_are_refused(change: dict[str, torch.Tensor], run: RunFolder) -> None:
    save_baseline(fit_baseline(TEXTS, CLASSES, 10.0), run)
    save_file({**load_file(run.weights_file), **change}, run.weights_file)
    with pytest.raises(WarmstartError, match="does not fit"):
        load(run.path)


@pytest.mark.parametrize("names", [{}, {"words": ["a", "a"], "characters": []}, {"words": 3}])
def test_tampered_features_are_refused(names: dict[str, object], run: RunFolder) -> None:
    save_baseline(fit_baseline(TEXTS, CLASSES, 10.0), run)
    write_json(run.path / "features.json", names)
    with pytest.raises(WarmstartError, match=r"features\.json"):
        load(run.path)


def _weights(found: TfidfModel) -> NDArray[np.float64]:
    return np.append(found.model.coef_, found.model.intercept_)


def test_nothing_in_it_is_random() -> None:
    first, second = (_weights(fit_baseline(TEXTS, CLASSES, 10.0)) for _ in range(2))
    assert np.array_equal(first, second)


def test_values_fitted_together_equal_values_fitted_alone() -> None:
    texts = BaselineTexts(TEXTS, CLASSES, "none", CountedTexts())
    for c in TfidfBaseline(2, "none", CountedTexts()).settings(3):
        alone = _weights(fit_baseline(TEXTS, CLASSES, c))
        assert np.array_equal(alone, _weights(texts.fit(c)[0]))
        assert texts.fit(c)[0] is texts.fit(c)[0]


def test_the_order_of_the_texts_does_not_matter() -> None:
    first, second = (fit_baseline(TEXTS[::s], CLASSES[::s], 10.0) for s in (1, -1))
    assert np.array_equal(_weights(first), _weights(second))


def test_texts_read_before_are_predicted_the_same() -> None:
    texts = BaselineTexts(TEXTS, CLASSES, "none", CountedTexts())
    baseline, unseen = texts.fit(10.0)[0], ["vraiment magnifique", "vraiment ennuyeux"]
    for _ in range(2):
        outputs = class_shares(baseline.model, texts.columns_of(unseen), 2)
        assert np.array_equal(outputs, baseline.outputs(unseen, 2))
        assert outputs.argmax(1).tolist() == baseline.predict(unseen)


def test_classes_it_never_met_are_never_said() -> None:
    found = fit_baseline(TEXTS, [2 * index for index in CLASSES], 1.0)
    assert set(found.predict(TEXTS)) == {0, 2}


@pytest.mark.parametrize(("balance", "answer"), [("weights", 1), ("none", 0)])
def test_weights_keep_a_rare_class_from_being_drowned(balance: Balance, answer: int) -> None:
    texts, classes = GOOD[:1] + BAD * 10, [1] + [0] * len(BAD) * 10
    assert fit_baseline(texts, classes, 10.0, balance).predict(["magnifique"]) == [answer]


def test_texts_without_a_word_in_common_can_be_learnt() -> None:
    assert fit_baseline(["un", "deux"], [0, 1], 1.0).predict(["un", "deux"]) == [0, 1]


@pytest.mark.parametrize("trials", [1, 2, 3, 9])
def test_there_are_as_many_settings_as_trials(trials: int) -> None:
    found = TfidfBaseline(2, "none", CountedTexts()).settings(trials)
    assert len(set(found)) == trials
    assert found[0] == 10  # the middle is tried first, and never left out
    assert min(found) > 0


@pytest.mark.parametrize("trials", [0, 10])
def test_other_numbers_of_trials_are_refused(trials: int) -> None:
    with pytest.raises(WarmstartError, match=f"trials={trials}"):
        TfidfBaseline(2, "none", CountedTexts()).settings(trials)


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(WarmstartError, match="none of the 2 training texts"):
        fit_baseline(["", " "], [0, 1], 1.0)
