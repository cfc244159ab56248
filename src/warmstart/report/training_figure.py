"""The loss of a training run as a figure: training loss, validation marks, perplexity."""

import math
from collections.abc import Sequence
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from warmstart.report.style import HEIGHT, SHADES, new_axes, styled

MAX_TICKS = 10


@styled
def draw_training(
    steps: Sequence[int],
    losses: Sequence[float],
    validation: Sequence[tuple[int, float]] = (),
) -> Figure:
    """Draw pretraining loss in nats per token, with (step, loss) marks from validation."""
    figure, axes = new_axes(height=0.85 * HEIGHT)
    pairs = [(s, loss) for s, loss in zip(steps, losses, strict=True) if math.isfinite(loss)]
    marks = [(step, loss) for step, loss in validation if math.isfinite(loss)]
    smooth = smoothed([loss for _, loss in pairs])
    colour, dark = SHADES["warm"][0], SHADES["cold"][2]
    axes.plot(*_columns(pairs), color=colour, alpha=0.25, linewidth=0.7)
    axes.plot([step for step, _ in pairs], smooth, color=colour, label="training, smoothed")
    axes.plot(
        *_columns(marks), color=dark, marker="o", markersize=4, linewidth=0.9, label="validation"
    )
    _fit_losses(axes, smooth + [loss for _, loss in marks])
    axes.set_xlabel("step")
    axes.set_ylabel("loss, nats per token")
    axes.set_title("Pretraining loss")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    if pairs or marks:
        axes.legend(frameon=False, loc="upper right")
    _add_perplexity(axes)
    return figure


def smoothed(losses: Sequence[float]) -> list[float]:
    """Return means over a centred window of a fiftieth of the curve, narrower towards both ends."""
    sums = list(accumulate(losses, initial=0.0))
    last = len(losses) - 1
    means = []
    for step in range(len(losses)):
        half = min(step, last - step, len(losses) // 100)
        means.append((sums[step + half + 1] - sums[step - half]) / (2 * half + 1))
    return means


def _columns(pairs: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


def _fit_losses(axes: Axes, values: Sequence[float]) -> None:
    """Fit the y axis to the smoothed curve, so that single outliers do not flatten it."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    pad = max(0.06 * (high - low), 0.02)
    axes.set_ylim(low - pad, high + pad)


def _add_perplexity(axes: Axes) -> None:
    """Add a right axis with perplexity at round values."""
    low, high = axes.get_ylim()
    twin = axes.twinx()
    twin.set_ylim(low, high)
    twin.grid(visible=False)
    twin.set_ylabel("perplexity")
    twin.yaxis.set_major_locator(
        FixedLocator([math.log(v) for v in _round_perplexities(low, high)])
    )
    twin.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: _write_perplexity(math.exp(value)))
    )


def _round_perplexities(low: float, high: float) -> list[float]:
    """Return round perplexities whose logarithms are between the limits, as many as fit."""
    powers = range(math.floor(low / math.log(10)), math.ceil(high / math.log(10)) + 1)
    for digits in (
        (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
        (1, 1.5, 2, 3, 5, 7),
        (1, 2, 5),
        (1,),
    ):
        values = [digit * 10.0**power for power in powers for digit in digits]
        inside = [value for value in values if low < math.log(value) < high]
        if len(inside) <= MAX_TICKS:
            break
    return (
        inside
        if len(inside) > 1
        else [math.exp(low + share * (high - low)) for share in (0.2, 0.8)]
    )


def _write_perplexity(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
