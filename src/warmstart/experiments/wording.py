"""Sentences about a comparison: differences, verdicts, time to accuracy, findings, caveats.

Differences, verdicts and times have no full stop, so that they can be joined; the others do.
"""

from collections.abc import Iterator, Sequence

from warmstart.formats import counted, duration, percent
from warmstart.formats import unsigned_points as points
from warmstart.results.comparison import Comparison
from warmstart.results.summary import (
    ArmScore,
    Difference,
    Interval,
    LabelsSaved,
    Outcome,
    TimeToAccuracy,
    Verdict,
    preferred_arms,
)

CLOSED = 0.005  # a lead of at most half a point counts as closed


def difference_sentence(first: str, second: str, outcome: Outcome, difference: Interval) -> str:
    """Say which arm is better and by how much, or that no difference is shown."""
    if outcome == "none":
        return (
            f"no difference is shown between {first} and {second} "
            f"(95% interval {points(difference.low)} to {points(difference.high)} points)"
        )
    is_worse = outcome == "worse"
    size = difference.negated() if is_worse else difference
    return (
        f"{first} {'loses to' if is_worse else 'beats'} {second} "
        f"by {points(size.mean)} points (95% interval {points(size.low)} to {points(size.high)})"
    )


def verdict_sentence(difference: Difference, outcome: Outcome, num_verdicts: int) -> str:
    """Say what a difference shows when it is judged together with the other verdicts."""
    if outcome == difference.outcome:
        return difference.sentence
    first, second, interval = difference.first, difference.second, difference.interval
    return (
        f"{difference_sentence(first, second, outcome, interval)}, "
        f"once adjusted for {num_verdicts} verdicts"
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
    last_epoch = max(time.gaps)
    last = time.gaps[last_epoch]
    if time.closed_epoch is None:
        return f"{time.warm} is still {points(last)} points ahead after epoch {last_epoch}"
    end = f", and {time.cold} ends {points(-last)} points ahead" if last < -CLOSED else ""
    if time.closed_epoch == min(time.gaps):
        return f"{time.warm} is never more than half a point ahead{end}"
    most = points(max(time.gaps.values()))
    return f"its lead of up to {most} points is gone by epoch {time.closed_epoch}{end}"


def findings(
    comparison: Comparison,
    scores: Sequence[ArmScore],
    verdicts: Sequence[Verdict],
    saved: Sequence[LabelsSaved],
) -> Iterator[str]:
    """Say what pretraining gained with all labels and with the fewest, and what it saved."""
    fewest, most = comparison.subsets[0], comparison.subsets[-1]
    for labels in sorted({fewest, most}, reverse=True):
        clauses = [verdict.sentence for verdict in verdicts if verdict.labels == labels]
        if clauses:
            chosen = _chosen(comparison, scores, labels)
            yield f"With {counted(labels, 'label')}, {chosen}{'; '.join(clauses)}."
    for row in saved:
        if row.labels == fewest < most:
            interval = f" (95% interval {_spoken(row.low)} to {_spoken(row.high)})"
            yield (
                f"To match {row.arm} with {counted(fewest, 'label')}, a model without pretraining "
                f"({' or '.join(row.unpretrained)}) needs {_spoken(row.needed)} labels"
                f"{interval if row.has_interval else ''}."
            )


def _chosen(comparison: Comparison, scores: Sequence[ArmScore], labels: int) -> str:
    """Name the pretrained arm that is judged, where there were several."""
    ranked = [arm for arm in preferred_arms(scores, labels) if arm in comparison.pretrained]
    if len(ranked) == 1:
        return ""
    return f"{ranked[0]} is the best of {len(ranked)} pretrained arms {comparison.chosen_on}: "


def _spoken(labels: str) -> str:
    return labels.replace(">", "more than ").replace("≤", "at most ")


def caveats(comparison: Comparison) -> Iterator[str]:
    """Yield what a reader must know before trusting the scores."""
    if comparison.left_out:
        yield (
            f"Less was trained than was asked for ({comparison.left_out}): with more time, scores "
            "and verdicts may differ."
        )
    split = comparison.scored_split
    num_texts = f"{len(split.classes):,} {'' if split.num_folds else f'{split.name} '}texts"
    if split.num_folds:
        yield (
            f"These are scores of {split.num_folds}-fold cross-validation: each text is scored by "
            "models that were trained and chosen without its fold. The models of two folds share "
            "training texts, so the intervals are those of the cross-validated estimate; with "
            "other training texts, scores may vary somewhat more."
        )
    elif not comparison.has_test:
        yield (
            "There is no test file: these are validation scores, cross-fitted. Each half of the "
            "texts is scored by models whose setting and epoch were chosen on the other half."
        )
    if len(comparison.seeds) == 1:
        yield "Only one seed was run: intervals cover the choice of texts, not that of the seed."
    if comparison.num_truncated and comparison.arm_names("baseline"):
        yield (
            f"{' and '.join(comparison.arm_names('baseline'))} reads whole texts; the Transformers "
            f"read only a part of {comparison.num_truncated:,} of the {num_texts}."
        )
    if split.shared:
        yield (
            f"{len(split.shared):,} of the {num_texts} also "
            f"{'occurs' if len(split.shared) == 1 else 'occur'}, exactly or nearly, in other data: "
            "see the scores without them."
        )
