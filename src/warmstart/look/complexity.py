"""How the cost of self-attention, recurrence and convolution grows."""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor, nn

from warmstart import progress
from warmstart.formats import counted
from warmstart.look.commands import LookComplexityConfig
from warmstart.model.attention import MultiHeadAttention, attention_weights
from warmstart.report.html import Shown, bullets, save_image, show_file, table
from warmstart.report.style import INK, EndLabel, styled, write_end_labels
from warmstart.runtime import Runtime, choose_runtime, free_memory, num_cores

Axis = Literal["length", "width", "kernel"]


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


Evidence = Literal["measured", "extrapolated", "slower throughout", "never"]


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


@dataclass(frozen=True)
class ComplexityResult(Shown):
    """How the cost of layers grows with what varies."""

    out: Path | None
    device: str
    axis: Axis
    length: int  # these three where they do not vary
    width: int
    kernel: int
    layers: tuple[Growth, ...]
    crossings: tuple[Crossing, ...]
    spread: float  # slowest to fastest round of a pass, median
    memory: str  # what the memory figures count
    warning: str | None  # if other work disturbed the measurement

    def pieces(self) -> list[str]:
        figures = [] if self.out is None else [show_file(self.out)]
        rows = table(growth_headers(self.axis), growth_rows(self.layers), left=[1])
        return [*figures, rows, bullets(crossing.sentence for crossing in self.crossings)]


def look_complexity(config: LookComplexityConfig) -> ComplexityResult:
    """Measure how attention, recurrence and convolution grow with length, width or kernel here."""
    runtime = choose_runtime(config.device, config.precision, config.threads)
    if runtime.device.type == "cpu" and config.precision == "auto":
        runtime = Runtime(runtime.device)  # in bf16 a CPU computes short rows differently
    sweep = _sweep(config, runtime.device.type)
    load = os.getloadavg()[0]
    growths, crossings = measure_growth(sweep, config.seconds, runtime)
    warning = busy_warning(growths, load, num_cores())
    memory = describe_memory(runtime.device)
    device = describe_device(runtime)
    out = None
    if config.out is not None:
        title = f"How {_fixed(sweep)} grows with {sweep.axis} on {device}"
        out = save_image(draw_growth(growths, sweep.axis, title), Path(config.out))
    return ComplexityResult(
        out=out,
        device=device,
        axis=sweep.axis,
        length=sweep.length,
        width=sweep.settings.width,
        kernel=sweep.settings.kernel,
        layers=tuple(growths),
        crossings=tuple(crossings),
        spread=spread_of(growths),
        memory=memory,
        warning=warning,
    )


@dataclass(frozen=True)
class LayerSettings:
    """The settings of the layers to compare."""

    width: int
    kernel: int  # positions that a convolution sees
    recurrence: str  # gru or lstm


@dataclass(frozen=True)
class Sweep:
    """What varies from measurement to measurement, and what stays."""

    axis: Axis
    sizes: tuple[int, ...]  # rising
    length: int  # in tokens, where it stays
    settings: LayerSettings

    def at(self, size: int) -> tuple[int, LayerSettings]:
        """Return length and settings of one measurement."""
        if self.axis == "length":
            return size, self.settings
        if self.axis == "width":
            return self.length, replace(self.settings, width=size)
        return self.length, replace(self.settings, kernel=size)


def _sweep(config: LookComplexityConfig, device: str) -> Sweep:
    """Return what varies: what has several values, or else the length."""
    widths = config.widths or (WIDTHS[device],)
    settings = LayerSettings(widths[0], config.kernels[0], config.recurrence)
    length = config.lengths[0] if config.lengths else FIXED_LENGTHS[device]
    varied: dict[Axis, tuple[int, ...]] = {"width": widths, "kernel": config.kernels}
    for axis, sizes in varied.items():
        if len(sizes) > 1:
            return Sweep(axis, tuple(sorted(set(sizes))), length, settings)
    lengths = config.lengths or LENGTHS[device]
    return Sweep("length", tuple(sorted(set(lengths))), length, settings)


def _fixed(sweep: Sweep) -> str:
    if sweep.axis == "length":
        return f"one layer of width {sweep.settings.width}"
    width = f" of width {sweep.settings.width}" if sweep.axis == "kernel" else ""
    return f"one layer{width} over {sweep.length:,} tokens"


# Long and wide enough that the work takes longer than starting it.
LENGTHS = {"cpu": tuple(2**n for n in range(7, 14)), "cuda": tuple(2**n for n in range(10, 19))}
WIDTHS = {"cpu": 64, "cuda": 512}
FIXED_LENGTHS = {"cpu": 512, "cuda": 4096}  # while width or kernel varies
MIN_ROUNDS, MAX_ROUNDS = 3, 25
SHORTEST_S = 0.02  # a shorter pass is repeated until its time is reliable
ARRAYS = 6  # of n × n numbers, alive at once in plain attention and its backward pass
BUSY_LOAD = 0.5  # for each core, from which a machine counts as busy
BUSY_SPREAD = 1.5  # between the slowest and the fastest round, median over all passes
MEMORY_SHARE = 0.5  # of the free memory, for one measurement


@dataclass(frozen=True)
class LayerType:
    """One kind of layer, and its cost in theory."""

    name: str
    formula: str  # multiply-adds that grow with length, as the 2017 paper writes them
    powers: dict[Axis, int]  # of each quantity in the formula
    build: Callable[[], nn.Module]
    operations: Callable[[int], int]  # multiply-adds of a forward pass, by length
    numbers_per_pair: int = 0  # stored for every pair of positions


@dataclass
class TimedLayer:
    """One layer at one size, and its times so far."""

    layer_type: LayerType
    size: int  # of what varies
    layer: nn.Module
    x: Tensor  # (1, n, D)
    memory_bytes: int
    first_s: float
    times: list[float] = field(default_factory=list)


def measure_growth(
    sweep: Sweep, seconds: float, runtime: Runtime
) -> tuple[list[Growth], list[Crossing]]:
    """Measure every layer at every size, within about `seconds`; only lengths have crossings."""
    kinds = {size: layer_types(sweep.at(size)[1]) for size in sweep.sizes}
    names = [kind.name for kind in kinds[sweep.sizes[0]]]
    layers: list[TimedLayer] = []
    budget_s = seconds / len(names) / (1 + MIN_ROUNDS)  # for one pass of a layer at each size
    with progress.bar("first passes", len(names) * len(kinds), "layer") as bar:
        for number, name in enumerate(names):
            types = [kinds[size][number] for size in sweep.sizes]
            for layer in _first_passes(types, sweep, budget_s, runtime):
                layers.append(layer)
                bar.advance(1, f"{name}, {sweep.axis} {layer.size:,}")
    _time_rounds(layers, time.monotonic() + seconds - sum(x.first_s for x in layers), runtime)
    growths = [
        _growth(kind, sweep.axis, [x for x in layers if x.layer_type.name == kind.name])
        for kind in kinds[sweep.sizes[0]]
    ]
    if sweep.axis != "length":
        return growths, []
    return growths, crossings_of(growths, sweep.settings.width, sweep.settings.kernel)


def _first_passes(
    types: Sequence[LayerType], sweep: Sweep, budget_s: float, runtime: Runtime
) -> Iterator[TimedLayer]:
    """Run a layer, built for each size, once at each size that memory and time allow."""
    last_s = spent_s = 0.0
    for index, (layer_type, size) in enumerate(zip(types, sweep.sizes, strict=True)):
        length, settings = sweep.at(size)
        ratio = size / sweep.sizes[index - 1] if index else 1.0
        growth = ratio ** layer_type.powers[sweep.axis]
        free, reason = free_memory(runtime.device), ""
        if free and ARRAYS * 4 * layer_type.numbers_per_pair * length**2 > MEMORY_SHARE * free:
            reason = "which needs more memory"
        elif spent_s + growth * last_s > budget_s:
            reason = "for which there is no time: give more --seconds"
        if reason:
            progress.say(f"{layer_type.name}: stopped before {sweep.axis} {size:,}, {reason}")
            return
        torch.manual_seed(0)
        layer = layer_type.build().to(runtime.device)
        x = torch.randn(1, length, settings.width, device=runtime.device)
        if index == 0:
            _time_pass(layer, x, runtime)  # the first pass includes setting up
        with runtime.precision():
            memory = _peak_bytes(layer, x) if x.is_cuda else saved_bytes(layer, x)
        last_s = _time_pass(layer, x, runtime, shortest=0.0)
        spent_s += last_s
        yield TimedLayer(layer_type, size, layer, x, memory, last_s)


def _time_rounds(layers: Sequence[TimedLayer], ends: float, runtime: Runtime) -> None:
    """Time all layers in rounds, so that other work on the machine slows all of them alike."""
    with progress.bar("rounds", None, "round") as bar:
        for num_rounds in range(1, MAX_ROUNDS + 1):
            began = time.monotonic()
            for layer in layers:
                layer.times.append(_time_pass(layer.layer, layer.x, runtime))
            bar.advance(1)
            now = time.monotonic()
            if num_rounds >= MIN_ROUNDS and now + (now - began) > ends:
                return


def _growth(layer_type: LayerType, axis: Axis, layers: Sequence[TimedLayer]) -> Growth:
    points = tuple(
        LayerCost(
            size=layer.size,
            # Other work on the machine can only add time, so the slower half is left out.
            time_s=median(sorted(layer.times)[: -(-len(layer.times) // 2)]),
            fastest_s=min(layer.times),
            slowest_s=max(layer.times),
            memory_bytes=layer.memory_bytes,
            operations=layer.layer_type.operations(layer.x.shape[1]),
        )
        for layer in layers
    )
    return Growth(
        name=layer_type.name,
        formula=layer_type.formula,
        power=layer_type.powers[axis],
        points=points,
        time_exponent=exponent_of([(p.size, p.time_s) for p in points]),
        memory_exponent=exponent_of([(p.size, p.memory_bytes) for p in points]),
    )


def _step(layer: nn.Module, x: Tensor) -> None:
    layer(x).sum().backward()
    layer.zero_grad(set_to_none=True)


def _time_pass(
    layer: nn.Module, x: Tensor, runtime: Runtime, shortest: float = SHORTEST_S
) -> float:
    """Return the seconds of one pass; a short pass is repeated."""
    began, num_passes = time.perf_counter(), 0
    while True:
        with runtime.precision():
            _step(layer, x)
        num_passes += 1
        if x.is_cuda:
            torch.cuda.synchronize()
        elapsed_s = time.perf_counter() - began
        if elapsed_s > shortest:
            return elapsed_s / num_passes


def _peak_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return by how much one pass raises the CUDA allocator's peak."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    _step(layer, x)
    return torch.cuda.max_memory_allocated() - before


def saved_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return the bytes of the output and of the tensors saved for the backward pass.

    Parameters are not counted.
    """
    parameters = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}
    sizes: dict[int, int] = {}

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        output = layer(x)  # stays alive, so that no two tensors share an address
    save(output)
    return sum(sizes.values())


def busy_warning(layers: Sequence[Growth], load: float, num_cores: int) -> str | None:
    """Say that other work disturbed the measurement; `load` is that of the machine before it."""
    spread, signs = spread_of(layers), []
    if load > BUSY_LOAD * num_cores:
        signs.append(f"its load was {load:.1f} on {counted(num_cores, 'core')} before")
    if spread > BUSY_SPREAD:
        signs.append(f"the slowest round of a pass took {spread:.1f} times as long as the fastest")
    if not signs:
        return None
    return f"This machine was busy: {' and '.join(signs)}. Measure again when it is idle."


def describe_memory(device: torch.device) -> str:
    """Say what the memory figures count."""
    if device.type == "cuda":
        return "Memory: by how much a forward and backward pass raises the CUDA allocator's peak."
    return "Memory: the output, and the tensors saved in the forward pass for the backward pass."


def describe_device(runtime: Runtime) -> str:
    """Name the device that was measured, and its precision."""
    precision = "fp32" if runtime.dtype is None else "bf16"
    if runtime.device.type == "cuda":
        return f"{torch.cuda.get_device_name(runtime.device)}, {precision}"
    return f"the CPU with {counted(torch.get_num_threads(), 'thread')}, {precision}"


HEAD_WIDTH = 64  # of attention, if it divides the layer's width


class PlainAttention(nn.Module):
    """Self-attention as the formula is written: all weights are stored."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        split = self.project(x).unflatten(-1, (3, self.heads, -1))  # (B, T, 3, H, K)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mixed = attention_weights(q, k, None) @ v
        return self.output(mixed.transpose(1, 2).reshape(x.shape))


class Recurrence(nn.Module):
    """One recurrent layer, which reads from left to right."""

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        layer = nn.LSTM if kind == "lstm" else nn.GRU
        self.layer = layer(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Convolution(nn.Module):
    """One convolution over positions."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.layer = nn.Conv1d(width, width, kernel, padding=kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(1, 2)).transpose(1, 2)[:, : x.shape[1]]


def layer_types(settings: LayerSettings) -> list[LayerType]:
    """Return the layers to compare."""
    d, k, cell = settings.width, settings.kernel, settings.recurrence
    gates = {"gru": 3, "lstm": 4}[cell]
    heads = 1 if d % HEAD_WIDTH else d // HEAD_WIDTH

    def attention(n: int) -> int:
        return 4 * n * d * d + 2 * n * n * d

    def fused() -> nn.Module:
        return MultiHeadAttention(d, heads, 0.0, True)

    def plain() -> nn.Module:
        return PlainAttention(d, heads)

    def recurrence(n: int) -> int:
        return 2 * gates * n * d * d

    def convolution(n: int) -> int:
        return k * n * d * d

    return [
        LayerType("self-attention", "n²d", _powers(2, 1, 0), plain, attention, heads),
        LayerType("fused attention", "n²d", _powers(2, 1, 0), fused, attention),
        LayerType(cell.upper(), "nd²", _powers(1, 2, 0), lambda: Recurrence(d, cell), recurrence),
        LayerType("convolution", "knd²", _powers(1, 2, 1), lambda: Convolution(d, k), convolution),
    ]


def _powers(length: int, width: int, kernel: int) -> dict[Axis, int]:
    return {"length": length, "width": width, "kernel": kernel}


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


LARGE_END = 4  # exponents are fitted on sizes down to the largest divided by this
LETTERS: dict[Axis, str] = {"length": "n", "width": "d", "kernel": "k"}
STEEPER = 0.1  # difference of exponents from which extrapolated curves are said to meet


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
