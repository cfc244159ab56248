"""Models without one of their parts: curves side by side, a table, and what they write."""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from warmstart.formats import percent
from warmstart.report.html import Section, bullets, figure, table
from warmstart.report.style import INK, WIDTH, EndLabel, styled, write_end_labels
from warmstart.results.training_views import Variant

COLOURS = (INK, "#d5521c", "#2166ac", "#2a9d8f", "#efa02b", "#9a4f96", "#757575")
BAND = 0.15  # opacity of the range over seeds
HEADERS = ("model", "validation perplexity", "over seeds", "known word pairs", "over seeds")


@styled
def draw_ablations(variants: Sequence[Variant], title: str) -> Figure:
    """Draw perplexity by step and, for models that write, how well they write."""
    has_text = any(variant.known_pairs for variant in variants)
    drawing = Figure(figsize=(WIDTH + 1.4, 6.2 if has_text else 3.8), layout="constrained")
    grid = drawing.subplots(1 + has_text, 1, squeeze=False, height_ratios=[3, 2][: 1 + has_text])
    drawing.suptitle(title)
    _draw_losses(grid[0][0], variants, share=0.6 if has_text else 1.0)
    if has_text:
        _draw_pairs(grid[1][0], variants)
    return drawing


def _draw_losses(axes: Axes, variants: Sequence[Variant], share: float) -> None:
    axes.set_yscale("log")
    labels, drawn = [], []
    for variant, colour in zip(variants, COLOURS, strict=False):
        if not variant.finished:
            continue
        steps = variant.finished[0].steps
        values = np.exp([training.losses for training in variant.finished])  # (seeds, steps)
        means = values.mean(0)
        drawn += [*values.flatten()]
        axes.fill_between(steps, values.min(0), values.max(0), color=colour, alpha=BAND, lw=0)
        axes.plot(steps, means, color=colour, marker="o", markersize=3)
        labels.append(EndLabel(text=variant.name, colour=colour, x=steps[-1], y=means[-1]))
    axes.set_xlabel("training steps")
    axes.set_ylabel("validation perplexity")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    if drawn:  # limits decide where labels stand
        axes.set_ylim(min(drawn) / 1.3, max(drawn) * 1.3)
        axes.set_xlim(0, max(label.x for label in labels))
        write_end_labels(axes, labels, share)


def _draw_pairs(axes: Axes, variants: Sequence[Variant]) -> None:
    """Draw one dot for each seed and a line at their mean."""
    written = [
        (variant, colour)
        for variant, colour in zip(variants, COLOURS, strict=False)
        if variant.known_pairs
    ]
    for row, (variant, colour) in enumerate(written):
        shares = variant.known_pairs
        axes.plot(shares, [row] * len(shares), "o", color=colour, markersize=4, alpha=0.6)
        axes.plot([fmean(shares)] * 2, [row - 0.3, row + 0.3], color=colour, linewidth=2)
    axes.set_yticks(range(len(written)), [variant.name for variant, _ in written])
    axes.invert_yaxis()
    axes.set_xlim(-0.03, 1.03)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f}%")
    axes.set_xlabel("word pairs in generated text that also occur in the training text")


def ablation_rows(variants: Sequence[Variant]) -> list[tuple[str, ...]]:
    """Return a row for each variant under `HEADERS`."""
    return [
        (
            variant.name,
            *_mean_and_range(variant.perplexities, "{:,.1f}".format),
            *_mean_and_range(variant.known_pairs, percent),
        )
        for variant in variants
    ]


def _mean_and_range(values: Sequence[float], show: Callable[[float], str]) -> tuple[str, str]:
    if not values:
        return "–", "–"
    return show(fmean(values)), f"{show(min(values))} to {show(max(values))}"


def failures(variants: Sequence[Variant]) -> list[str]:
    """Return one sentence for each training that ended early."""
    return [
        f"{variant.name}, seed {training.seed}: {training.failure}"
        for variant in variants
        for training in variant.trainings
        if training.failure
    ]


def ablation_sections(variants: Sequence[Variant], title: str) -> list[Section]:
    """Return the sections of a page about parts left out."""
    caption = (
        "Above: perplexity on validation text; line: mean over seeds, band: lowest to highest."
        " Below: share of neighbouring words in generated text that the training text has too; each"
        " dot is a seed. All models but the whole one are broken on purpose."
    )
    measured = [
        figure(draw_ablations(variants, title), caption),
        table(HEADERS, ablation_rows(variants)),
        bullets(failures(variants)),
    ]
    texts = [
        (variant.name, variant.finished[0].written)
        for variant in variants
        if variant.finished and variant.finished[0].written
    ]
    sections = [Section(title="Without one part", pieces=measured)]
    if texts:
        sections.append(
            Section(title="What they write", pieces=[table(("model", "text"), texts, left=[1])])
        )
    return sections
