"""Sentences about a comparison: differences, time to accuracy, the headline and its caveats.

Differences and times have no full stop, so that they can be joined; headline and caveats do.
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
            f"no difference is shown between {first.name} and {second.name} "
            f"(95% interval {points(difference.low)} to {points(difference.high)} points)"
        )
    is_worse = outcome == "worse"
    size = difference.negated() if is_worse else difference
    did_not_pay = is_worse and second.kind in ("cold", "baseline")
    return (
        f"{first.name} {'loses to' if is_worse else 'beats'} {second.name} "
        f"by {points(size.mean)} points (95% interval {points(size.low)} to {points(size.high)})"
        f"{': pretraining did not pay off here' if did_not_pay else ''}"
    )


def time_sentence(time: TimeToAccuracy) -> str:
    """Say when warm reaches cold's best, and whether its lead lasts."""
    best = f"{time.cold}'s best ({percent(time.cold_best)}, epoch {time.cold_best_epoch})"
    if time.reached_s is None or time.reached_with_pretraining_s is None:
        return f"{time.warm} never reaches {best}; {_lead_clause(time)}"
    elapsed = duration(time.reached_s)
    if time.reached_with_pretraining_s > time.reached_s:
        elapsed += f" ({duration(time.reached_with_pretraining_s)} including pretraining)"
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
    most = points(max(time.gaps))
    return f"its lead of up to {most} points is gone by epoch {time.closed_epoch}{end}"


def headline(
    comparison: Comparison,
    scores: Sequence[ArmScore],
    differences: Sequence[Difference],
    saved: Sequence[LabelsSaved],
) -> str:
    """Say what pretraining gained with all labels and with the fewest."""
    lead = lead_arm(comparison, scores)
    if lead is None:
        return "No warm arm was compared."
    fewest, most = comparison.subsets[0], comparison.subsets[-1]
    unpretrained = comparison.arm_names("cold", "baseline")
    sentences = []
    if clauses := _between_runs(comparison, differences, lead):
        sentences.append(
            f"Of the {len(comparison.arm_names('warm'))} pretrained runs, {lead} did best on "
            f"validation; with {counted(most, 'label')}, {'; '.join(clauses)}."
        )
    for labels in sorted({fewest, most}, reverse=True):
        clauses = [
            difference.sentence
            for difference in differences
            if (difference.first, difference.labels) == (lead, labels)
            and difference.second in unpretrained
        ]
        if clauses:
            sentences.append(f"With {counted(labels, 'label')}, {'; '.join(clauses)}.")
    for row in saved:
        if (row.warm, row.labels) == (lead, fewest) and fewest < most:
            needed = row.text.replace(">", "more than ").replace("≤", "at most ")
            sentences.append(
                f"To match {lead} with {counted(fewest, 'label')}, a model without pretraining "
                f"({' or '.join(row.unpretrained)}) needs {needed} labels."
            )
    return " ".join(sentences)


def lead_arm(comparison: Comparison, scores: Sequence[ArmScore]) -> str | None:
    """Return the warm arm with the best validation accuracy at the largest subset."""
    warm, most = comparison.arm_names("warm"), comparison.subsets[-1]
    rows = [row for row in scores if row.arm in warm and row.labels == most]
    return max(rows, key=lambda row: row.validation.accuracy).arm if rows else None


def _between_runs(
    comparison: Comparison, differences: Sequence[Difference], lead: str
) -> list[str]:
    """Compare the best warm arm with the others, with all labels."""
    arms = {arm.name: arm for arm in comparison.arms if arm.kind == "warm"}
    clauses = []
    for row in differences:
        pair = {row.first, row.second}
        if row.labels != comparison.subsets[-1] or lead not in pair or not pair <= arms.keys():
            continue
        outcome, interval = row.outcome, row.interval
        if row.second == lead:
            outcome, interval = OPPOSITE[outcome], interval.negated()
        (other,) = pair - {lead}
        clauses.append(difference_sentence(arms[lead], arms[other], outcome, interval))
    return clauses


def caveats(comparison: Comparison) -> Iterator[str]:
    """Yield what a reader must know before trusting the scores."""
    split = comparison.scored_split
    if comparison.test is None:
        yield (
            "There is no test file: these are validation scores, "
            "and settings and epochs were selected on the same texts."
        )
    if len(comparison.seeds) == 1:
        yield "Only one seed was run: intervals cover the choice of texts, not that of the seed."
    if split.shared:
        yield (
            f"{len(split.shared):,} of the {len(split.classes):,} {split.name} texts also "
            f"{'occurs' if len(split.shared) == 1 else 'occur'}, exactly or nearly, in other data: "
            "see the scores without them."
        )
