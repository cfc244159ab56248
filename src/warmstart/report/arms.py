"""How an arm is written in tables: its name, what it reached, what it cost.

Knows nothing about where the tables stand.
"""

from warmstart.report.formats import count, counted, duration, percent, percent_range
from warmstart.report.markup import Html, swatch
from warmstart.report.style import arm_colours
from warmstart.results.comparison import Arm, Comparison
from warmstart.results.summary import Score, Summary

COST_HEADERS = ("training time", "with pretraining", "parameters", "trainable")


def arm_names(comparison: Comparison) -> dict[str, Html]:
    """Return every arm's name behind its colour."""
    colours = arm_colours(comparison.arms)
    return {name: swatch(colour, name) for name, colour in colours.items()}


def score_text(score: Score) -> str:
    """Write an accuracy with its spread over seeds, where there are several."""
    spread = f" ± {100 * score.spread:.1f}" if score.num_seeds > 1 else ""
    return percent(score.accuracy) + spread


def score_headers(summary: Summary) -> tuple[str, ...]:
    """Return the headers over `score_cells`."""
    return (f"accuracy on {summary.judge}", "95% interval", "macro F1", "best epoch")


def score_cells(summary: Summary, arm: Arm, labels: int) -> tuple[str, ...]:
    """Return what one arm reached; it must have been run at this subset."""
    score, curve = summary.score(arm.name, labels), summary.curve(arm.name, labels)
    assert score is not None, (arm.name, labels)
    return (
        score_text(score.judged),
        percent_range(score.judged.interval.low, score.judged.interval.high),
        percent(score.judged.f1),
        "–" if curve is None else str(curve.best_epoch),
    )


def cost_cells(summary: Summary, arm: Arm, labels: int) -> tuple[str, ...]:
    """Return time and size of one arm, in the order of `COST_HEADERS`."""
    cost = next((c for c in summary.costs if (c.arm, c.labels) == (arm.name, labels)), None)
    return (
        "–" if cost is None else duration(cost.train_s),
        "–" if cost is None else duration(cost.total_s),
        *(("–", "–") if arm.kind == "baseline" else (count(arm.parameters), count(arm.trainable))),
    )


def ranking(comparison: Comparison, summary: Summary) -> str:
    """Name all arms at the largest subset from best to worst."""
    labels = comparison.subsets[-1]
    scores = [s for arm in comparison.arms if (s := summary.score(arm.name, labels)) is not None]
    scores.sort(key=lambda score: -score.judged.accuracy)
    names = ", ".join(f"{score.arm} {percent(score.judged.accuracy)}" for score in scores)
    return (
        f"Accuracy on {summary.judge} with {counted(labels, 'label')}, highest first: {names}."
        f" Always naming the most frequent class gives {percent(summary.chance)}."
    )
