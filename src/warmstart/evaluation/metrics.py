"""Metrics of classifiers and language models from plain values; class indices count from 0."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from torch import Tensor

from warmstart.batching.batches import move
from warmstart.evaluation.intervals import Interval
from warmstart.kernels.loss import IGNORE
from warmstart.runtime import Runtime

Classes = Sequence[int] | NDArray[np.int64]  # the class index of each text
Floats = NDArray[np.float64]
RESAMPLES = 2000
BLEU_RESAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """The scores of one class."""

    name: str
    precision: float  # 0 when the class is never predicted
    recall: float  # 0 when no text has the class
    f1: float
    support: int  # texts of this class


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
        """Return the share of a text's pairs that occur here; 0 for a text without pairs."""
        pairs = list(pairwise(text.split()))
        return sum(pair in self._known for pair in pairs) / max(1, len(pairs))


@dataclass(frozen=True)
class TokenScores:
    """Summed loss and correct predictions over target tokens."""

    nll: float  # in nats
    num_tokens: int
    num_right: int

    @property
    def loss(self) -> float:
        return self.nll / self.num_tokens

    @property
    def accuracy(self) -> float:
        return self.num_right / self.num_tokens


@torch.inference_mode()
def score_tokens(
    score: Callable[[Any], tuple[Tensor, Tensor]], batches: Iterable[Any], runtime: Runtime
) -> TokenScores:
    """Add up what `score` returns for each batch: its summed loss and its correct predictions."""
    nll, num_tokens, num_right = 0.0, 0, 0
    for batch in batches:
        with runtime.precision():
            loss, right = score(move(batch, runtime.device))
        nll += float(loss)
        num_tokens += int((batch.targets != IGNORE).sum())
        num_right += int(right)
    return TokenScores(nll, num_tokens, num_right)


@dataclass(frozen=True)
class MaskedRows:
    """The scores of each row; `pair_` columns are empty where rows are not pairs."""

    counts: Floats  # (rows,) masked tokens
    losses: Floats  # (rows,) summed over masked tokens, in nats
    right: Floats  # (rows,) masked tokens predicted correctly
    pair_losses: Floats  # (rows,) in nats
    pair_right: Floats  # (rows,) 0 or 1

    def figures(self) -> dict[str, float]:
        """Return loss and accuracy of each task, and the sum of the losses."""
        num = max(1.0, float(self.counts.sum()))
        loss = float(self.losses.sum()) / num
        scores = {
            "loss": loss,
            "mlm_loss": loss,
            "mlm_accuracy": float(self.right.sum()) / num,
            "pseudo_perplexity": perplexity_of(loss),
        }
        if len(self.pair_losses):
            pair_loss = float(self.pair_losses.mean())
            scores["loss"] = loss + pair_loss
            scores["nsp_loss"] = pair_loss
            scores["nsp_accuracy"] = float(self.pair_right.mean())
        return scores

    def intervals(self) -> dict[str, Interval]:
        """Return 95% intervals over resampled rows: tokens of one row are not independent."""
        means = self.figures()
        rng, num_rows = np.random.Generator(np.random.PCG64(0)), len(self.counts)
        resampled = []
        for _ in range(RESAMPLES):
            rows = rng.integers(0, num_rows, num_rows)
            columns = (column[rows] if len(column) else column for column in vars(self).values())
            resampled.append(MaskedRows(*columns).figures())
        intervals = {}
        for name, mean in means.items():
            if name.endswith(("_accuracy", "perplexity")):
                low, high = np.quantile([scores[name] for scores in resampled], [0.025, 0.975])
                intervals[name] = Interval(mean=mean, low=float(low), high=float(high))
        return intervals


@dataclass(frozen=True)
class CorpusScore:
    """One metric on a whole test set."""

    score: float  # 0 to 100
    low: float  # 95% interval over sentences
    high: float
    signature: str  # sacreBLEU's settings


@dataclass(frozen=True)
class PairedScores:
    """One metric of two systems on the same sentences."""

    metric: str
    other: float
    score: float
    p_value: float  # chance of so large a difference between equal systems
    signature: str


def corpus_bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """Return BLEU alone, without an interval."""
    return float(BLEU().corpus_score(list(translations), [list(references)]).score)


def translation_scores(
    translations: Sequence[str], references: Sequence[str]
) -> dict[str, CorpusScore]:
    """Return BLEU and chrF with their bootstrap intervals, as `bleu` and `chrf`."""
    scores = {}
    for name, metric in _metrics().items():
        result = metric.corpus_score(
            list(translations), [list(references)], n_bootstrap=BLEU_RESAMPLES
        )
        mean, half = float(result._mean), float(result._ci)
        low, high = max(0.0, mean - half), min(100.0, mean + half)
        signature = str(metric.get_signature())
        scores[name.lower()] = CorpusScore(float(result.score), low, high, signature)
    return scores


def _metrics() -> dict[str, Any]:
    """Return BLEU and chrF, made to compute Python floats.

    sacreBLEU fails where NumPy numbers are mixed with the 0.0 of a resample without any match.
    """
    metrics: dict[str, Any] = {"BLEU": BLEU(), "chrF": CHRF()}
    for metric in metrics.values():
        metric._compute_score_from_stats = _with_float(metric._compute_score_from_stats)
    return metrics


def _with_float(compute: Any) -> Any:
    def compute_float(stats: Any) -> Any:
        result = compute(stats)
        result.score = float(result.score)
        return result

    return compute_float


def paired_test(
    other: Sequence[str], translations: Sequence[str], references: Sequence[str]
) -> list[PairedScores]:
    """Compare two systems by paired bootstrap resampling of the sentences."""
    systems: Any = [("other", list(other)), ("system", list(translations))]
    metrics = _metrics()
    test = PairedTest(
        systems, metrics, [list(references)], test_type="bs", n_samples=BLEU_RESAMPLES
    )
    results: Any = test()
    signatures, scores = results
    is_same = list(other) == list(translations)  # sacreBLEU does not notice
    return [
        PairedScores(
            name,
            float(scores[key][0].score),
            float(scores[key][1].score),
            1.0 if is_same else float(scores[key][1].p_value),
            str(signatures[key]),
        )
        for name, key in zip(metrics, [k for k in scores if k != "System"], strict=True)
    ]
