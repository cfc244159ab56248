"""Summarise a comparison: scores, differences, labels saved, and the verdict.

Test scores are reported only; nothing is chosen by them.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.evaluation.intervals import interval, paired_interval
from warmstart.evaluation.metrics import macro_f1
from warmstart.experiments.curves import SLACK, mean_curves, spread, times_to_accuracy
from warmstart.experiments.wording import (
    caveats,
    clean_clause,
    difference_sentence,
    headline,
)
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

Rows = NDArray[np.int64]  # row numbers of texts of a split
Correct = NDArray[np.bool_]  # (seeds, texts)
Predictions = Callable[[Cell], Sequence[int]]


def summarise(comparison: Comparison) -> Summary:
    """Return everything that follows from a comparison."""
    scores = tuple(score_arms(comparison))
    curves = tuple(mean_curves(comparison))
    differences = tuple(compare_arms(comparison))
    saved_over_best = tuple(save_labels(comparison, scores, ("cold", "baseline")))
    return Summary(
        judge=comparison.judge.name,
        headline=headline(comparison, scores, differences, saved_over_best),
        caveats=tuple(caveats(comparison)),
        chance=comparison.judge.majority_share,
        scores=scores,
        curves=curves,
        times_to_accuracy=tuple(times_to_accuracy(comparison, curves)),
        costs=tuple(count_costs(comparison)),
        saved_over_best=saved_over_best,
        saved_over_cold=tuple(save_labels(comparison, scores, ("cold",))),
        differences=differences,
    )


def score_arms(comparison: Comparison) -> Iterator[ArmScore]:
    """Score every arm at every subset: on `judge`, on it without shared texts, on validation."""
    judge, validation = comparison.judge, comparison.validation
    clean_rows = _clean_rows(judge)
    for arm, labels, cells in comparison.groups():
        judged = _score(cells, comparison.predictions, judge, _all_rows(judge))
        yield ArmScore(
            arm=arm.name,
            labels=labels,
            judged=judged,
            clean=None
            if clean_rows is None
            else _score(cells, comparison.predictions, judge, clean_rows),
            validation=judged
            if comparison.test is None
            else _score(cells, _on_validation, validation, _all_rows(validation)),
        )


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
    unpretrained = tuple(arm.name for arm in comparison.arms if arm.kind in kinds)
    reached: dict[int, float] = {}  # the best of these arms at each size
    for score in scores:
        if score.arm in unpretrained:
            best = reached.get(score.labels, 0.0)
            reached[score.labels] = max(best, score.judged.accuracy)
    warm = {arm.name for arm in comparison.arms if arm.kind == "warm"}
    for score in scores if reached else ():
        if score.arm in warm:
            needed, text = labels_needed(score.judged.accuracy, reached)
            yield LabelsSaved(
                warm=score.arm,
                labels=score.labels,
                accuracy=score.judged.accuracy,
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
    for labels in comparison.subsets:
        for first, second in _pairs(comparison.arms):
            ours = comparison.cells_of(first.name, labels)
            theirs = comparison.cells_of(second.name, labels)
            cells = _same_seeds(ours, theirs)
            if cells is not None:
                a, b = (_correct(arm, comparison.predictions, comparison.judge) for arm in cells)
                yield _difference(first, second, labels, a, b, _clean_rows(comparison.judge))


def _difference(
    first: Arm, second: Arm, labels: int, a: Correct, b: Correct, clean_rows: Rows | None
) -> Difference:
    """Compare one pair on all texts, and on the clean rows where some texts are shared."""
    difference = paired_interval(a, b)
    clean = None if clean_rows is None else paired_interval(a[:, clean_rows], b[:, clean_rows])
    outcome = outcome_of(difference)
    sentence = difference_sentence(first, second, outcome, difference)
    if clean is not None and outcome_of(clean) != outcome:
        sentence += f"; {clean_clause(clean)}"
    return Difference(
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


def _same_seeds(a: list[Cell], b: list[Cell]) -> tuple[list[Cell], list[Cell]] | None:
    """Keep the seeds both arms have; a single cell is paired with every cell of the other arm."""
    if len(a) > 1 and len(b) > 1:
        common = {cell.seed for cell in a} & {cell.seed for cell in b}
        a = [cell for cell in a if cell.seed in common]
        b = [cell for cell in b if cell.seed in common]
    return (a, b) if a and b else None


def _on_validation(cell: Cell) -> Sequence[int]:
    return cell.valid_predictions


def _all_rows(split: Split) -> Rows:
    return np.arange(len(split.classes))


def _clean_rows(split: Split) -> Rows | None:
    """Return the rows of texts that are not shared; None when these are all, or none."""
    rows = np.setdiff1d(_all_rows(split), np.array(split.shared, dtype=np.int64))
    return rows if 0 < len(rows) < len(split.classes) else None


def _correct(cells: Sequence[Cell], predictions: Predictions, split: Split) -> Correct:
    """Return which predictions are correct: (seeds, texts)."""
    predicted = np.array([predictions(cell) for cell in cells])
    return np.asarray(predicted == np.array(split.classes))


def _score(cells: Sequence[Cell], predictions: Predictions, split: Split, rows: Rows) -> Score:
    """Score the cells of one arm on some rows of a split."""
    correct = _correct(cells, predictions, split)[:, rows]
    classes = np.array(split.classes)[rows]
    by_seed = correct.mean(axis=1)
    f1 = [macro_f1(classes, np.array(predictions(cell))[rows]) for cell in cells]
    return Score(
        num_texts=len(rows),
        num_seeds=len(cells),
        accuracy=float(correct.mean()),
        spread=spread(by_seed),
        lowest=float(by_seed.min()),
        highest=float(by_seed.max()),
        interval=interval(correct),
        f1=float(np.mean(f1)),
    )
