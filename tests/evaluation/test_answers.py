"""Answers are scored as SQuAD's script does."""

import numpy as np
import pytest

from warmstart.evaluation.answers import answer_f1, best_values, exact_match, normalise_answer


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Norman conquest", "norman conquest"),
        ("  an   apple, a day!  ", "apple day"),
        ("anthem", "anthem"),
        ("U.S.", "us"),
        ("$1,000.50", "100050"),
        ("a", ""),
        ("l’été “déjà”", "l’été “déjà”"),  # only ASCII marks are removed
    ],
)
def test_answers_are_normalised(text: str, normal: str) -> None:
    assert normalise_answer(text) == normal


@pytest.mark.parametrize(
    ("answer", "truth", "exact", "f1"),
    [
        ("the Eiffel Tower", "Eiffel tower.", 1.0, 1.0),
        ("Eiffel", "Eiffel Tower", 0.0, 2 / 3),
        ("in Paris, France", "Paris", 0.0, 0.5),
        ("Paris Paris", "Paris", 0.0, 2 / 3),  # a word counts as often as both have it
        ("Lyon", "Paris", 0.0, 0.0),
        ("", "", 1.0, 1.0),
        ("", "Paris", 0.0, 0.0),
        ("Paris", "", 0.0, 0.0),
        ("the", "", 1.0, 1.0),  # nothing is left of it
    ],
)
def test_known_pairs(answer: str, truth: str, exact: float, f1: float) -> None:
    assert exact_match(answer, truth) == exact
    assert answer_f1(answer, truth) == pytest.approx(f1)


def test_of_several_right_answers_the_closest_counts() -> None:
    truths = [["Paris", "in Paris, France"], [], ["1999"]]
    values = best_values(answer_f1, ["Paris, France", "", ""], truths)
    np.testing.assert_allclose(values, [0.8, 1.0, 0.0])
