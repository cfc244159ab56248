"""One line for whoever decides: which arm to use with all labels."""

from collections.abc import Sequence

from warmstart.formats import counted, percent
from warmstart.formats import unsigned_points as points
from warmstart.results.comparison import Comparison
from warmstart.results.summary import Advice, ArmScore, Outcome, Verdict, preferred_arms

DANGER: dict[Outcome, int] = {"worse": 0, "none": 1, "better": 2}  # to a pretrained arm


def advise(
    comparison: Comparison, scores: Sequence[ArmScore], verdicts: Sequence[Verdict]
) -> Advice:
    """Name the arm to use: the pretrained arm that validation prefers, unless an opponent wins.

    The baseline, which is cheaper, also wins when no difference is shown.
    """
    labels = comparison.subsets[-1]
    ranked = preferred_arms(scores, labels)
    accuracy = {row.arm: row.scored.accuracy for row in scores if row.labels == labels}
    lead = next((arm for arm in ranked if arm in comparison.pretrained), None)

    def use(arm: str, reason: str, until: str = "") -> Advice:
        where = f"{comparison.scored_split.where} with {counted(labels, 'label')}"
        name = f"{_described(comparison, arm)}{until}"
        return Advice(arm=arm, sentence=f"Use {name}: {percent(accuracy[arm])} {where}{reason}.")

    if lead is None:
        return use(ranked[0], "; no pretrained model was compared")
    strongest = _strongest_opponent(comparison, ranked, lead, verdicts)
    if strongest is None:
        return use(lead, "; no model without pretraining was compared")
    opponent, outcome = strongest
    gap = points(abs(accuracy[lead] - accuracy[opponent]))
    if outcome == "better":
        return use(lead, f", {gap} points above {opponent}")
    pretrained = _described(comparison, lead)
    if outcome == "worse":
        return use(opponent, f", {gap} points above {pretrained}: pretraining did not pay here")
    if opponent in comparison.arm_names("baseline"):
        other = f"the pretrained model ({lead}, {percent(accuracy[lead])})"
        reason = f"; no difference from {other} is shown, and {opponent} is cheaper"
        return use(opponent, reason, " for now")
    return use(lead, f"; no difference from {opponent} ({percent(accuracy[opponent])}) is shown")


def _strongest_opponent(
    comparison: Comparison, ranked: Sequence[str], lead: str, verdicts: Sequence[Verdict]
) -> tuple[str, Outcome] | None:
    """Return the opponent that speaks most against the leading arm, and how the lead did."""
    labels, baselines = comparison.subsets[-1], comparison.arm_names("baseline")
    outcomes = {v.second: v.outcome for v in verdicts if (v.first, v.labels) == (lead, labels)}

    def danger(arm: str) -> tuple[int, bool, int]:
        is_dearer = outcomes[arm] == "none" and arm not in baselines
        return DANGER[outcomes[arm]], is_dearer, ranked.index(arm)

    opponents = [arm for arm in comparison.opponents(lead) if arm in outcomes]
    strongest = min(opponents, key=danger, default=None)
    return None if strongest is None else (strongest, outcomes[strongest])


def _described(comparison: Comparison, arm: str) -> str:
    """Name an arm for a reader who does not know the arms."""
    return f"the pretrained model ({arm})" if arm in comparison.pretrained else arm
