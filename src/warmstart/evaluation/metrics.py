"""Metrics of classifiers and language models from plain values; class indices count from 0."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Classes = Sequence[int] | NDArray[np.int64]  # the class index of each text


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """The scores of one class."""

    name: str
    precision: float  # 0 when the class is never predicted
    recall: float  # 0 when no text has the class
    f1: float
    support: int  # texts of this class


@dataclass(frozen=True, kw_only=True)
class ClassScores:
    """The scores of a classifier, overall and for each class."""

    num_texts: int
    accuracy: float
    macro_f1: float
    classes: tuple[ClassScore, ...]
    confusion: tuple[tuple[int, ...], ...]  # row: true class; column: predicted class


@dataclass(frozen=True, kw_only=True)
class LanguageScores:
    """How well a language model predicts a text."""

    loss: float  # nats per token
    perplexity: float
    bits_per_byte: float  # comparable across tokenizers


def accuracy(truth: Classes, predicted: Classes) -> float:
    """Return the share of correct predictions."""
    check_lengths(truth, predicted)
    return float(np.mean(np.asarray(truth) == np.asarray(predicted)))


def macro_f1(truth: Classes, predicted: Classes) -> float:
    """Return the mean F1 of the classes that occur in the truth or in the predictions."""
    check_lengths(truth, predicted)
    true, guessed = np.asarray(truth), np.asarray(predicted)
    num = int(max(true.max(), guessed.max())) + 1
    hits = np.bincount(true[true == guessed], minlength=num)
    mentions = np.bincount(true, minlength=num) + np.bincount(guessed, minlength=num)
    occurs = mentions > 0
    # As scikit-learn's f1_score, which takes milliseconds: every validation asks for it.
    return float((2 * hits[occurs] / mentions[occurs]).mean())


def class_scores(truth: Classes, predicted: Classes, class_names: Sequence[str]) -> ClassScores:
    """Return accuracy, F1, the confusion matrix and each class's precision and recall."""
    # Imported when needed: it takes a second, and most commands score nothing by class.
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    indices = list(range(len(class_names)))
    columns = precision_recall_fscore_support(truth, predicted, labels=indices, zero_division=0.0)
    classes = tuple(
        ClassScore(name=name, precision=float(p), recall=float(r), f1=float(f), support=int(n))
        for name, p, r, f, n in zip(class_names, *columns, strict=True)
    )
    confusion = confusion_matrix(truth, predicted, labels=indices)
    return ClassScores(
        num_texts=len(truth),
        accuracy=accuracy(truth, predicted),
        macro_f1=macro_f1(truth, predicted),
        classes=classes,
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )


def perplexity_of(loss: float) -> float:
    """Return the perplexity of a loss in nats per token."""
    return math.exp(min(loss, 700.0))  # beyond 709 exp overflows


def language_scores(nll_sum: float, num_tokens: int, num_bytes: int) -> LanguageScores:
    """Return perplexity and bits per byte from a summed negative log-likelihood in nats."""
    if num_tokens < 1 or num_bytes < 1:
        raise ValueError(f"nothing to score: {num_tokens} tokens, {num_bytes} bytes")
    loss = nll_sum / num_tokens
    return LanguageScores(
        loss=loss,
        perplexity=perplexity_of(loss),
        bits_per_byte=nll_sum / math.log(2) / num_bytes,
    )


def check_lengths(truth: Classes, predicted: Classes | NDArray[np.float64]) -> None:
    """Refuse lists that do not match; there must be something to score."""
    if len(truth) != len(predicted) or len(truth) == 0:
        raise ValueError(f"{len(truth)} true classes and {len(predicted)} predictions do not match")


class WordPairs:
    """The pairs of neighbouring words of a text."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._known = {pair for line in lines for pair in pairwise(line.split())}

    def known_share(self, text: str) -> float:
        """Return the share of a text's pairs that occur here; a text without pairs has none."""
        pairs = list(pairwise(text.split()))
        return sum(pair in self._known for pair in pairs) / max(1, len(pairs))
