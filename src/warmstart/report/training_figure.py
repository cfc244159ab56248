"""The training of a model as figures: losses by step, and predictions at several moments."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from warmstart.report.html import figure, table
from warmstart.report.style import HEIGHT, SHADES, new_axes, styled
from warmstart.runs.facts import read_metrics


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


def loss_curve(run: Path) -> Iterator[Markup]:
    """Yield the curve of a run's loss, if it recorded any."""
    metrics = read_metrics(run / "metrics.jsonl")
    if metrics:
        yield figure(draw_metrics(metrics), f"Loss of {run.name} by step.")


def score_table(scores: Mapping[str, Any]) -> Markup:
    """Return the numbers among the scores as a table."""
    numbers = {name: value for name, value in scores.items() if isinstance(value, int | float)}
    return table(("score", ""), [(name, f"{value:,.4g}") for name, value in numbers.items()])
