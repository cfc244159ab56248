"""How good translations are: sacreBLEU's BLEU and chrF, with signatures and intervals.

Knows nothing about models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

RESAMPLES = 1000


@dataclass(frozen=True)
class Measured:
    """One figure of a whole test set."""

    score: float  # 0 to 100
    low: float  # 95% interval over sentences
    high: float
    signature: str  # how sacreBLEU counted


@dataclass(frozen=True)
class TranslationScores:
    """The figures of one system."""

    sentences: int
    bleu: Measured
    chrf: Measured


@dataclass(frozen=True)
class Paired:
    """Two systems on the same sentences."""

    metric: str
    other: float
    score: float
    p_value: float  # chance of so large a difference between equal systems
    signature: str


def corpus_bleu(found: Sequence[str], references: Sequence[str]) -> float:
    """Return BLEU alone, without an interval."""
    return float(BLEU().corpus_score(list(found), [list(references)]).score)


def translation_scores(found: Sequence[str], references: Sequence[str]) -> TranslationScores:
    """Return BLEU and chrF with their bootstrap intervals."""
    measured = [_measured(metric, found, references) for metric in _metrics()]
    return TranslationScores(len(found), *measured)


def _metrics() -> tuple[BLEU, CHRF]:
    """Return both, with Python's numbers alone: the library fails on a mixture.

    A resample whose texts have nothing in common counts 0.0, others a number of NumPy's.
    """
    metrics = BLEU(), CHRF()
    for metric in metrics:
        metric._compute_score_from_stats = _plainly(metric)  # type: ignore[method-assign]
    return metrics


def _plainly(metric: Any) -> Any:
    compute = metric._compute_score_from_stats

    def compute_plainly(stats: Any) -> Any:
        found = compute(stats)
        found.score = float(found.score)
        return found

    return compute_plainly


def _measured(metric: Any, found: Sequence[str], references: Sequence[str]) -> Measured:
    whole = metric.corpus_score(list(found), [list(references)], n_bootstrap=RESAMPLES)
    mean, half = float(whole._mean), float(whole._ci)
    low, high = max(0.0, mean - half), min(100.0, mean + half)
    return Measured(float(whole.score), low, high, str(metric.get_signature()))


def paired_test(
    other: Sequence[str], found: Sequence[str], references: Sequence[str]
) -> list[Paired]:
    """Compare two systems by paired bootstrap resampling of the sentences."""
    named: Any = [("other", list(other)), ("found", list(found))]
    metrics = dict(zip(("BLEU", "chrF"), _metrics(), strict=True))
    test = PairedTest(named, metrics, [list(references)], test_type="bs", n_samples=RESAMPLES)
    results: Any = test()
    signatures, scores = results
    is_same = list(other) == list(found)  # which the library does not notice
    return [
        Paired(
            name,
            float(scores[key][0].score),
            float(scores[key][1].score),
            1.0 if is_same else float(scores[key][1].p_value),
            str(signatures[key]),
        )
        for name, key in zip(metrics, [k for k in scores if k != "System"], strict=True)
    ]
