import numpy as np
import pytest
from numpy.typing import NDArray

from warmstart.errors import WarmstartError
from warmstart.settings.finetuning import Balance
from warmstart.tasks.tfidf import Baseline, fit_baselines, settings

GOOD = ["un livre magnifique", "magnifique et tendre", "une lecture tendre", "beau, magnifique"]
BAD = ["un livre ennuyeux", "ennuyeux et long", "une lecture trop longue", "long, ennuyeux"]
TEXTS, CLASSES = GOOD + BAD, [1] * len(GOOD) + [0] * len(BAD)


def fit_baseline(
    texts: list[str], classes: list[int], c: float, balance: Balance = "none"
) -> Baseline:
    """Fit one baseline."""
    return fit_baselines(texts, classes, [c], balance)[0]


def test_it_learns_what_words_tell() -> None:
    found = fit_baseline(TEXTS, CLASSES, 10.0)
    assert found.predict(["vraiment magnifique", "vraiment ennuyeux"]) == [1, 0]


def test_characters_tell_what_unknown_words_mean() -> None:
    assert fit_baseline(TEXTS, CLASSES, 10.0).predict(["magnifiques", "ennuyeuse"]) == [1, 0]


def _weights(found: Baseline) -> NDArray[np.float64]:
    return np.append(found.model.coef_, found.model.intercept_)


def test_nothing_in_it_is_random() -> None:
    first, second = (_weights(fit_baseline(TEXTS, CLASSES, 10.0)) for _ in range(2))
    assert np.array_equal(first, second)


def test_values_fitted_together_equal_values_fitted_alone() -> None:
    all_together = fit_baselines(TEXTS, CLASSES, settings(3), "none")
    for c, together in zip(settings(3), all_together, strict=True):
        assert np.array_equal(_weights(fit_baseline(TEXTS, CLASSES, c)), _weights(together))


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
    found = settings(trials)
    assert len(set(found)) == trials
    assert found[0] == 10  # the middle is tried first, and never left out
    assert min(found) > 0


@pytest.mark.parametrize("trials", [0, 10])
def test_other_numbers_of_trials_are_refused(trials: int) -> None:
    with pytest.raises(WarmstartError, match=f"trials={trials}"):
        settings(trials)


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(WarmstartError, match="none of the 2 training texts"):
        fit_baseline(["", " "], [0, 1], 1.0)
