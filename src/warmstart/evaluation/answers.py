"""Exact match and F1 of answers, as SQuAD's own script normalises and scores them."""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Answers = Sequence[str]  # one for each question; empty: no answer
Truths = Sequence[Sequence[str]]  # those that are right; none: the passage has no answer
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise_answer(text: str) -> str:
    """Return an answer in lower case, without punctuation, articles and repeated spaces."""
    without_marks = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_marks).split())


def exact_match(answer: str, truth: str) -> float:
    """Return 1 for two answers that are equal once normalised."""
    return float(normalise_answer(answer) == normalise_answer(truth))


def answer_f1(answer: str, truth: str) -> float:
    """Return the F1 of the words that two answers share; of no answer, 1 if both are none."""
    given, right = normalise_answer(answer).split(), normalise_answer(truth).split()
    if not given or not right:
        return float(given == right)
    num_shared = (Counter(given) & Counter(right)).total()
    return 2 * num_shared / (len(given) + len(right))


def best_values(score: Callable[[str, str], float], answers: Answers, truths: Truths) -> Floats:
    """Return the score of every answer, against whichever right answer it comes closest to."""
    pairs = zip(answers, truths, strict=True)
    values = [max(score(answer, truth) for truth in of_row or ("",)) for answer, of_row in pairs]
    return np.array(values, np.float64)
