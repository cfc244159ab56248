"""How the cost of a layer grows with length, width or kernel: points, exponents, crossings."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

LARGE_END = 4  # exponents are fitted on sizes down to the largest divided by this
Axis = Literal["length", "width", "kernel"]
LETTERS: dict[Axis, str] = {"length": "n", "width": "d", "kernel": "k"}
Evidence = Literal["measured", "extrapolated", "slower throughout", "never"]
STEEPER = 0.1  # difference of exponents from which extrapolated curves are said to meet


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """One layer at one size."""

    size: int  # of what varies: length, width or kernel
    time_s: float  # forward and backward, median of the faster half of the rounds
    fastest_s: float  # round
    slowest_s: float
    memory_bytes: int
    operations: int  # multiply-adds of a forward pass, in theory


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How the cost of one layer grows."""

    name: str
    formula: str
    power: int  # of what varies, in the formula
    points: tuple[LayerCost, ...]
    time_exponent: float | None  # fitted on the largest sizes; None with a single size
    memory_exponent: float | None


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """The length from which the first layer is slower than the second."""

    first: str
    second: str
    length: float | None  # None: the curves do not meet
    how: Evidence
    theory: float  # where the leading terms meet

    @property
    def sentence(self) -> str:
        """Return the crossing as a sentence."""
        theory = f"the leading terms meet at {self.theory:,.0f}"
        if self.length is None:
            claim = "is slower at every length" if self.how != "never" else "never gets slower"
            return f"{self.first} {claim} than {self.second} here; {theory}."
        start = "from" if self.how == "measured" else "beyond the measured lengths, from about"
        return f"{self.first} is slower than {self.second} {start} {self.length:,.0f}; {theory}."


def spread_of(layers: Sequence[Growth]) -> float:
    """Return how many times longer the slowest round of a pass took than its fastest, median."""
    ratios = [p.slowest_s / p.fastest_s for growth in layers for p in growth.points]
    return float(np.median(ratios)) if ratios else 1.0


def exponent_of(points: Sequence[tuple[int, float]]) -> float | None:
    """Fit cost = c · sizeᵖ to the largest sizes and return p."""
    power_law = _fit(points)
    return None if power_law is None else power_law[0]


def _fit(points: Sequence[tuple[int, float]]) -> tuple[float, float] | None:
    """Return the exponent and the logarithm of the factor, fitted to the largest sizes."""
    largest = max((size for size, _ in points), default=0)
    used = [(n, cost) for n, cost in points if n * LARGE_END >= largest and cost > 0]
    if len(used) < 2:
        return None
    power, factor = np.polyfit(np.log([n for n, _ in used]), np.log([c for _, c in used]), 1)
    return float(power), float(factor)


def crossings_of(layers: Sequence[Growth], width: int, kernel: int) -> list[Crossing]:
    """Return where layers of quadratic cost become slower than layers of linear cost."""
    meeting = {"nd²": width, "knd²": kernel * width}
    quadratic = [growth for growth in layers if growth.power == 2 and growth.points]
    linear = [growth for growth in layers if growth.power == 1 and growth.points]
    return [_crossing(a, b, float(meeting[b.formula])) for a in quadratic for b in linear]


def _crossing(first: Growth, second: Growth, theory: float) -> Crossing:
    a = {p.size: p.time_s for p in first.points}
    b = {p.size: p.time_s for p in second.points}
    lengths = sorted(set(a) & set(b))
    gaps = [math.log(a[n] / b[n]) for n in lengths]  # above 0: the first is slower
    is_slower = [gap > 0 for gap in gaps]
    length: float | None = None
    how: Evidence = "never"
    if is_slower and all(is_slower):
        how = "slower throughout"
    elif is_slower and is_slower[-1]:
        last = max(i for i, slower in enumerate(is_slower) if not slower)
        share = gaps[last] / (gaps[last] - gaps[last + 1])
        low, high = math.log(lengths[last]), math.log(lengths[last + 1])
        length, how = math.exp(low + share * (high - low)), "measured"
    else:
        fit_a, fit_b = _fit(list(a.items())), _fit(list(b.items()))
        if fit_a and fit_b and fit_a[0] > fit_b[0] + STEEPER:
            length = math.exp((fit_b[1] - fit_a[1]) / (fit_a[0] - fit_b[0]))
            how = "extrapolated"
    return Crossing(first=first.name, second=second.name, length=length, how=how, theory=theory)
