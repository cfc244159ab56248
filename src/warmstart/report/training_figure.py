"""What a page or a notebook shows of a training: its losses by step, and its scores."""

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


@styled
def draw_training(metrics: Sequence[Mapping[str, float]]) -> Figure:
    """Draw the losses in the lines of a metrics.jsonl, in nats per token."""
    figure, axes = new_axes(height=0.85 * HEIGHT)
    steps, losses = _finite(metrics, "train_loss")
    valid_steps, valid_losses = _finite(metrics, "valid_loss")
    smooth = smooth_losses(losses)
    colour, dark = SHADES["warm"][0], SHADES["cold"][2]
    axes.plot(steps, losses, color=colour, alpha=0.25, linewidth=0.7)
    axes.plot(steps, smooth, color=colour, label="training, smoothed")
    marks: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 0.9}
    axes.plot(valid_steps, valid_losses, color=dark, label="validation", **marks)
    _fit_losses(axes, [*smooth, *valid_losses])
    axes.set_xlabel("step")
    axes.set_ylabel("loss, nats per token")
    axes.set_title("Loss by step")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    if steps or valid_steps:
        axes.legend(frameon=False, loc="upper right")
    _add_perplexity(axes)
    return figure


def _finite(metrics: Sequence[Mapping[str, float]], name: str) -> tuple[list[int], list[float]]:
    """Return the steps at which a loss is finite, and the losses."""
    lines = [line for line in metrics if math.isfinite(line.get(name, math.nan))]
    return [int(line["step"]) for line in lines], [line[name] for line in lines]


def smooth_losses(losses: Sequence[float]) -> list[float]:
    """Return means over a centred window of a fiftieth of the curve, narrower towards both ends."""
    sums = np.concatenate([[0.0], np.cumsum(losses)])
    steps, last = np.arange(len(losses)), len(losses) - 1
    half = np.minimum(np.minimum(steps, last - steps), len(losses) // 100)
    means = (sums[steps + half + 1] - sums[steps - half]) / (2 * half + 1)
    return [float(mean) for mean in means]


def _fit_losses(axes: Axes, values: Sequence[float]) -> None:
    """Fit the y axis to the smoothed losses, so that single outliers do not flatten the curve."""
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
        yield figure(draw_training(metrics), f"Loss of {run.name} by step.")


def score_table(scores: Mapping[str, Any]) -> Markup:
    """Return the numbers among the scores as a table."""
    numbers = {name: value for name, value in scores.items() if isinstance(value, int | float)}
    return table(("score", ""), [(name, f"{value:,.4g}") for name, value in numbers.items()])
