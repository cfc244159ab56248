"""Scores of arms and their differences, with intervals; each difference in one sentence."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from warmstart.comparison.results import Arm, Cell, Comparison, Split
from warmstart.comparison.summary import (
    ArmScore,
    Cost,
    Curve,
    CurvePoint,
    Difference,
    Outcome,
    Score,
    TimeToAccuracy,
    rank_arms,
)
from warmstart.evaluation.intervals import LEVEL, Estimate, paired_estimate, symmetric_interval
from warmstart.evaluation.scale import Scale
from warmstart.formats import duration
from warmstart.tasks.registry import finetuning_task

Ints = NDArray[np.int64]
SLACK = 1e-12  # equal accuracies may differ by rounding
Floats = NDArray[np.float64]
ArmAt = tuple[str, int]  # the name of an arm, and its number of labels


def score_arms(comparison: Comparison) -> Iterator[ArmScore]:
    """Score every arm at every subset, on the scored split and on validation."""
    split = comparison.scored_split
    clean = clean_rows(split)
    for arm, labels, cells in comparison.groups():
        choosing = _score(comparison, cells, comparison.choosing_split)
        is_refitted = comparison.is_refitted
        yield ArmScore(
            arm=arm.name,
            labels=labels,
            scored=_score(comparison, cells, split),
            clean=None if clean is None else _score(comparison, cells, split, clean),
            choosing=choosing,
            preference=_tuned_score(comparison, arm, labels) if is_refitted else choosing.accuracy,
        )


def _tuned_score(comparison: Comparison, arm: Arm, labels: int) -> float:
    """Return the score of the best setting on labels set aside; 0: not every arm has one."""
    if not comparison.is_tuned:
        return 0.0
    tunings = [t for t in comparison.tuned if (t.arm, t.labels) == (arm.name, labels)]
    best = [max(trial.valid_accuracy for trial in tuned.trials) for tuned in tunings]
    return float(np.mean(best)) if best else 0.0


def clean_rows(split: Split) -> Ints | None:
    """Return the rows of texts that are not shared; None when these are all, or none."""
    rows = np.setdiff1d(np.arange(len(split.classes)), np.array(split.shared, dtype=np.int64))
    return rows if 0 < len(rows) < len(split.classes) else None


def count_costs(comparison: Comparison) -> Iterator[Cost]:
    """Yield the training time of each arm at each subset, without and with its pretraining."""
    for arm, labels, cells in comparison.groups():
        train_s = float(np.mean([cell.elapsed_s for cell in cells]))
        yield Cost(
            arm=arm.name,
            labels=labels,
            train_s=train_s,
            pretrain_s=arm.pretrain_s,
            total_s=train_s + arm.pretrain_s,
        )


def _score(
    comparison: Comparison, cells: Sequence[Cell], split: Split, rows: Ints | None = None
) -> Score:
    """Score the answers of one arm on a split, or on some rows of it."""
    task = finetuning_task(comparison.task)
    chosen = range(len(split.classes)) if rows is None else rows
    targets = [split.classes[row] for row in chosen]
    correct = _grade(comparison, cells, split)[..., chosen]
    by_model = correct.mean(axis=-1).ravel()
    answers = ([cell.predictions[split.name][row] for row in chosen] for cell in cells)
    all_scores = [task.answer_scores(of_model, targets) for of_model in answers]
    other = task.other_score[0]
    f1 = [scores[other] for scores in all_scores if other in scores]
    return Score(
        num_texts=len(targets),
        num_seeds=correct.shape[1],
        accuracy=float(correct.mean()),
        spread=spread(by_model),
        lowest=float(by_model.min()),
        highest=float(by_model.max()),
        interval=task.scale.interval(correct),
        f1=float(np.mean(f1)) if f1 else None,
    )


def _grade(comparison: Comparison, cells: Sequence[Cell], split: Split) -> Floats:
    """Return the score of every answer, (pretrainings, seeds, texts).

    Only the seeds that every pretraining of the arm has are taken.
    """
    task, targets = finetuning_task(comparison.task), split.classes
    by_pretraining: dict[int, dict[int, Floats]] = defaultdict(dict)
    for cell in cells:
        scores = task.text_scores(cell.predictions[split.name], targets)
        by_pretraining[cell.pretraining][cell.seed] = scores
    common = sorted(set.intersection(*map(set, by_pretraining.values())))
    return np.array([[seeds[seed] for seed in common] for seeds in by_pretraining.values()])


def mean_curves(comparison: Comparison) -> Iterator[Curve]:
    """Average validation accuracy by epoch over the seeds of each arm that has epochs."""
    for arm, labels, cells in comparison.groups():
        points = []
        for epochs in zip(*(cell.epochs for cell in cells), strict=False):
            accuracies = np.array([epoch.valid_accuracy for epoch in epochs])
            point = CurvePoint(
                epoch=epochs[0].epoch,
                accuracy=float(accuracies.mean()),
                spread=spread(accuracies),
                lowest=float(accuracies.min()),
                highest=float(accuracies.max()),
                elapsed_s=float(np.mean([epoch.elapsed_s for epoch in epochs])),
            )
            points.append(point)
        if points:
            best = max(points, key=lambda point: point.accuracy)  # the first of equals
            yield Curve(arm=arm.name, labels=labels, points=tuple(points), best_epoch=best.epoch)


def times_to_accuracy(comparison: Comparison, curves: Sequence[Curve]) -> Iterator[TimeToAccuracy]:
    """Compare each warm arm with its cold arm, epoch by epoch."""
    arms = {arm.name: arm for arm in comparison.arms}
    for warm in curves:
        for cold in curves:
            kinds = arms[warm.arm].kind, arms[cold.arm].kind
            is_own = arms[warm.arm].cold in (None, cold.arm)
            if kinds == ("warm", "cold") and warm.labels == cold.labels and is_own:
                pretrain_s = arms[warm.arm].pretrain_s
                yield _time_to_accuracy(warm, cold, pretrain_s, comparison.scale)


def _time_to_accuracy(warm: Curve, cold: Curve, pretrain_s: float, scale: Scale) -> TimeToAccuracy:
    goal, closed = cold.best.accuracy - SLACK, scale.negligible_lead(cold.best.accuracy)
    reached = next((point for point in warm.points if point.accuracy >= goal), None)
    of_cold = {point.epoch: point.accuracy for point in cold.points}
    gaps = {p.epoch: p.accuracy - of_cold[p.epoch] for p in warm.points if p.epoch in of_cold}
    last_open = max((epoch for epoch, gap in gaps.items() if gap > closed + SLACK), default=0)
    time = TimeToAccuracy(
        warm=warm.arm,
        cold=cold.arm,
        labels=warm.labels,
        cold_best=cold.best.accuracy,
        cold_best_epoch=cold.best_epoch,
        cold_best_s=cold.best.elapsed_s,
        reached_epoch=reached.epoch if reached else None,
        reached_s=reached.elapsed_s if reached else None,
        reached_with_pretraining_s=reached.elapsed_s + pretrain_s if reached else None,
        gaps=gaps,
        closed_epoch=min((epoch for epoch in gaps if epoch > last_open), default=None),
    )
    return replace(time, sentence=time_sentence(time, scale))


def spread(values: NDArray[np.float64]) -> float:
    """Return the standard deviation over seeds, 0 with one seed."""
    return float(values.std(ddof=1)) if len(values) > 1 else 0.0


def compare_arms(comparison: Comparison) -> Iterator[Difference]:
    """Compare pretrained arms with others at every subset."""
    for labels in comparison.subsets:
        for first, second in _pairs(comparison):
            difference = compare_pair(comparison, first, second, labels)
            if difference is not None:
                yield difference


def compare_pair(comparison: Comparison, first: str, second: str, labels: int) -> Difference | None:
    """Compare two arms at one subset; None when one of them was not run there."""
    correct = paired_correct(comparison, (first, labels), (second, labels))
    if correct is None:
        return None
    (a, b), scale = correct, comparison.scale
    estimate, clean = paired_estimate(a, b, scale.span), None
    interval, outcome = symmetric_interval(estimate), outcome_of(estimate)
    sentence = difference_sentence(first, second, outcome, estimate, scale)
    rows = clean_rows(comparison.scored_split)
    if rows is not None:
        clean_estimate = paired_estimate(a[..., rows], b[..., rows], scale.span)
        clean = symmetric_interval(clean_estimate)
        if outcome_of(clean_estimate) != outcome:
            shown = clean.negate() if outcome == "worse" else clean
            limits = scale.size_range(shown.low, shown.high)
            sentence += f"; without shared texts, the 95% interval is {limits} {scale.unit}"
    by_seed = (a - b).mean(axis=(0, 2))
    return Difference(
        first=first,
        second=second,
        labels=labels,
        interval=interval,
        num_seeds=len(by_seed),
        num_below=int((by_seed < -SLACK).sum()),
        p_value=estimate.p_value() if len(by_seed) > 1 else 1.0,
        outcome=outcome,
        clean=clean,
        sentence=sentence,
    )


def paired_correct(
    comparison: Comparison, first: ArmAt, second: ArmAt
) -> tuple[Floats, Floats] | None:
    """Return the scores of the answers of two arms, each (pretrainings, seeds, texts), in pairs.

    An arm with one seed is paired with every seed of the other. None when there is no pair. The
    pretrainings of two recipes have nothing in common, so any two of them make a pair.
    """
    cells = [comparison.cells_of(*arm) for arm in (first, second)]
    seeds = [{cell.seed for cell in of_arm} for of_arm in cells]
    if all(len(of_arm) > 1 for of_arm in seeds):
        common = set.intersection(*seeds)
        cells = [[cell for cell in of_arm if cell.seed in common] for of_arm in cells]
    if not all(cells):
        return None
    a, b = (_grade(comparison, of_arm, comparison.scored_split) for of_arm in cells)
    if 1 not in (len(a), len(b)):
        num = min(len(a), len(b))
        a, b = a[:num], b[:num]
    return a, b


def outcome_of(estimate: Estimate) -> Outcome:
    """Return what a difference shows: nothing if its interval touches zero, or with one seed."""
    if estimate.num_seeds < 2 or abs(estimate.mean) <= estimate.margin():
        return "none"
    return "better" if estimate.mean > 0 else "worse"


def _pairs(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield each pretrained arm with its opponents.

    Warm arms are also compared with their frozen arm and with each other, self-trained ones with
    every other arm.
    """
    for name, other in product(comparison.self_trained, comparison.arms):
        if other.kind != "self":
            yield name, other.name
    for index, first in enumerate(comparison.arms):
        if first.name not in comparison.pretrained:
            continue
        for place, second in enumerate(comparison.arms):
            is_compared = second.name in comparison.opponents(first.name)
            if first.kind == "warm":
                is_own_frozen = second.kind == "frozen" and second.source == first.source
                is_compared |= is_own_frozen or (second.kind == "warm" and place > index)
            if is_compared:
                yield first.name, second.name


def rank_pretrained(comparison: Comparison, scores: Sequence[ArmScore], labels: int) -> list[str]:
    """Return the pretrained arms at one subset, the best on validation first."""
    return [arm for arm in rank_arms(scores, labels) if arm in comparison.pretrained]


def rank_self_trained(comparison: Comparison, scores: Sequence[ArmScore], labels: int) -> list[str]:
    """Return the arms at one subset that label texts for themselves, the best first."""
    return [arm for arm in rank_arms(scores, labels) if arm in comparison.self_trained]


def strongest_arm(scores: Sequence[ArmScore], labels: int, arms: Collection[str]) -> str | None:
    """Return which of some arms has the best reported score at one subset; None: none was run."""
    rows = [score for score in scores if score.labels == labels and score.arm in arms]
    best = max(rows, key=lambda row: row.scored.accuracy, default=None)
    return best.arm if best else None


def difference_sentence(
    first: str, second: str, outcome: Outcome, estimate: Estimate, scale: Scale
) -> str:
    """Say which arm is better and by how much, or that no difference is shown."""
    difference, unit = symmetric_interval(estimate), scale.unit
    if estimate.num_seeds < 2:
        return (
            f"no difference is shown between {first} and {second} with one seed "
            f"(here {scale.size(difference.mean)} {unit}; another seed may turn it round)"
        )
    if outcome == "none":
        return (
            f"no difference is shown between {first} and {second} "
            f"(95% interval {scale.size_range(difference.low, difference.high)} {unit})"
        )
    is_worse = outcome == "worse"
    size = difference.negate() if is_worse else difference
    return (
        f"{first} {'loses to' if is_worse else 'beats'} {second} "
        f"by {scale.size(size.mean)} {unit} (95% interval {scale.size_range(size.low, size.high)})"
    )


def adjusted_sentence(
    comparison: Comparison, difference: Difference, p_value: float, num_verdicts: int
) -> str:
    """Say that a difference is shown alone, but not with its adjusted p-value: give both intervals.

    The wider one has the level at which the adjusted p-value is judged, so it includes zero.
    """
    first, second, scale = difference.first, difference.second, comparison.scale
    correct = paired_correct(comparison, (first, difference.labels), (second, difference.labels))
    assert correct is not None, "the difference was computed from it"
    level = 1 - (1 - LEVEL) * difference.p_value / p_value
    wide, alone = (
        symmetric_interval(paired_estimate(*correct, scale.span), level),
        difference.interval,
    )
    return (
        f"no difference is shown between {first} and {second} "
        f"({scale.size_range(wide.low, wide.high)} {scale.unit}, an interval wide enough for "
        f"{num_verdicts} verdicts to hold together at 95%; alone, it would be "
        f"{scale.size_range(alone.low, alone.high)})"
    )


def time_sentence(time: TimeToAccuracy, scale: Scale) -> str:
    """Say when warm reaches cold's best, and whether its lead lasts."""
    best = f"{time.cold}'s best ({scale.write(time.cold_best)}, epoch {time.cold_best_epoch})"
    if time.reached_s is None or time.reached_with_pretraining_s is None:
        return f"{time.warm} never reaches {best}; {_lead_clause(time, scale)}"
    elapsed = duration(time.reached_s)
    if time.reached_with_pretraining_s > time.reached_s:
        elapsed += f" ({duration(time.reached_with_pretraining_s)} including pretraining)"
    return (
        f"{time.warm} reaches {best} at epoch {time.reached_epoch}, "
        f"after {elapsed} instead of {duration(time.cold_best_s)}; {_lead_clause(time, scale)}"
    )


def _lead_clause(time: TimeToAccuracy, scale: Scale) -> str:
    last_epoch, unit = max(time.gaps), scale.unit
    last = time.gaps[last_epoch]
    if time.closed_epoch is None:
        return f"{time.warm} is still {scale.size(last)} {unit} ahead after epoch {last_epoch}"
    is_behind = last < -scale.negligible_lead(time.cold_best)
    end = f", and {time.cold} ends {scale.size(-last)} {unit} ahead" if is_behind else ""
    if time.closed_epoch == min(time.gaps):
        return f"{time.warm} is never more than {scale.small_lead} ahead{end}"
    most = scale.size(max(time.gaps.values()))
    return f"its lead of up to {most} {unit} is gone by epoch {time.closed_epoch}{end}"
