"""Growth with length: exponents, crossing points, and their picture.

Knows nothing about how the figures were measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warmstart.report.markup import Section, bullets, figure, paragraph, table
from warmstart.report.style import EndLabel, spread_out, styled

COLOURS = ("#d5521c", "#efa02b", "#2166ac", "#2a9d8f")
LONG_END = 4  # exponents are fitted on lengths down to the longest divided by this


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One layer at one length."""

    length: int
    time_s: float  # forward and backward, median
    memory_bytes: int
    operations: int  # multiply-adds of a forward pass, in theory


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How one layer's cost grows with length."""

    name: str
    formula: str
    power: int  # of the length in the formula
    points: tuple[Measured, ...]
    time_exponent: float | None  # over the long end; None with one length alone
    memory_exponent: float | None


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """From which length on the first layer is slower than the second."""

    first: str
    second: str
    length: float | None  # None: the curves do not meet
    how: Literal["measured", "extrapolated", "slower throughout", "never"]
    theory: float  # where the leading terms meet

    @property
    def sentence(self) -> str:
        """Say it in words."""
        theory = f"the leading terms meet at {self.theory:,.0f}"
        if self.length is None:
            word = "is slower at every length" if self.how != "never" else "never gets slower"
            return f"{self.first} {word} than {self.second} here; {theory}."
        about = "from" if self.how == "measured" else "beyond what was measured, from about"
        return f"{self.first} is slower than {self.second} {about} {self.length:,.0f}; {theory}."


def exponent_of(points: Sequence[tuple[int, float]]) -> float | None:
    """Fit cost = c · lengthᵖ over the long end and return p."""
    fitted = _fit(points)
    return None if fitted is None else fitted[0]


def _fit(points: Sequence[tuple[int, float]]) -> tuple[float, float] | None:
    """Return power and logarithm of the factor, over the long end."""
    longest = max((length for length, _ in points), default=0)
    long = [(n, cost) for n, cost in points if n * LONG_END >= longest and cost > 0]
    if len(long) < 2:
        return None
    power, factor = np.polyfit(np.log([n for n, _ in long]), np.log([c for _, c in long]), 1)
    return float(power), float(factor)


def crossings_of(grown: Sequence[Growth], width: int, kernel: int) -> list[Crossing]:
    """Return where layers that grow with the square of the length overtake the others."""
    meeting = {"nd²": width, "knd²": kernel * width}
    squares = [growth for growth in grown if growth.power == 2 and growth.points]
    lines = [growth for growth in grown if growth.power == 1 and growth.points]
    return [_crossing(a, b, float(meeting[b.formula])) for a in squares for b in lines]


def _crossing(first: Growth, second: Growth, theory: float) -> Crossing:
    a = {p.length: p.time_s for p in first.points}
    b = {p.length: p.time_s for p in second.points}
    shared = sorted(set(a) & set(b))
    gaps = [math.log(a[n] / b[n]) for n in shared]  # above 0: the first is slower
    length: float | None = None
    how: Literal["measured", "extrapolated", "slower throughout", "never"] = "never"
    signs = [gap > 0 for gap in gaps]
    if signs and all(signs):
        how = "slower throughout"
    elif signs and signs[-1]:
        place = max(i for i, sign in enumerate(signs) if not sign)  # behind it, always slower
        share = gaps[place] / (gaps[place] - gaps[place + 1])
        low, high = math.log(shared[place]), math.log(shared[place + 1])
        length, how = math.exp(low + share * (high - low)), "measured"
    else:
        fits = _fit(list(a.items())), _fit(list(b.items()))
        if fits[0] and fits[1] and fits[0][0] > fits[1][0] + 0.1:
            length = math.exp((fits[1][1] - fits[0][1]) / (fits[0][0] - fits[1][0]))
            how = "extrapolated"
    return Crossing(first=first.name, second=second.name, length=length, how=how, theory=theory)


@styled
def draw_growth(grown: Sequence[Growth], title: str) -> Figure:
    """Draw time and memory against length, with the slope of theory beside each line."""
    drawing = Figure(figsize=(7.4, 6.4), layout="constrained")
    above, below = drawing.subplots(2, 1, sharex=True)
    _draw(above, grown, "time_s", "forward + backward, seconds")
    _draw(below, grown, "memory_bytes", "memory, bytes")
    below.set_xlabel("length in tokens")
    above.set_title(title)
    return drawing


def _draw(axes: Axes, grown: Sequence[Growth], what: str, label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    labels = []
    for growth, colour in zip(grown, COLOURS, strict=True):
        if not growth.points:
            continue
        lengths = np.array([point.length for point in growth.points], dtype=np.float64)
        costs = np.array([getattr(point, what) for point in growth.points], dtype=np.float64)
        axes.plot(lengths, costs, color=colour, marker="o", markersize=3.5)
        if what == "time_s":
            guide = costs[-1] * (lengths / lengths[-1]) ** growth.power
            axes.plot(lengths, guide, color=colour, linewidth=0.9, linestyle=(0, (2, 2)), alpha=0.7)
        power = growth.time_exponent if what == "time_s" else growth.memory_exponent
        text = growth.name if power is None else f"{growth.name}: n^{power:.2f}"
        labels.append(EndLabel(text=text, colour=colour, x=lengths[-1], y=costs[-1]))
    everything = [getattr(p, what) for growth in grown for p in growth.points]
    axes.set_ylim(min(everything) / 1.6, max(everything) * 1.6)
    ticks = sorted({point.length for growth in grown for point in growth.points})
    axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
    axes.minorticks_off()
    axes.set_ylabel(label)
    _write_names(axes, labels)


def _write_names(axes: Axes, labels: Sequence[EndLabel]) -> None:
    """Name lines beside the right edge of a logarithmic axis, moved apart where they overlap."""
    low, high = (math.log10(limit) for limit in axes.get_ylim())
    heights = [(math.log10(label.y) - low) / (high - low) for label in labels]
    for label, end in zip(labels, spread_out(heights, 0.085, 0, 1), strict=True):
        axes.annotate(
            label.text,
            (label.x, label.y),
            (1.035, end),
            xycoords="data",
            textcoords="axes fraction",
            va="center",
            color=label.colour,
            arrowprops={"arrowstyle": "-", "color": label.colour, "lw": 0.6, "alpha": 0.6},
        )


def growth_rows(grown: Sequence[Growth]) -> list[tuple[str, ...]]:
    """Return one row a layer: theory, exponents, and the cost at its longest."""
    return [
        (
            growth.name,
            growth.formula,
            _power(growth.time_exponent),
            _power(growth.memory_exponent),
            f"{growth.points[-1].length:,}" if growth.points else "–",
            _time(growth.points[-1].time_s) if growth.points else "–",
            _memory(growth.points[-1].memory_bytes) if growth.points else "–",
        )
        for growth in grown
    ]


HEADERS = ("layer", "theory", "time n^", "memory n^", "longest", "time", "memory")


def _time(seconds: float) -> str:
    return _rounded(seconds, "s") if seconds >= 1 else _rounded(1e3 * seconds, "ms")


def _memory(size: int) -> str:
    return _rounded(size / 2**30, "GiB") if size >= 2**30 else _rounded(size / 2**20, "MiB")


def _rounded(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def _power(exponent: float | None) -> str:
    return "–" if exponent is None else f"{exponent:.2f}"


def growth_sections(
    grown: Sequence[Growth], crossings: Sequence[Crossing], title: str, notes: Sequence[str]
) -> list[Section]:
    """Return the sections of a page about growth with length."""
    caption = (
        "Both axes are logarithmic. Solid: measured. Dotted: the slope of theory through the"
        " longest length. The exponent beside a name is fitted over the longest lengths."
    )
    lengths = sorted({p.length for growth in grown for p in growth.points})
    times = [{p.length: p.time_s for p in growth.points} for growth in grown]
    rows = [(f"{n:,}", *(f"{1e3 * t[n]:,.2f}" if n in t else "–" for t in times)) for n in lengths]
    measured = [
        figure(draw_growth(grown, title), caption),
        table(HEADERS, growth_rows(grown), "llrrrrr"),
        *(paragraph(note, css="soft") for note in notes),
    ]
    return [
        Section(title="Growth with length", pieces=measured),
        Section(title="Where they cross", pieces=[bullets(c.sentence for c in crossings)]),
        Section(
            title="Times in milliseconds",
            pieces=[table(("length", *(growth.name for growth in grown)), rows)],
        ),
    ]
