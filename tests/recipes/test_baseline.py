import numpy as np
import pytest

from warmstart.errors import WarmstartError
from warmstart.recipes.baseline import fit_baseline, fit_baselines, settings

GOOD = ["un livre magnifique", "magnifique et tendre", "une lecture tendre", "beau, magnifique"]
BAD = ["un livre ennuyeux", "ennuyeux et long", "une lecture trop longue", "long, ennuyeux"]
TEXTS, CLASSES = GOOD + BAD, [1] * len(GOOD) + [0] * len(BAD)


def test_it_learns_what_words_tell() -> None:
    found = fit_baseline(TEXTS, CLASSES, 10.0)
    assert found.predict(["vraiment magnifique", "vraiment ennuyeux"]) == [1, 0]
    assert found.num_parameters == found.num_features + 1


def test_characters_tell_what_unknown_words_mean() -> None:
    assert fit_baseline(TEXTS, CLASSES, 10.0).predict(["magnifiques", "ennuyeuse"]) == [1, 0]


def test_nothing_in_it_is_random() -> None:
    first, second = (fit_baseline(TEXTS, CLASSES, 10.0) for _ in range(2))
    assert np.array_equal(first.probabilities(TEXTS, 2), second.probabilities(TEXTS, 2))


def test_values_fitted_together_equal_values_fitted_alone() -> None:
    for c, together in zip(settings(3), fit_baselines(TEXTS, CLASSES, settings(3)), strict=True):
        alone = fit_baseline(TEXTS, CLASSES, c)
        assert np.array_equal(alone.probabilities(TEXTS, 2), together.probabilities(TEXTS, 2))


def test_pieces_are_read_as_the_text_they_come_from() -> None:
    split = ["▁" + text.replace(" ", " ▁").replace("magni", "magni ") for text in TEXTS]
    whole, pieces = fit_baseline(TEXTS, CLASSES, 10.0), fit_baseline(split, CLASSES, 10.0, True)
    assert np.array_equal(whole.probabilities(TEXTS, 2), pieces.probabilities(split, 2))


def test_probabilities_have_a_column_for_classes_it_never_met() -> None:
    found = fit_baseline(TEXTS, [2 * index for index in CLASSES], 1.0)
    given = found.probabilities(["tendre"], 4)
    assert given.sum() == pytest.approx(1)
    assert given[0, [1, 3]].tolist() == [0, 0]
    assert set(found.predict(TEXTS)) == {0, 2}


def test_a_rare_class_is_not_drowned() -> None:
    texts, classes = GOOD[:1] + BAD * 10, [1] + [0] * len(BAD) * 10
    assert fit_baseline(texts, classes, 10.0).predict(["magnifique"]) == [1]


def test_texts_without_a_word_in_common_can_be_learnt() -> None:
    assert fit_baseline(["un", "deux"], [0, 1], 1.0).predict(["un", "deux"]) == [0, 1]


@pytest.mark.parametrize("trials", [1, 2, 3, 8])
def test_there_are_as_many_settings_as_trials(trials: int) -> None:
    found = settings(trials)
    assert len(set(found)) == trials
    assert found == sorted(found)
    assert min(found) > 0


def test_no_trials_are_refused() -> None:
    with pytest.raises(WarmstartError, match="trials=0"):
        settings(0)


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(WarmstartError, match="none of the 2 training texts"):
        fit_baseline(["", " "], [0, 1], 1.0)
