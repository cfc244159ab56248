"""The training of a model as figures: losses by step, and predictions at several moments."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from warmstart.formats import shorten
from warmstart.report.html import Section, figure, table
from warmstart.report.style import HEIGHT, INK, SHADES, new_axes, styled
from warmstart.results.training_views import Moment, TrainingMoments

PANEL, ROW = 1.75, 0.3  # inches


def draw_metrics(metrics: Sequence[Mapping[str, float]]) -> Figure:
    """Draw the losses that the lines of a metrics.jsonl have."""
    train = [line for line in metrics if "train_loss" in line]
    return draw_training(
        [int(line["step"]) for line in train],
        [line["train_loss"] for line in train],
        [(int(line["step"]), line["valid_loss"]) for line in metrics if "valid_loss" in line],
    )


@styled
def draw_training(
    steps: Sequence[int],
    losses: Sequence[float],
    validation: Sequence[tuple[int, float]] = (),
) -> Figure:
    """Draw loss in nats per token, with (step, loss) marks from validation."""
    figure, axes = new_axes(height=0.85 * HEIGHT)
    pairs = [(s, loss) for s, loss in zip(steps, losses, strict=True) if math.isfinite(loss)]
    marks = [(step, loss) for step, loss in validation if math.isfinite(loss)]
    smooth = smoothed([loss for _, loss in pairs])
    colour, dark = SHADES["warm"][0], SHADES["cold"][2]
    steps = [step for step, _ in pairs]
    axes.plot(steps, [loss for _, loss in pairs], color=colour, alpha=0.25, linewidth=0.7)
    axes.plot(steps, smooth, color=colour, label="training, smoothed")
    axes.plot(
        [step for step, _ in marks],
        [loss for _, loss in marks],
        color=dark,
        marker="o",
        markersize=4,
        linewidth=0.9,
        label="validation",
    )
    _fit_losses(axes, smooth + [loss for _, loss in marks])
    axes.set_xlabel("step")
    axes.set_ylabel("loss, nats per token")
    axes.set_title("Loss by step")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    if pairs or marks:
        axes.legend(frameon=False, loc="upper right")
    _add_perplexity(axes)
    return figure


def smoothed(losses: Sequence[float]) -> list[float]:
    """Return means over a centred window of a fiftieth of the curve, narrower towards both ends."""
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    steps, last = np.arange(len(losses)), len(losses) - 1
    half = np.minimum(np.minimum(steps, last - steps), len(losses) // 100)
    means = (sums[steps + half + 1] - sums[steps - half]) / (2 * half + 1)
    return [float(mean) for mean in means]


def _fit_losses(axes: Axes, values: Sequence[float]) -> None:
    """Fit the y axis to the smoothed curve, so that single outliers do not flatten it."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    pad = max(0.06 * (high - low), 0.02)
    axes.set_ylim(low - pad, high + pad)


def _add_perplexity(axes: Axes) -> None:
    """Add a logarithmic right axis with perplexity, the exponential of the loss."""
    twin = axes.twinx()
    twin.set_yscale("log")
    twin.set_ylim(*np.exp(axes.get_ylim()))
    twin.grid(visible=False)
    twin.set_ylabel("perplexity")
    twin.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    twin.yaxis.set_minor_locator(NullLocator())
    twin.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 100 else f"{value:.3g}")
    )


def moment_sections(moments: TrainingMoments) -> list[Section]:
    """Return the section of a page about one text."""
    caption = (
        "The most probable words at each moment, with their probabilities. A model with random"
        " weights finds all words nearly equally probable."
    )
    words = table(("moment", "words"), moment_rows(moments), left=[1])
    pieces = [f"{moments.sentence}.", figure(draw_moments(moments), caption), words]
    return [Section(title=f"“{shorten(moments.text, 80)}”", pieces=pieces)]


def moment_rows(moments: TrainingMoments) -> list[tuple[str, str]]:
    """Return each moment with its words."""

    def said(moment: Moment) -> str:
        return "; ".join(f"{word.word} {word.probability:.1%}" for word in moment.words)

    return [(moment.name, said(moment)) for moment in moments.moments]


@styled
def draw_moments(moments: TrainingMoments) -> Figure:
    """Draw a panel of bars for each moment."""
    columns = len(moments.moments)
    num_words = max(len(moment.words) for moment in moments.moments)
    size = (max(4.0, PANEL * columns), ROW * num_words + 1.1)
    drawing = Figure(figsize=size, layout="constrained")
    drawing.suptitle(f"{shorten(moments.run, 40)}: “{shorten(moments.text, 70)}”")
    highest = max(word.probability for moment in moments.moments for word in moment.words)
    grid = drawing.subplots(1, columns, squeeze=False)[0]
    for axes, moment in zip(grid, moments.moments, strict=True):
        _draw_moment(axes, moment, highest, is_last=moment is moments.moments[-1])
        axes.set_ylim(num_words - 0.4, -0.6)
    return drawing


def _draw_moment(axes: Axes, moment: Moment, highest: float, is_last: bool) -> None:
    shares = [word.probability for word in moment.words]
    colour = SHADES["warm"][0] if is_last else SHADES["cold"][1]
    axes.barh(range(len(shares)), shares, color=colour, height=0.78, alpha=0.55)
    for row, word in enumerate(moment.words):
        text = f"{shorten(word.word, 12)}  {word.probability:.1%}"
        axes.text(0.02 * highest, row, text, va="center", color=INK, fontsize=7.5)
    axes.set_title(moment.name)
    axes.set_xlim(0, 1.05 * highest)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
