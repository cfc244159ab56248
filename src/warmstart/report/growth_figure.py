"""How the cost of layers grows with length, width or kernel: figure, table and page."""

from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from warmstart.report.html import Section, bullets, figure, soft, table
from warmstart.report.style import INK, EndLabel, styled, write_end_labels
from warmstart.results.growth import LETTERS, Axis, Crossing, Growth

DOTTED = (0, (2, 2))
BAND = 0.18  # opacity of the spread
COLOURS = ("#d5521c", "#efa02b", "#2166ac", "#2a9d8f")
LABELS: dict[Axis, str] = {
    "length": "length in tokens",
    "width": "width",
    "kernel": "positions a convolution sees",
}


@styled
def draw_growth(layers: Sequence[Growth], axis: Axis, title: str) -> Figure:
    """Draw time and memory against what varies, with the theoretical slope of the time."""
    drawing = Figure(figsize=(7.4, 6.4), layout="constrained")
    above, below = drawing.subplots(2, 1, sharex=True)
    _draw(above, layers, axis, "time_s", "forward + backward, seconds")
    _draw(below, layers, axis, "memory_bytes", "memory, bytes")
    below.set_xlabel(LABELS[axis])
    above.set_title(title)
    drawing.legend(handles=_line_types(), loc="outside lower center", ncols=3, frameon=False)
    return drawing


def _line_types() -> list[Artist]:
    return [
        Line2D([], [], color=INK, marker="o", markersize=3.5, label="measured"),
        Patch(color=INK, alpha=BAND, linewidth=0, label="from the fastest to the slowest round"),
        Line2D([], [], color=INK, linestyle=DOTTED, linewidth=0.9, label="slope in theory"),
    ]


def _draw(axes: Axes, layers: Sequence[Growth], axis: Axis, what: str, label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    labels = []
    for growth, colour in zip(layers, COLOURS, strict=True):
        if not growth.points:
            continue
        sizes = np.array([point.size for point in growth.points], dtype=np.float64)
        values = np.array([getattr(point, what) for point in growth.points], dtype=np.float64)
        axes.plot(sizes, values, color=colour, marker="o", markersize=3.5)
        if what == "time_s":
            guide = values[-1] * (sizes / sizes[-1]) ** growth.power
            axes.plot(sizes, guide, color=colour, linewidth=0.9, linestyle=DOTTED, alpha=0.7)
            fastest = [point.fastest_s for point in growth.points]
            slowest = [point.slowest_s for point in growth.points]
            axes.fill_between(sizes, fastest, slowest, color=colour, alpha=BAND, linewidth=0)
        power = growth.time_exponent if what == "time_s" else growth.memory_exponent
        text = (
            growth.name if power is None else f"{growth.name}: {LETTERS[axis]}^{_exponent(power)}"
        )
        labels.append(EndLabel(text=text, colour=colour, x=sizes[-1], y=values[-1]))
    costs = [getattr(p, what) for growth in layers for p in growth.points]
    axes.set_ylim(min(costs) / 1.6, max(costs) * 1.6)
    ticks = sorted({point.size for growth in layers for point in growth.points})
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.minorticks_off()
    axes.set_ylabel(label)
    write_end_labels(axes, labels, share=0.5)


def growth_headers(axis: Axis) -> tuple[str, ...]:
    """Return the names of the columns of `growth_rows`."""
    letter = LETTERS[axis]
    fitted = (f"time {letter}^", f"memory {letter}^")
    return ("layer", "theory", *fitted, f"largest {letter}", "time", "memory")


def growth_rows(layers: Sequence[Growth]) -> list[tuple[str, ...]]:
    """Return a row for each layer under `growth_headers`; costs are those at its largest size."""
    return [
        (
            growth.name,
            growth.formula,
            _exponent(growth.time_exponent),
            _exponent(growth.memory_exponent),
            f"{growth.points[-1].size:,}" if growth.points else "–",
            _time(growth.points[-1].time_s) if growth.points else "–",
            _memory(growth.points[-1].memory_bytes) if growth.points else "–",
        )
        for growth in layers
    ]


def _exponent(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}"  # no minus before a zero


def _time(seconds: float) -> str:
    return _rounded(seconds, "s") if seconds >= 1 else _rounded(1e3 * seconds, "ms")


def _memory(size: int) -> str:
    return _rounded(size / 2**30, "GiB") if size >= 2**30 else _rounded(size / 2**20, "MiB")


def _rounded(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def growth_sections(
    layers: Sequence[Growth],
    axis: Axis,
    crossings: Sequence[Crossing],
    title: str,
    notes: Sequence[str],
) -> list[Section]:
    """Return the sections of a page about growth."""
    caption = (
        "Both axes are logarithmic. Solid lines are measured, with a band from the fastest to the"
        " slowest round; dotted lines show the theoretical slope through the largest size. The"
        " exponent beside a name is fitted to the largest sizes."
    )
    sizes = sorted({p.size for growth in layers for p in growth.points})
    times = [{p.size: p.time_s for p in growth.points} for growth in layers]
    rows = [(f"{n:,}", *(f"{1e3 * t[n]:,.2f}" if n in t else "–" for t in times)) for n in sizes]
    measured = [
        figure(draw_growth(layers, axis, title), caption),
        table(growth_headers(axis), growth_rows(layers), left=[1]),
        *map(soft, notes),
    ]
    where = Section(title="Where they cross", pieces=[bullets(c.sentence for c in crossings)])
    return [
        Section(title=f"Growth with {axis}", pieces=measured),
        *([where] if crossings else []),
        Section(
            title="Times in milliseconds",
            pieces=[table((axis, *(growth.name for growth in layers)), rows)],
        ),
    ]
