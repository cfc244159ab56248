"""Summarise a comparison and judge it: scores, differences, labels saved, what to use.

Test scores are reported only; nothing is chosen by them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from warmstart.comparison.findings import caveats, describe_classes, findings, outlook
from warmstart.comparison.labels_saved import save_labels
from warmstart.comparison.results import Comparison, Contrast, Disagreement
from warmstart.comparison.scores import (
    adjusted_sentence,
    compare_arms,
    compare_pair,
    count_costs,
    mean_curves,
    rank_pretrained,
    rank_self_trained,
    score_arms,
    times_to_accuracy,
)
from warmstart.comparison.summary import (
    Advice,
    ArmScore,
    Difference,
    Outcome,
    Summary,
    Verdict,
    rank_arms,
)
from warmstart.evaluation.intervals import LEVEL, adjust_by_holm
from warmstart.formats import quantity

WORTHWHILE = 6  # times a lead that counts as none: 3 points of accuracy
LIKELY = 0.3  # p-value below which a lead that is not shown is still taken: it costs only time
DANGER: dict[Outcome, int] = {"worse": 0, "none": 1, "better": 2}  # 0: the most dangerous


def summarise(comparison: Comparison) -> Summary:
    """Return everything that follows from a comparison."""
    scores = tuple(score_arms(comparison))
    curves = tuple(mean_curves(comparison))
    saved_over_best = tuple(save_labels(comparison, scores, ("cold", "baseline")))
    verdicts = tuple(judge(comparison, scores))
    advice = advise(comparison, scores, verdicts)
    return Summary(
        scored_split=comparison.scored_split.name,
        advice=advice,
        findings=(
            *findings(comparison, scores, verdicts, saved_over_best),
            *describe_classes(comparison, scores, advice.arm),
            *outlook(comparison, scores, advice.arm),
        ),
        caveats=tuple(caveats(comparison, verdicts)),
        chance=comparison.chance(comparison.scored_split),
        scores=scores,
        curves=curves,
        times_to_accuracy=tuple(times_to_accuracy(comparison, curves)),
        costs=tuple(count_costs(comparison)),
        saved_over_best=saved_over_best,
        saved_over_cold=tuple(save_labels(comparison, scores, ("cold",))),
        differences=tuple(compare_arms(comparison)),
        verdicts=verdicts,
    )


def judge(comparison: Comparison, scores: Sequence[ArmScore]) -> Iterator[Verdict]:
    """Judge the pretrained arm that validation prefers, with all labels and with the fewest.

    The p-values of the family are adjusted together (Holm), so that all verdicts hold at once.
    """
    subsets = sorted({comparison.subsets[0], comparison.subsets[-1]}, reverse=True)
    family = [
        difference
        for labels in subsets
        for first, second in _family(comparison, scores, labels)
        if (difference := compare_pair(comparison, first, second, labels)) is not None
    ]
    adjusted = adjust_by_holm([difference.p_value for difference in family])
    for difference, p_value in zip(family, adjusted, strict=True):
        if difference.first in _judged_arms(comparison, scores, difference.labels):
            yield _verdict(comparison, difference, p_value, len(family))


def _judged_arms(comparison: Comparison, scores: Sequence[ArmScore], labels: int) -> list[str]:
    """Return the arms that the findings speak of: the best pretrained and self-trained ones."""
    ranked = rank_pretrained(comparison, scores, labels)
    return ranked[:1] + rank_self_trained(comparison, scores, labels)[:1]


def _family(
    comparison: Comparison, scores: Sequence[ArmScore], labels: int
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of arms that the findings may speak of at one subset.

    Without a test set the leading arm is chosen on the texts that it is scored on. Then the pairs
    of every arm that might have led are in the family, so that the choice is paid for.
    """
    ranked = rank_pretrained(comparison, scores, labels)
    best_of_run = {comparison.arm(arm).source: arm for arm in reversed(ranked)}
    for arm in ranked[:1] if comparison.has_test else ranked:
        for opponent in comparison.opponents(arm):
            yield arm, opponent
        if labels == comparison.subsets[-1]:
            for source, other in best_of_run.items():
                if source != comparison.arm(arm).source:
                    yield arm, other
    self_trained = rank_self_trained(comparison, scores, labels)
    for arm in self_trained[:1] if comparison.has_test else self_trained:
        for each in comparison.arms:
            if each.name not in self_trained:
                yield arm, each.name


def _verdict(
    comparison: Comparison, difference: Difference, p_value: float, num_verdicts: int
) -> Verdict:
    outcome, sentence = difference.outcome, difference.sentence
    if outcome != "none" and p_value >= 1 - LEVEL:
        outcome = "none"
        sentence = adjusted_sentence(comparison, difference, p_value, num_verdicts)
    return Verdict(
        first=difference.first,
        second=difference.second,
        labels=difference.labels,
        p_value=p_value,
        outcome=outcome,
        sentence=sentence,
    )


def advise(
    comparison: Comparison, scores: Sequence[ArmScore], verdicts: Sequence[Verdict]
) -> Advice:
    """Name the arm to use: a self-trained one only where it beats every other arm.

    It costs several trainings, and it learns labels that nobody gave.
    """
    labels, scale = comparison.subsets[-1], comparison.scale
    usual = _advise_without_self_training(comparison, scores, verdicts)
    best = next(iter(rank_self_trained(comparison, scores, labels)), None)
    judged = [v for v in verdicts if (v.first, v.labels) == (best, labels)]
    if best is None or not judged or any(v.outcome != "better" for v in judged):
        return usual
    accuracy = {row.arm: row.scored.accuracy for row in scores if row.labels == labels}
    second = max((v.second for v in judged), key=lambda arm: accuracy[arm])
    gap = f"{scale.size(accuracy[best] - accuracy[second])} {scale.ahead} {second}"
    return _advice(comparison, best, accuracy[best], f", {gap}")


def _advice(
    comparison: Comparison, arm: str, accuracy: float, reason: str, until: str = ""
) -> Advice:
    """Return the advice to use an arm with all labels."""
    where = f"{comparison.scored_split.where} with {quantity(comparison.subsets[-1], 'label')}"
    metric = "" if comparison.metric == "accuracy" else f" {comparison.metric}"
    score = f"{comparison.scale.write(accuracy)}{metric} {where}"
    name = f"{_describe_arm(comparison, arm)}{until}"
    return Advice(arm=arm, sentence=f"Use {name}: {score}{reason}.")


def _advise_without_self_training(
    comparison: Comparison, scores: Sequence[ArmScore], verdicts: Sequence[Verdict]
) -> Advice:
    """Name the arm to use: the pretrained arm that validation prefers, unless an opponent wins.

    The baseline, which is cheaper, also wins when no difference is shown, unless the pretrained arm
    is ahead and chance seldom gives such a lead: a lack of scored texts is no reason to lose it.
    """
    labels, scale = comparison.subsets[-1], comparison.scale
    ranked = [arm for arm in rank_arms(scores, labels) if arm not in comparison.self_trained]
    accuracy = {row.arm: row.scored.accuracy for row in scores if row.labels == labels}
    lead = next(iter(rank_pretrained(comparison, scores, labels)), None)

    def use(arm: str, reason: str, until: str = "") -> Advice:
        return _advice(comparison, arm, accuracy[arm], reason, until)

    if lead is None:
        return use(ranked[0], "; no pretrained model was compared")
    strongest = _strongest_opponent(comparison, accuracy, lead, verdicts)
    if strongest is None:
        return use(lead, "; no model without pretraining was compared")
    opponent, outcome = strongest
    gap = f"{scale.size(abs(accuracy[lead] - accuracy[opponent]))} {scale.ahead}"
    if outcome == "better":
        return use(lead, f", {gap} {opponent}")
    pretrained = _describe_arm(comparison, lead)
    if outcome == "worse":
        return use(opponent, f", {gap} {pretrained}: pretraining did not pay here")
    if opponent in comparison.baselines:
        least = WORTHWHILE * scale.negligible_lead(accuracy[opponent])
        is_ahead = accuracy[lead] - accuracy[opponent] >= least
        if is_ahead and _is_unlikely_chance(lead, opponent, labels, verdicts):
            doubt = "; likely, but not shown: more texts to score on, as with --folds 5, would tell"
            return use(lead, f", {gap} {opponent}{doubt}")
        other = f"the pretrained model ({lead}, {scale.write(accuracy[lead])})"
        reason = f"; no difference from {other} is shown, and {opponent} is cheaper"
        return use(opponent, reason, " for now")
    score = scale.write(accuracy[opponent])
    return use(lead, f"; no difference from {opponent} ({score}) is shown")


def _is_unlikely_chance(lead: str, opponent: str, labels: int, verdicts: Sequence[Verdict]) -> bool:
    """Tell whether a difference of this size is unlikely between equal arms."""
    pair = (lead, opponent, labels)
    return any((v.first, v.second, v.labels) == pair and v.p_value < LIKELY for v in verdicts)


def _strongest_opponent(
    comparison: Comparison, accuracy: Mapping[str, float], lead: str, verdicts: Sequence[Verdict]
) -> tuple[str, Outcome] | None:
    """Return the opponent that is hardest to beat, and the lead's outcome against it.

    Where outcomes are the same, that is the best of the baselines, which are cheap, then of others.
    """
    labels = comparison.subsets[-1]
    outcomes = {v.second: v.outcome for v in verdicts if (v.first, v.labels) == (lead, labels)}

    def danger(arm: str) -> tuple[int, bool, float]:
        is_dearer = outcomes[arm] == "none" and arm not in comparison.baselines
        return DANGER[outcomes[arm]], is_dearer, -accuracy[arm]

    opponents = [arm for arm in comparison.opponents(lead) if arm in outcomes]
    strongest = min(opponents, key=danger, default=None)
    return None if strongest is None else (strongest, outcomes[strongest])


def _describe_arm(comparison: Comparison, arm: str) -> str:
    """Name an arm for a reader who does not know the arms."""
    if arm in comparison.self_trained:
        return f"the pretrained model, taught by itself ({arm})"
    return f"the pretrained model ({arm})" if arm in comparison.pretrained else arm


def contrast(
    comparison: Comparison,
    summary: Summary,
    texts: Sequence[str],
    describe: Callable[[Any], str],
) -> Contrast:
    """Contrast the two arms that validation prefers with all labels, in the first seed."""
    labels, seed = comparison.subsets[-1], comparison.seeds[0]
    first, second = summary.preferred(labels)[:2]
    cells = {c.arm: c for c in comparison.cells if (c.labels, c.seed) == (labels, seed)}
    a, b = (comparison.predictions(cells[arm]) for arm in (first, second))
    return Contrast(
        first=first,
        second=second,
        labels=labels,
        seed=seed,
        disagreements=find_disagreements(texts, comparison.scored_split.classes, a, b, describe),
        num_texts=len(texts),
        chosen_on=comparison.chosen_on,
    )


def find_disagreements(
    texts: Sequence[str],
    targets: Sequence[Any],
    first: Sequence[Any],
    second: Sequence[Any],
    describe: Callable[[Any], str],
) -> list[Disagreement]:
    """Return the texts on which two lists of answers differ, in order."""
    return [
        Disagreement(text=text, label=describe(true), first=describe(a), second=describe(b))
        for text, true, a, b in zip(texts, targets, first, second, strict=True)
        if a != b
    ]
