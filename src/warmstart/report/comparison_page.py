"""The report of a comparison: the verdict first, then the results, then the data and settings."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from warmstart.report.attention_figure import draw_layers
from warmstart.report.comparison_figures import draw_differences, draw_epochs, draw_labels
from warmstart.report.html import Section, render_block, write_page
from warmstart.report.style import arm_colours
from warmstart.results.attention_weights import AttentionMap, readable
from warmstart.results.comparison import AttentionExample, Comparison, Contrast
from warmstart.results.summary import Summary

MAX_DIFFERENCES = 30  # a figure with more rows shows the largest subset only
MAX_EPOCHS = 10  # columns of a table by epoch
SHOWN = 10  # disagreements of each kind that are visible at once
FOLDED = 100  # and that open with a click
MAX_CHARS = 400  # of a text that is shown
DARKEST = 0.65  # shade of the word with the most attention


def write_comparison_page(
    comparison: Comparison,
    summary: Summary,
    path: Path,
    contrast: Contrast | None = None,
    attention: AttentionExample | None = None,
) -> Path:
    """Write the report of a comparison."""
    sections = comparison_sections(comparison, summary, contrast, attention)
    return write_page(comparison.title, [*sections, reading_section(comparison)], path)


def comparison_sections(
    comparison: Comparison,
    summary: Summary,
    contrast: Contrast | None = None,
    attention: AttentionExample | None = None,
) -> list[Section]:
    """Return every section of the report, the verdict first, without the explanations."""
    values = _values(comparison, summary)

    def section(title: str, block: str, **drawn: object) -> Section:
        return _section(title, block, {**values, **drawn})

    subsets = [_epochs(comparison, summary, n) for n in reversed(comparison.subsets)]
    sections = [
        section("Verdict", "verdict"),
        section("Accuracy by epoch", "epochs", subsets=subsets),
        section("The arms", "arms"),
    ]
    has_figure = len(comparison.subsets) > 1
    if has_figure or summary.saved_over_best:
        drawing = draw_labels(comparison, summary) if has_figure else None
        sections.append(section("Accuracy by number of labels", "labels", drawing=drawing))
    if summary.differences:
        is_long = len(summary.differences) > MAX_DIFFERENCES
        subset = comparison.subsets[-1] if is_long else None
        drawing = draw_differences(comparison, summary, subset)
        sections.append(section("Paired differences", "differences", drawing=drawing))
    if contrast is not None:
        sections.append(contrast_section(contrast))
    if attention is not None:
        sections.append(attention_section(attention))
    return [
        *sections,
        section("Tuning", "tuning"),
        section("Class balance", "classes"),
        section("Shared texts", "shared"),
        section("Settings", "settings"),
    ]


def _section(title: str, block: str, values: Mapping[str, object]) -> Section:
    return Section(title=title, pieces=[render_block("comparison.html", block, values)])


def _values(comparison: Comparison, summary: Summary) -> dict[str, object]:
    """Return what every block of the template may refer to."""
    return {
        "comparison": comparison,
        "summary": summary,
        "labels": comparison.subsets[-1],
        "warm": comparison.arm_names("warm"),
        "colours": arm_colours(comparison.arms),
        "splits": () if comparison.num_folds else comparison.splits,
    }


def reading_section(comparison: Comparison) -> Section:
    """Explain the terms of the report."""
    return _section("How to read this page", "reading", {"comparison": comparison})


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


def attention_section(example: AttentionExample) -> Section:
    """Return the attention of several models on one text."""
    maps = {arm: attention.joined() for arm, attention in example.maps.items()}
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
