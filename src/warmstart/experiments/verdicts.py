"""Summarise a comparison: scores, differences, labels saved, and the verdict.

Test scores are reported only; nothing is chosen by them.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.evaluation.intervals import accuracy_interval, paired_interval
from warmstart.evaluation.metrics import macro_f1
from warmstart.experiments.curves import SLACK, mean_curves, spread, times_to_accuracy
from warmstart.experiments.wording import caveats, difference_sentence, headline
from warmstart.formats import unsigned_points as points
from warmstart.results.comparison import Arm, ArmKind, Cell, Comparison, Split
from warmstart.results.summary import (
    ArmScore,
    Cost,
    Difference,
    Interval,
    LabelsSaved,
    Outcome,
    Score,
    Summary,
)

Ints = NDArray[np.int64]


def summarise(comparison: Comparison) -> Summary:
    """Return everything that follows from a comparison."""
    scores = tuple(score_arms(comparison))
    curves = tuple(mean_curves(comparison))
    differences = tuple(compare_arms(comparison))
    saved_over_best = tuple(save_labels(comparison, scores, ("cold", "baseline")))
    return Summary(
        scored_split=comparison.scored_split.name,
        headline=headline(comparison, scores, differences, saved_over_best),
        caveats=tuple(caveats(comparison)),
        chance=comparison.scored_split.majority_share,
        scores=scores,
        curves=curves,
        times_to_accuracy=tuple(times_to_accuracy(comparison, curves)),
        costs=tuple(count_costs(comparison)),
        saved_over_best=saved_over_best,
        saved_over_cold=tuple(save_labels(comparison, scores, ("cold",))),
        differences=differences,
    )


def score_arms(comparison: Comparison) -> Iterator[ArmScore]:
    """Score every arm at every subset, on the scored split and on validation."""
    split = comparison.scored_split
    clean_rows = _clean_rows(split)
    for arm, labels, cells in comparison.groups():
        predicted = _predicted(comparison, cells)
        on_validation = np.array([cell.valid_predictions for cell in cells])
        yield ArmScore(
            arm=arm.name,
            labels=labels,
            scored=_score(predicted, split),
            clean=None if clean_rows is None else _score(predicted, split, clean_rows),
            validation=_score(on_validation, comparison.validation),
        )


def _predicted(comparison: Comparison, cells: Sequence[Cell]) -> Ints:
    """Return the predictions on the scored split: (seeds, texts)."""
    return np.array([comparison.predictions(cell) for cell in cells])


def _score(predicted: Ints, split: Split, rows: Ints | slice = slice(None)) -> Score:
    """Score predictions, (seeds, texts), on some rows of a split."""
    classes, predicted = np.array(split.classes)[rows], predicted[:, rows]
    correct = predicted == classes
    by_seed = correct.mean(axis=1)
    return Score(
        num_texts=len(classes),
        num_seeds=len(predicted),
        accuracy=float(correct.mean()),
        spread=spread(by_seed),
        lowest=float(by_seed.min()),
        highest=float(by_seed.max()),
        interval=accuracy_interval(correct),
        f1=float(np.mean([macro_f1(classes, of_seed) for of_seed in predicted])),
    )


def _clean_rows(split: Split) -> Ints | None:
    """Return the rows of texts that are not shared; None when these are all, or none."""
    rows = np.setdiff1d(np.arange(len(split.classes)), np.array(split.shared, dtype=np.int64))
    return rows if 0 < len(rows) < len(split.classes) else None


def count_costs(comparison: Comparison) -> Iterator[Cost]:
    """Return the training time of each arm at each subset, without and with its pretraining."""
    for arm, labels, cells in comparison.groups():
        train_s = float(np.mean([cell.elapsed_s for cell in cells]))
        yield Cost(
            arm=arm.name,
            labels=labels,
            train_s=train_s,
            pretrain_s=arm.pretrain_s,
            total_s=train_s + arm.pretrain_s,
        )


def save_labels(
    comparison: Comparison, scores: Sequence[ArmScore], kinds: Sequence[ArmKind]
) -> Iterator[LabelsSaved]:
    """Return how many labels the arms of `kinds` need to match each warm arm."""
    warm, unpretrained = comparison.arm_names("warm"), comparison.arm_names(*kinds)
    reached: dict[int, float] = {}  # the best of these arms at each size
    for score in scores:
        if score.arm in unpretrained:
            best = reached.get(score.labels, 0.0)
            reached[score.labels] = max(best, score.scored.accuracy)
    for score in scores if reached else ():
        if score.arm in warm:
            needed, text = labels_needed(score.scored.accuracy, reached)
            yield LabelsSaved(
                warm=score.arm,
                labels=score.labels,
                accuracy=score.scored.accuracy,
                unpretrained=unpretrained,
                needed=needed,
                text=text,
            )


def labels_needed(target: float, reached: dict[int, float]) -> tuple[int | None, str]:
    """Return how many labels `reached` (labels: accuracy) needs for `target`; also as text.

    Between two measured sizes, accuracy is interpolated linearly in the logarithm of the labels.
    """
    sizes = sorted(reached)
    before = sizes[0]
    if reached[before] >= target - SLACK:
        return None, f"≤{before:,}"
    for size in sizes[1:]:
        if reached[size] >= target - SLACK:
            share = (target - reached[before]) / (reached[size] - reached[before])
            needed = round(before * (size / before) ** min(share, 1))
            return needed, f"{needed:,}"
        before = size
    return None, f">{before:,}"


def compare_arms(comparison: Comparison) -> Iterator[Difference]:
    """Compare each warm arm with other arms at every subset, on the same texts and seeds."""
    split = comparison.scored_split
    clean_rows = _clean_rows(split)
    for labels in comparison.subsets:
        for first, second in _pairs(comparison.arms):
            cells = [comparison.cells_of(arm.name, labels) for arm in (first, second)]
            if all(len(of_arm) > 1 for of_arm in cells):  # else one cell is paired with every other
                common = set.intersection(*({cell.seed for cell in of_arm} for of_arm in cells))
                cells = [[cell for cell in of_arm if cell.seed in common] for of_arm in cells]
            if not all(cells):
                continue
            a, b = (_predicted(comparison, of_arm) == split.classes for of_arm in cells)
            difference, clean = paired_interval(a, b), None
            outcome = outcome_of(difference)
            sentence = difference_sentence(first, second, outcome, difference)
            if clean_rows is not None:
                clean = paired_interval(a[:, clean_rows], b[:, clean_rows])
                if outcome_of(clean) != outcome:
                    limits = f"{points(clean.low)} to {points(clean.high)} points"
                    sentence += f"; without shared texts, the 95% interval is {limits}"
            yield Difference(
                first=first.name,
                second=second.name,
                labels=labels,
                interval=difference,
                outcome=outcome,
                clean=clean,
                sentence=sentence,
            )


def outcome_of(difference: Interval) -> Outcome:
    """Return what an interval of a difference shows: nothing when it touches zero."""
    if difference.low > 0:
        return "better"
    return "worse" if difference.high < 0 else "none"


def _pairs(arms: Sequence[Arm]) -> Iterator[tuple[Arm, Arm]]:
    """Yield each warm arm with the baseline, its own cold and frozen arms, and later warm arms."""
    for index, first in enumerate(arms):
        for other, second in enumerate(arms):
            is_compared = {
                "baseline": True,
                "cold": first.cold in (None, second.name),
                "frozen": second.source == first.source,
                "warm": other > index,
            }
            if first.kind == "warm" and is_compared[second.kind]:
                yield first, second
