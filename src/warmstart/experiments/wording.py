"""The same sentence for the same finding: differences, races, the headline and its caveats.

Works out nothing; knows nothing about how a figure was obtained. Sentences carry no full stop, so
that they can be joined; headline and caveats are whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warmstart.report.formats import duration
from warmstart.report.formats import unsigned_points as points
from warmstart.results.comparison import Arm, Comparison
from warmstart.results.summary import ArmScore, Difference, Interval, LabelsSaved, Outcome, Race

CLOSED = 0.005  # a lead of at most half a point counts as closed


def difference_words(first: Arm, second: Arm, outcome: Outcome, found: Interval) -> str:
    """Say who beats whom and by how much, or that nothing is shown."""
    low, high = points(found.low), points(found.high)
    if outcome == "none":
        return (
            f"no difference shown between {first.name} and {second.name} "
            f"(95% interval {low} to {high} points)"
        )
    if outcome == "better":
        by = f"{points(found.mean)} points (95% interval {low} to {high})"
        return f"{first.name} beats {second.name} by {by}"
    low, high = points(-found.high), points(-found.low)
    by = f"{points(-found.mean)} points (95% interval {low} to {high})"
    moral = ": pretraining did not pay here" if second.kind in ("cold", "baseline") else ""
    return f"{first.name} loses to {second.name} by {by}{moral}"


def clean_words(clean: Interval) -> str:
    """Say what is left of a difference without shared texts."""
    low, high = points(clean.low), points(clean.high)
    return f"without shared texts the 95% interval is {low} to {high} points"


def race_words(race: Race) -> str:
    """Say when warm reaches cold's best, and whether its lead lasts."""
    best = f"{race.cold}'s best ({race.cold_best:.1%}, epoch {race.cold_best_epoch})"
    if race.reached_s is None or race.reached_with_pretraining_s is None:
        return f"{race.warm} never reaches {best}; {_lead_words(race)}"
    took = duration(race.reached_s)
    if race.reached_with_pretraining_s > race.reached_s:
        took += f" ({duration(race.reached_with_pretraining_s)} with its pretraining)"
    return (
        f"{race.warm} reaches {best} at epoch {race.reached_epoch}, "
        f"after {took} instead of {duration(race.cold_best_s)}; {_lead_words(race)}"
    )


def headline(
    comparison: Comparison,
    scores: Sequence[ArmScore],
    differences: Sequence[Difference],
    saved: Sequence[LabelsSaved],
) -> str:
    """Say what the pretraining bought with all labels and with the fewest."""
    lead = _lead_arm(comparison, scores)
    if lead is None:
        return "No warm arm was compared."
    rivals = {arm.name for arm in comparison.arms if arm.kind in ("cold", "baseline")}
    told = list(_choice_words(comparison, differences, lead))
    for labels in sorted({comparison.subsets[0], comparison.subsets[-1]}, reverse=True):
        sentences = [
            difference.sentence
            for difference in differences
            if (difference.first, difference.labels) == (lead, labels)
            and difference.second in rivals
        ]
        if sentences:
            told.append(f"With {labels:,} labels, {'; '.join(sentences)}.")
    few = [row for row in saved if (row.warm, row.labels) == (lead, comparison.subsets[0])]
    told.extend(_saved_words(row) for row in few if len(comparison.subsets) > 1)
    return " ".join(told)


def _choice_words(
    comparison: Comparison, differences: Sequence[Difference], lead: str
) -> Iterator[str]:
    """Say which of several pretrained runs is better with all labels, seen from the best one."""
    arms = {arm.name: arm for arm in comparison.arms if arm.kind == "warm"}
    labels = comparison.subsets[-1]
    sentences = []
    for found in differences:
        pair = (found.first, found.second)
        if found.labels == labels and lead in pair and set(pair) <= set(arms):
            mine = found if found.first == lead else _turned(found)
            words = difference_words(
                arms[mine.first], arms[mine.second], mine.outcome, mine.interval
            )
            sentences.append(words)
    if sentences:
        yield (
            f"Of the {len(arms)} pretrained runs, {lead} did best on validation; "
            f"with {labels:,} labels, {'; '.join(sentences)}."
        )


def _turned(found: Difference) -> Difference:
    """Return a difference as seen from its other arm."""
    outcomes: dict[Outcome, Outcome] = {"better": "worse", "worse": "better", "none": "none"}
    old = found.interval
    return replace(
        found,
        first=found.second,
        second=found.first,
        interval=Interval(mean=-old.mean, low=-old.high, high=-old.low),
        outcome=outcomes[found.outcome],
    )


def caveats(comparison: Comparison) -> Iterator[str]:
    """Yield what a reader must know before believing the figures."""
    judge = comparison.judge
    if comparison.test is None:
        yield (
            "There is no test file: these are validation figures, "
            "and settings and epochs were chosen on the same data."
        )
    if len(comparison.seeds) == 1:
        yield "There is one seed: intervals cover the choice of texts, not the luck of training."
    if judge.shared:
        yield (
            f"{len(judge.shared):,} of the {len(judge.classes):,} {judge.name} texts also stand in "
            "training or pretraining text: see the scores without them."
        )


def _lead_words(race: Race) -> str:
    last = race.gaps[-1]
    if race.closed_epoch is None:
        return f"{race.warm} is still {points(last)} points ahead after epoch {len(race.gaps)}"
    end = f", and {race.cold} ends {points(-last)} points ahead" if last < -CLOSED else ""
    if race.closed_epoch == 1:
        return f"{race.warm} is never more than half a point ahead{end}"
    return (
        f"its lead of up to {points(max(race.gaps))} points "
        f"is closed from epoch {race.closed_epoch} on{end}"
    )


def _saved_words(row: LabelsSaved) -> str:
    """Say what the accuracy of a warm arm costs in labels without pretraining."""
    cost = row.text.replace(">", "more than ").replace("≤", "at most ")
    return (
        f"What {row.warm} reaches with {row.labels:,} labels "
        f"takes {cost} without pretraining ({' or '.join(row.rivals)})."
    )


def _lead_arm(comparison: Comparison, scores: Sequence[ArmScore]) -> str | None:
    """Return the warm arm that validation likes best at the largest subset."""
    warm = {arm.name for arm in comparison.arms if arm.kind == "warm"}
    found = [row for row in scores if row.arm in warm and row.labels == comparison.subsets[-1]]
    return max(found, key=lambda row: row.validation.accuracy).arm if found else None
