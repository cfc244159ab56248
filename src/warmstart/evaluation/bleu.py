"""The quality of translations: sacreBLEU's BLEU and chrF, with signatures and intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

RESAMPLES = 1000


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
        result = metric.corpus_score(list(translations), [list(references)], n_bootstrap=RESAMPLES)
        mean, half = float(result._mean), float(result._ci)
        low, high = max(0.0, mean - half), min(100.0, mean + half)
        signature = str(metric.get_signature())
        scores[name.lower()] = CorpusScore(float(result.score), low, high, signature)
    return scores


def _metrics() -> dict[str, Any]:
    """Return both metrics, made to compute Python floats.

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
    test = PairedTest(systems, metrics, [list(references)], test_type="bs", n_samples=RESAMPLES)
    results: Any = test()
    signatures, scores = results
    is_same = list(other) == list(translations)  # which sacreBLEU does not notice
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
