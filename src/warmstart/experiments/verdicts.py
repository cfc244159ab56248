"""What a comparison says: pure functions from measured rows to scores, differences and sentences.

Knows nothing about models, files or pages. Test figures judge; they never choose anything.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from warmstart.evaluation.intervals import interval, paired_interval
from warmstart.evaluation.metrics import macro_f1
from warmstart.experiments.curves import SLACK, draw_curves, run_races, spread
from warmstart.experiments.wording import caveats, clean_words, difference_words, headline
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

Rows = NDArray[np.int64]  # texts of a split, by row number
Right = NDArray[np.bool_]  # (seeds, texts), True where the answer is right
Predictions = Callable[[Cell], Sequence[int]]


def summarise(comparison: Comparison) -> Summary:
    """Work out every answer a comparison owes."""
    scores = tuple(score_arms(comparison))
    curves = tuple(draw_curves(comparison))
    differences = tuple(compare_arms(comparison))
    saved_over_best = tuple(save_labels(comparison, scores, ("cold", "baseline")))
    classes = comparison.judge.classes
    return Summary(
        judge=comparison.judge.name,
        headline=headline(comparison, scores, differences, saved_over_best),
        caveats=tuple(caveats(comparison)),
        chance=max(classes.count(index) for index in set(classes)) / len(classes),
        scores=scores,
        curves=curves,
        races=tuple(run_races(comparison, curves)),
        costs=tuple(count_costs(comparison)),
        saved_over_best=saved_over_best,
        saved_over_cold=tuple(save_labels(comparison, scores, ("cold",))),
        differences=differences,
    )


def score_arms(comparison: Comparison) -> Iterator[ArmScore]:
    """Score every arm at every subset on the judging split, without shared texts, on validation."""
    judge, validation = comparison.judge, comparison.validation
    kept = _clean_rows(judge)
    for arm, labels, cells in comparison.groups():
        judged = _score(cells, comparison.predictions, judge, _all_rows(judge))
        yield ArmScore(
            arm=arm.name,
            labels=labels,
            judged=judged,
            clean=None if kept is None else _score(cells, comparison.predictions, judge, kept),
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
    """Say how many labels the arms of `kinds` need to do what each warm arm does with fewer."""
    rivals = tuple(arm.name for arm in comparison.arms if arm.kind in kinds)
    reached: dict[int, float] = {}  # the best of the rivals at each size
    for score in scores:
        if score.arm in rivals:
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
                rivals=rivals,
                needed=needed,
                text=text,
            )


def labels_needed(target: float, reached: dict[int, float]) -> tuple[int | None, str]:
    """Return the labels at which `reached` (labels: accuracy) first meets `target`, and as text.

    Accuracy is taken to grow evenly with the logarithm of the labels between two measured sizes.
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
    """Compare each warm arm with its rivals at every subset, on the same texts and seeds."""
    for labels in comparison.subsets:
        for first, second in _pairs(comparison.arms):
            ours = comparison.cells_of(first.name, labels)
            theirs = comparison.cells_of(second.name, labels)
            cells = _same_seeds(ours, theirs)
            if cells is not None:
                a, b = (_right(arm, comparison.predictions, comparison.judge) for arm in cells)
                yield _difference(first, second, labels, a, b, _clean_rows(comparison.judge))


def _difference(
    first: Arm, second: Arm, labels: int, a: Right, b: Right, kept: Rows | None
) -> Difference:
    """Judge one pair on all texts, and on the rows `kept` where some are shared."""
    found = paired_interval(a, b)
    clean = None if kept is None else paired_interval(a[:, kept], b[:, kept])
    outcome = outcome_of(found)
    sentence = difference_words(first, second, outcome, found)
    if clean is not None and outcome_of(clean) != outcome:
        sentence += f"; {clean_words(clean)}"
    return Difference(
        first=first.name,
        second=second.name,
        labels=labels,
        interval=found,
        outcome=outcome,
        clean=clean,
        sentence=sentence,
    )


def outcome_of(found: Interval) -> Outcome:
    """Return what an interval of a difference shows: nothing when it touches zero."""
    if found.low > 0:
        return "better"
    return "worse" if found.high < 0 else "none"


def _pairs(arms: Sequence[Arm]) -> Iterator[tuple[Arm, Arm]]:
    """Yield each warm arm with its rivals: the baseline, its own cold and frozen arms, warm ones.

    Two warm arms meet once.
    """
    for place, first in enumerate(arms):
        for other, second in enumerate(arms):
            is_rival = {
                "baseline": True,
                "cold": first.cold in (None, second.name),
                "frozen": second.source == first.source,
                "warm": other > place,
            }
            if first.kind == "warm" and is_rival[second.kind]:
                yield first, second


def _same_seeds(a: list[Cell], b: list[Cell]) -> tuple[list[Cell], list[Cell]] | None:
    """Keep the seeds both arms have; one cell alone stands against all of the other's."""
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
    """Return the rows of texts seen nowhere else; None when these are all, or none."""
    kept = np.setdiff1d(_all_rows(split), np.array(split.shared, dtype=np.int64))
    return kept if 0 < len(kept) < len(split.classes) else None


def _right(cells: Sequence[Cell], predictions: Predictions, split: Split) -> Right:
    """Return (seeds, texts): which answers are right."""
    given = np.array([predictions(cell) for cell in cells])
    return np.asarray(given == np.array(split.classes))


def _score(cells: Sequence[Cell], predictions: Predictions, split: Split, rows: Rows) -> Score:
    """Score the cells of one arm on some rows of a split."""
    right = _right(cells, predictions, split)[:, rows]
    truth = np.array(split.classes)[rows]
    by_seed = right.mean(axis=1)
    f1 = [macro_f1(truth, np.array(predictions(cell))[rows]) for cell in cells]
    return Score(
        num_texts=len(rows),
        num_seeds=len(cells),
        accuracy=float(right.mean()),
        spread=spread(by_seed),
        lowest=float(by_seed.min()),
        highest=float(by_seed.max()),
        interval=interval(right),
        f1=float(np.mean(f1)),
    )
