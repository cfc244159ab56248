"""Sentences about a comparison: differences, time to accuracy, the headline and its caveats.

Differences and times carry no full stop, so that they can be joined; headline and caveats do.
"""

from collections.abc import Iterator, Sequence

from warmstart.formats import counted, duration, percent
from warmstart.formats import unsigned_points as points
from warmstart.results.comparison import Arm, Comparison
from warmstart.results.summary import (
    ArmScore,
    Difference,
    Interval,
    LabelsSaved,
    Outcome,
    TimeToAccuracy,
)

CLOSED = 0.005  # a lead of at most half a point counts as closed
OPPOSITE: dict[Outcome, Outcome] = {"better": "worse", "worse": "better", "none": "none"}


def difference_sentence(first: Arm, second: Arm, outcome: Outcome, difference: Interval) -> str:
    """Say which arm is better and by how much, or that no difference is shown."""
    if outcome == "none":
        return (
            f"no difference shown between {first.name} and {second.name} "
            f"(95% interval {points(difference.low)} to {points(difference.high)} points)"
        )
    verb, size = "beats", difference
    if outcome == "worse":
        verb, size = "loses to", _negated(difference)
    did_not_pay = outcome == "worse" and second.kind in ("cold", "baseline")
    return (
        f"{first.name} {verb} {second.name} by {points(size.mean)} points "
        f"(95% interval {points(size.low)} to {points(size.high)})"
        f"{': pretraining did not pay here' if did_not_pay else ''}"
    )


def clean_clause(clean: Interval) -> str:
    """Say what remains of a difference without shared texts."""
    low, high = points(clean.low), points(clean.high)
    return f"without shared texts the 95% interval is {low} to {high} points"


def time_sentence(time: TimeToAccuracy) -> str:
    """Say when warm reaches cold's best, and whether its lead lasts."""
    best = f"{time.cold}'s best ({percent(time.cold_best)}, epoch {time.cold_best_epoch})"
    if time.reached_s is None or time.reached_with_pretraining_s is None:
        return f"{time.warm} never reaches {best}; {_lead_clause(time)}"
    elapsed = duration(time.reached_s)
    if time.reached_with_pretraining_s > time.reached_s:
        elapsed += f" ({duration(time.reached_with_pretraining_s)} with its pretraining)"
    return (
        f"{time.warm} reaches {best} at epoch {time.reached_epoch}, "
        f"after {elapsed} instead of {duration(time.cold_best_s)}; {_lead_clause(time)}"
    )


def _lead_clause(time: TimeToAccuracy) -> str:
    last = time.gaps[-1]
    if time.closed_epoch is None:
        return f"{time.warm} is still {points(last)} points ahead after epoch {len(time.gaps)}"
    end = f", and {time.cold} ends {points(-last)} points ahead" if last < -CLOSED else ""
    if time.closed_epoch == 1:
        return f"{time.warm} is never more than half a point ahead{end}"
    return (
        f"its lead of up to {points(max(time.gaps))} points "
        f"is closed from epoch {time.closed_epoch} on{end}"
    )


def headline(
    comparison: Comparison,
    scores: Sequence[ArmScore],
    differences: Sequence[Difference],
    saved: Sequence[LabelsSaved],
) -> str:
    """Say what pretraining gained with all labels and with the fewest."""
    lead = _lead_arm(comparison, scores)
    if lead is None:
        return "No warm arm was compared."
    unpretrained = {arm.name for arm in comparison.arms if arm.kind in ("cold", "baseline")}
    sentences = list(_best_run_sentences(comparison, differences, lead))
    for labels in sorted({comparison.subsets[0], comparison.subsets[-1]}, reverse=True):
        clauses = [
            difference.sentence
            for difference in differences
            if (difference.first, difference.labels) == (lead, labels)
            and difference.second in unpretrained
        ]
        if clauses:
            sentences.append(f"With {counted(labels, 'label')}, {'; '.join(clauses)}.")
    fewest = [row for row in saved if (row.warm, row.labels) == (lead, comparison.subsets[0])]
    sentences.extend(_saved_sentence(row) for row in fewest if len(comparison.subsets) > 1)
    return " ".join(sentences)


def _lead_arm(comparison: Comparison, scores: Sequence[ArmScore]) -> str | None:
    """Return the warm arm with the best validation accuracy at the largest subset."""
    warm = {arm.name for arm in comparison.arms if arm.kind == "warm"}
    rows = [row for row in scores if row.arm in warm and row.labels == comparison.subsets[-1]]
    return max(rows, key=lambda row: row.validation.accuracy).arm if rows else None


def _best_run_sentences(
    comparison: Comparison, differences: Sequence[Difference], lead: str
) -> Iterator[str]:
    """Compare the best of several pretrained runs with the others, with all labels."""
    arms = {arm.name: arm for arm in comparison.arms if arm.kind == "warm"}
    labels = comparison.subsets[-1]
    clauses = []
    for row in differences:
        pair = (row.first, row.second)
        if row.labels != labels or lead not in pair or not set(pair) <= set(arms):
            continue
        outcome, interval = row.outcome, row.interval
        if row.second == lead:
            outcome, interval = OPPOSITE[outcome], _negated(interval)
        other = row.second if row.first == lead else row.first
        clauses.append(difference_sentence(arms[lead], arms[other], outcome, interval))
    if clauses:
        yield (
            f"Of the {len(arms)} pretrained runs, {lead} did best on validation; "
            f"with {counted(labels, 'label')}, {'; '.join(clauses)}."
        )


def _negated(interval: Interval) -> Interval:
    return Interval(mean=-interval.mean, low=-interval.high, high=-interval.low)


def _saved_sentence(row: LabelsSaved) -> str:
    """Say how many labels the accuracy of a warm arm takes without pretraining."""
    needed = row.text.replace(">", "more than ").replace("≤", "at most ")
    return (
        f"What {row.warm} reaches with {counted(row.labels, 'label')} "
        f"takes {needed} without pretraining ({' or '.join(row.unpretrained)})."
    )


def caveats(comparison: Comparison) -> Iterator[str]:
    """Yield what a reader must know before trusting the scores."""
    judge = comparison.judge
    if comparison.test is None:
        yield (
            "There is no test file: these are validation figures, "
            "and settings and epochs were chosen on the same texts."
        )
    if len(comparison.seeds) == 1:
        yield "There is one seed: intervals cover the choice of texts, not the training seed."
    if judge.shared:
        yield (
            f"{len(judge.shared):,} of the {len(judge.classes):,} {judge.name} texts also "
            f"{'occurs' if len(judge.shared) == 1 else 'occur'} in training or pretraining data: "
            "see the scores without them."
        )
