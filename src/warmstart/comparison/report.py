"""The report of a comparison: its page and its figures."""

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from warmstart.comparison.results import Arm, ArmKind, AttentionExample, Comparison, Contrast
from warmstart.comparison.summary import ArmScore, Curve, Difference, Summary
from warmstart.comparison.suspects import SuspectLabels
from warmstart.evaluation.scale import Scale
from warmstart.formats import count, sentence_case, shorten
from warmstart.model.attention_weights import AttentionMap, readable
from warmstart.report.attention import draw_layers
from warmstart.report.html import Section, render_block, write_page
from warmstart.report.style import (
    FAINT,
    INK,
    SHADES,
    EndLabel,
    new_axes,
    styled,
    write_end_labels,
)
from warmstart.tasks.registry import finetuning_task

MAX_DIFFERENCES = 30  # a figure with more rows shows the largest subset only
MAX_EPOCHS = 10  # columns of a table by epoch
SHOWN = 10  # disagreements of each kind that are visible at once
FOLDED = 100  # and that open with a click
MAX_CHARS = 400  # of a text that is shown
DARKEST = 0.65  # shade of the word with the most attention
GROUP_GAP = 1.35  # rows between one group and the title of the next
MAX_MARKS = 15  # epochs up to which each has its own mark
MARKERS: dict[ArmKind, str] = {
    "warm": "o",
    "frozen": "s",
    "cold": "^",
    "baseline": "D",
    "self": "P",
}


def write_comparison_page(
    comparison: Comparison,
    summary: Summary,
    path: Path,
    contrast: Contrast | None = None,
    attention: AttentionExample | None = None,
    suspects: SuspectLabels | None = None,
) -> Path:
    """Write the report of a comparison."""
    sections = comparison_sections(comparison, summary, contrast, attention, suspects)
    return write_page(comparison.title, [*sections, reading_section(comparison)], path)


def comparison_sections(
    comparison: Comparison,
    summary: Summary,
    contrast: Contrast | None = None,
    attention: AttentionExample | None = None,
    suspects: SuspectLabels | None = None,
) -> list[Section]:
    """Return every section of the report, the verdict first, without the explanations."""
    values, metric = _values(comparison, summary), sentence_case(comparison.metric)

    def section(title: str, block: str, **drawn: object) -> Section:
        return _section(title, block, {**values, **drawn})

    have_epochs = {curve.labels for curve in summary.curves}  # not of regressions alone
    trained = [n for n in reversed(comparison.subsets) if n in have_epochs]
    sections = [section("Verdict", "verdict")]
    if trained:
        subsets = [_epochs(comparison, summary, labels) for labels in trained]
        sections.append(section(f"{metric} by epoch", "epochs", subsets=subsets))
    sections.append(section("The arms", "arms"))
    has_figure = len(comparison.subsets) > 1
    if has_figure or summary.saved_over_best:
        drawing = draw_labels(comparison, summary) if has_figure else None
        sections.append(section(f"{metric} by number of labels", "labels", drawing=drawing))
    if summary.differences:
        is_long = len(summary.differences) > MAX_DIFFERENCES
        subset = comparison.subsets[-1] if is_long else None
        drawing = draw_differences(comparison, summary, subset)
        sections.append(section("Paired differences", "differences", drawing=drawing))
    if contrast is not None:
        sections.append(contrast_section(contrast))
    if suspects is not None:
        sections.append(suspects_section(suspects))
    if attention is not None:
        sections.append(attention_section(attention))
    return [
        *sections,
        section("Tuning", "tuning"),
        *([section("Class balance", "classes")] if comparison.class_names else []),
        section("Shared texts", "shared"),
        section("Settings", "settings"),
    ]


def _section(title: str, block: str, values: Mapping[str, object]) -> Section:
    return Section(
        title=title, pieces=[render_block("comparison.html", block, values, "warmstart.comparison")]
    )


def _values(comparison: Comparison, summary: Summary) -> dict[str, object]:
    """Return the values that every block of the template may refer to."""
    splits = () if comparison.num_folds else comparison.splits
    task, labels = finetuning_task(comparison.task), {"classes": comparison.class_names}
    return {
        "comparison": comparison,
        "scale": comparison.scale,
        "summary": summary,
        "labels": comparison.subsets[-1],
        "warm": comparison.arm_names("warm"),
        "colours": arm_colours(comparison.arms),
        "splits": splits,
        "other_score": task.other_score[1],
        "class_counts": {s.name: task.class_counts(s.classes, labels) for s in splits},
    }


def reading_section(comparison: Comparison) -> Section:
    """Explain the terms of the report."""
    return _section(
        "How to read this page", "reading", {"comparison": comparison, "scale": comparison.scale}
    )


def _epochs(comparison: Comparison, summary: Summary, labels: int) -> dict[str, object]:
    """Return the curves of one subset, when warm reaches cold's best, and the epochs to list."""
    times = [time for time in summary.times_to_accuracy if time.labels == labels]
    validated = sorted({epoch for time in times for epoch in time.gaps}) or [1]
    num = min(len(validated), MAX_EPOCHS)
    epochs = [validated[i] for i in np.linspace(0, len(validated) - 1, num).astype(int)]
    drawing = draw_epochs(comparison, summary, labels)
    return {"labels": labels, "drawing": drawing, "times": times, "epochs": epochs}


def contrast_section(contrast: Contrast) -> Section:
    """Return the texts on which two models disagree."""
    first, second, rows = contrast.first, contrast.second, contrast.disagreements
    groups = {
        f"Only {first} is correct": [d for d in rows if d.first == d.label],
        f"Only {second} is correct": [d for d in rows if d.second == d.label],
        "Neither is correct": [d for d in rows if d.label not in (d.first, d.second)],
    }
    values = {
        "contrast": contrast,
        "groups": list(groups.items()),
        "num_shown": SHOWN,
        "num_folded": FOLDED,
        "max_chars": MAX_CHARS,
    }
    return _section(f"Where {first} and {second} disagree", "disagreements", values)


def suspects_section(found: SuspectLabels) -> Section:
    """Return the labels that every held-out model contradicts."""
    values = {"found": found, "num_shown": SHOWN, "num_folded": FOLDED, "max_chars": MAX_CHARS}
    return _section("Labels that look wrong", "suspects", values)


def attention_section(example: AttentionExample) -> Section:
    """Return the attention of several models on one text."""
    maps = {arm: attention.by_word() for arm, attention in example.maps.items()}
    values = {
        "example": example,
        "maps": maps,
        "words": {arm: _shaded_words(attention) for arm, attention in maps.items()},
        "drawing": draw_layers(maps),
    }
    return _section("Attention on one text", "attention", values)


def _shaded_words(attention: AttentionMap) -> list[tuple[str, float]]:
    """Return each word with the opacity of its background."""
    received = attention.received()
    shades = DARKEST * received / (received.max() or 1.0)
    return list(zip(map(readable, attention.keys.pieces), shades.tolist(), strict=True))


@styled
def draw_epochs(comparison: Comparison, summary: Summary, subset: int | None = None) -> Figure:
    """Draw validation accuracy by epoch at one subset, the largest unless named."""
    labels = comparison.subsets[-1] if subset is None else subset
    figure, axes = new_axes()
    colours = arm_colours(comparison.arms)
    curves = [(arm, summary.curve(arm.name, labels)) for arm in comparison.arms]
    drawn = [(arm, curve) for arm, curve in curves if curve is not None]
    flat = [(arm, summary.score(arm.name, labels)) for arm, curve in curves if curve is None]
    last = max((curve.points[-1].epoch for _, curve in drawn), default=1)
    axes.set_xlim(1 - 0.03 * max(last - 1, 8), last + 0.03 * max(last - 1, 8))
    scale = comparison.scale
    ends = [_draw_curve(axes, arm, curve, colours[arm.name], scale) for arm, curve in drawn]
    levels = [(arm, score) for arm, score in flat if score is not None]
    ends += [_draw_level(axes, arm, score, colours[arm.name], scale) for arm, score in levels]
    shown = [value for _, curve in drawn for p in curve.points for value in (p.lowest, p.highest)]
    shown += [end.y for end in ends]
    _finish(axes, comparison, ends, shown, comparison.chance(comparison.choosing_split))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("epoch")
    metric = comparison.metric
    scores = f"Mean {metric} of folds" if comparison.num_folds else f"Validation {metric}"
    if comparison.is_refitted:
        scores = f"{sentence_case(metric)} on test texts"
    axes.set_title(f"{scores} by epoch, {count(labels)} labels{comparison.scale.axis}")
    return figure


@styled
def draw_labels(comparison: Comparison, summary: Summary) -> Figure:
    """Draw accuracy on the scored split against the number of labels, with 95% intervals."""
    figure, axes = new_axes()
    colours = arm_colours(comparison.arms)
    first, last = comparison.subsets[0], comparison.subsets[-1]
    span = max(math.log(last / first), 0.5)
    axes.set_xscale("log")
    axes.set_xlim(first * math.exp(-0.07 * span), last * math.exp(0.07 * span))
    ends, shown = [], []
    for index, arm in enumerate(comparison.arms):
        offset = math.exp(0.011 * span * (index - (len(comparison.arms) - 1) / 2))
        scores = [s for n in comparison.subsets if (s := summary.score(arm.name, n)) is not None]
        if scores:
            _draw_scores(axes, arm, scores, colours[arm.name], offset)
            y = scores[-1].scored.accuracy
            text = f"{shorten(arm.name)}  {comparison.scale.write(y)}"
            x = scores[-1].labels * offset
            ends.append(EndLabel(text=text, colour=colours[arm.name], x=x, y=y))
            intervals = [score.scored.interval for score in scores]
            shown += [limit for i in intervals for limit in (i.low, i.high)]
    _finish(axes, comparison, ends, shown, summary.chance)
    _tick_subsets(axes, comparison.subsets, span)
    axes.set_xlabel("labelled training texts")
    metric, where = sentence_case(comparison.metric), comparison.scored_split.where
    axes.set_title(f"{metric} {where} by number of labels{comparison.scale.axis}")
    return figure


@styled
def draw_differences(comparison: Comparison, summary: Summary, subset: int | None = None) -> Figure:
    """Draw paired differences with 95% intervals, at one subset or at all of them."""
    subsets = comparison.subsets[::-1] if subset is None else (subset,)
    groups = [(n, [d for d in summary.differences if d.labels == n]) for n in subsets]
    groups = [(labels, rows) for labels, rows in groups if rows]
    height = sum(len(rows) for _, rows in groups) + GROUP_GAP * len(groups)
    figure, axes = new_axes(height=0.95 + 0.21 * height)
    colours, scale = arm_colours(comparison.arms), comparison.scale
    axes.axvline(0, color=INK, linewidth=0.9)
    axes.grid(visible=False, axis="y")
    y, names = 0.0, []
    for labels, rows in groups:
        _write_left(axes, y, f"{count(labels)} labels", weight="bold")
        for row, difference in enumerate(rows, start=1):
            name = _draw_difference(axes, y + row, difference, colours, scale)
            names.append((y + row, name))
        y += len(rows) + GROUP_GAP
    axes.set_ylim(max(y - GROUP_GAP, 0.0) + 0.7, -0.6)
    for row_y, name in names:
        _write_left(axes, row_y, name)
    axes.yaxis.set_major_locator(NullLocator())
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: scale.gain_tick(value)))
    axes.set_xlabel(f"{scale.difference_axis(comparison.metric)} (95% interval)")
    axes.set_title(f"Paired differences {comparison.scored_split.where}")
    return figure


def _draw_curve(axes: Axes, arm: Arm, curve: Curve, colour: str, scale: Scale) -> EndLabel:
    epochs = [point.epoch for point in curve.points]
    accuracies = [point.accuracy for point in curve.points]
    lowest, highest = [p.lowest for p in curve.points], [p.highest for p in curve.points]
    marker = MARKERS[arm.kind] if len(epochs) <= MAX_MARKS else ""
    axes.fill_between(epochs, lowest, highest, color=colour, alpha=0.14, linewidth=0)
    axes.plot(epochs, accuracies, color=colour, marker=marker, markersize=3.2)
    axes.plot(
        [curve.best.epoch],
        [curve.best.accuracy],
        marker=MARKERS[arm.kind],
        markersize=7.5,
        markerfacecolor="white",
        markeredgecolor=colour,
        markeredgewidth=1.6,
        zorder=4,
    )
    text = f"{shorten(arm.name)}  best {scale.write(curve.best.accuracy)}"
    return EndLabel(text=text, colour=colour, x=epochs[-1], y=accuracies[-1])


def _draw_level(axes: Axes, arm: Arm, score: ArmScore, colour: str, scale: Scale) -> EndLabel:
    level = score.choosing
    axes.axhline(level.accuracy, color=colour, linewidth=1.4, dashes=(5, 3))
    if level.highest > level.lowest:
        axes.axhspan(level.lowest, level.highest, color=colour, alpha=0.14, linewidth=0)
    text = f"{shorten(arm.name)}  {scale.write(level.accuracy)}"
    return EndLabel(text=text, colour=colour, x=axes.get_xlim()[1], y=level.accuracy)


def _draw_scores(
    axes: Axes, arm: Arm, scores: Sequence[ArmScore], colour: str, offset: float
) -> None:
    x = [score.labels * offset for score in scores]
    y = [score.scored.accuracy for score in scores]
    low = [max(score.scored.accuracy - score.scored.interval.low, 0.0) for score in scores]
    high = [max(score.scored.interval.high - score.scored.accuracy, 0.0) for score in scores]
    axes.errorbar(
        x,
        y,
        yerr=[low, high],
        color=colour,
        marker=MARKERS[arm.kind],
        markersize=4.5,
        linestyle="--" if arm.kind == "baseline" else "-",
        elinewidth=1.0,
        capsize=2.0,
        capthick=1.0,
    )


def _finish(
    axes: Axes, comparison: Comparison, ends: list[EndLabel], shown: list[float], chance: float
) -> None:
    """Draw the reference lines, fit the axis and name every line."""
    right, scale = axes.get_xlim()[1], comparison.scale
    if comparison.attainable is not None:
        axes.axhline(comparison.attainable, color=INK, linewidth=0.9, linestyle=":")
        text = f"attainable  {scale.write(comparison.attainable)}"
        ends.append(EndLabel(text=text, colour=INK, x=right, y=comparison.attainable))
        shown.append(comparison.attainable)
    # When chance is far below the curves, its line would flatten them: an arrow replaces it.
    is_near = chance >= min(shown) - 0.35 * (max(shown) - min(shown))
    if is_near:
        axes.axhline(chance, color=FAINT, linewidth=0.7, linestyle=(0, (1, 3)))
        shown.append(chance)
    text = f"{'' if is_near else '↓ '}chance  {scale.write(chance)}"
    axes.set_ylim(*scale.limits(shown))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda score, _: scale.tick(score)))
    write_end_labels(axes, [*ends, EndLabel(text=text, colour=FAINT, x=right, y=chance)])


def _tick_subsets(axes: Axes, subsets: Sequence[int], span: float) -> None:
    """Put a tick at every subset, with its number where there is room."""
    axes.xaxis.set_major_locator(FixedLocator(list(subsets)))
    axes.xaxis.set_minor_locator(NullLocator())
    named: list[int] = []
    for labels in reversed(subsets):
        if not named or math.log(named[-1] / labels) > 0.07 * span:
            named.append(labels)
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: count(round(value)) if round(value) in named else "")
    )


def _draw_difference(
    axes: Axes, y: float, row: Difference, colours: dict[str, str], scale: Scale
) -> str:
    """Draw one row in the second arm's colour, hollow without a difference; return its name."""
    colour, interval = colours[row.second], row.interval
    axes.plot([interval.low, interval.high], [y, y], color=colour, linewidth=1.5)
    fill = "white" if row.outcome == "none" else colour
    axes.plot([interval.mean], [y], "o", color=colour, markerfacecolor=fill, markersize=5.5)
    limits = scale.gain_range(interval.low, interval.high)
    axes.annotate(
        f"{scale.write_gain(interval.mean)}  ({limits})",
        (1.02, y),
        xycoords=("axes fraction", "data"),
        va="center",
        annotation_clip=False,
    )
    return f"{shorten(row.first, 20)} − {shorten(row.second, 20)}"


def _write_left(axes: Axes, y: float, text: str, weight: str = "normal") -> None:
    axes.annotate(
        text,
        (-0.02, y),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="center",
        weight=weight,
        annotation_clip=False,
    )


def arm_colours(arms: Sequence[Arm]) -> dict[str, str]:
    """Return the colour of each arm, the same in every figure and table."""
    numbers = {kind: itertools.count() for kind in SHADES}
    return {
        arm.name: SHADES[arm.kind][next(numbers[arm.kind]) % len(SHADES[arm.kind])] for arm in arms
    }
