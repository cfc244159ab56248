"""How the cost of self-attention, recurrence and convolution grows with length and width.

Formulas as in table 1 of "Attention Is All You Need", beside measurements on this machine.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor, nn

from warmstart import progress
from warmstart.formats import quantity
from warmstart.look.commands import LookComplexityConfig
from warmstart.model.attention import AttentionContext, MultiHeadAttention, attention_weights
from warmstart.report.html import Drawn, Table
from warmstart.report.style import INK, EndLabel, save_image, styled, write_end_labels
from warmstart.runtime import Runtime, choose_runtime, free_memory

Axis = Literal["length", "width"]
Shape = tuple[int, int]  # length and width
LETTERS: dict[Axis, str] = {"length": "n", "width": "d"}
# Long and wide enough that the work takes longer than starting it.
LENGTHS = {"cpu": tuple(2**n for n in range(7, 14)), "cuda": tuple(2**n for n in range(10, 19))}
WIDTHS = {"cpu": 64, "cuda": 512}
FIXED_LENGTHS = {"cpu": 512, "cuda": 4096}  # while the width varies
HEAD_WIDTH = 64  # of attention, if it divides the layer's width
KERNEL = 3  # positions that the convolution sees
COLOURS = {"self-attention": "#d5521c", "recurrence": "#2166ac", "convolution": "#2a9d8f"}
MIN_ROUNDS, MAX_ROUNDS = 3, 25
SHORTEST_S = 0.02  # a shorter pass is repeated until its time is reliable
ARRAYS = 6  # of n × n numbers, alive at once in attention and its backward pass
MEMORY_SHARE = 0.5  # of the free memory, for one measurement
DOTTED = (0, (2, 2))
BAND = 0.18  # opacity of the spread


class SelfAttention(MultiHeadAttention):
    """The model's self-attention as the formula is written: all weights are stored."""

    def __init__(self, width: int) -> None:
        heads = 1 if width % HEAD_WIDTH else width // HEAD_WIDTH
        super().__init__(width, heads, dropout=0.0, biases=True)

    def forward(self, x: Tensor, context: AttentionContext | None = None) -> Tensor:
        q, k, v = self.queries_keys_values(x, context or AttentionContext())
        mixed = attention_weights(q, k, None) @ v  # (B, H, T, K)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Recurrence(nn.Module):
    """A GRU, which reads from left to right."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Convolution(nn.Module):
    """One convolution over positions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.transpose(1, 2)).transpose(1, 2)


@dataclass(frozen=True)
class LayerType:
    """One kind of layer, and its cost in theory."""

    name: str
    formula: str  # multiply-adds that grow with length, as the 2017 paper writes them
    powers: dict[Axis, int]  # exponents of length and width in the formula
    build: Callable[[int], nn.Module]  # by width


LAYER_TYPES = (
    LayerType("self-attention", "n²d", {"length": 2, "width": 1}, SelfAttention),
    LayerType("recurrence", "nd²", {"length": 1, "width": 2}, Recurrence),
    LayerType("convolution", "knd²", {"length": 1, "width": 2}, Convolution),
)


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The measured cost of one kind of layer: tuples have a value for each size."""

    name: str
    formula: str
    power: int  # exponent of what varies, in the formula
    sizes: tuple[int, ...]  # lengths or widths, whichever vary
    times_s: tuple[float, ...]  # forward and backward, median of the faster half of the rounds
    ranges_s: tuple[tuple[float, float], ...]  # the fastest and the slowest round
    memory_bytes: tuple[int, ...]  # the output, and what is saved for the backward pass
    time_exponent: float | None  # fitted on the largest sizes; None with a single size
    memory_exponent: float | None


@dataclass(frozen=True, kw_only=True)
class LayerGrowth(Drawn):
    """How the cost of every kind of layer grows on one machine."""

    title: str  # with the machine, and what does not vary
    axis: Axis  # what varies
    layers: tuple[Growth, ...]

    @styled
    def draw(self) -> Figure:
        """Draw time and memory against what varies, with the theoretical slope of the time."""
        drawing = Figure(figsize=(7.4, 6.4), layout="constrained")
        above, below = drawing.subplots(2, 1, sharex=True)
        above.set_title(self.title)
        above.set_ylabel("forward + backward, seconds")
        below.set_ylabel("memory, bytes")
        below.set_xlabel("length in tokens" if self.axis == "length" else "width")
        _draw_theory(above, self.layers)
        letter = LETTERS[self.axis]
        _draw_costs(above, [(x, x.times_s, x.time_exponent) for x in self.layers], letter)
        _draw_costs(below, [(x, x.memory_bytes, x.memory_exponent) for x in self.layers], letter)
        lines = [
            Line2D([], [], color=INK, marker="o", markersize=3.5, label="measured"),
            Patch(color=INK, alpha=BAND, lw=0, label="from the fastest to the slowest round"),
            Line2D([], [], color=INK, linestyle=DOTTED, linewidth=0.9, label="slope in theory"),
        ]
        drawing.legend(handles=lines, loc="outside lower center", ncols=3, frameon=False)
        return drawing

    def table(self) -> Table:
        """Return headers, and a row for each layer with its costs at its largest size."""
        n = LETTERS[self.axis]
        headers = ("layer", "cost", f"time {n}^", f"memory {n}^", f"largest {n}", "ms", "MiB")
        rows = [
            (
                layer.name,
                layer.formula,
                _exponent(layer.time_exponent),
                _exponent(layer.memory_exponent),
                f"{layer.sizes[-1]:,}",
                _number(1e3 * layer.times_s[-1]),
                _number(layer.memory_bytes[-1] / 2**20),
            )
            for layer in self.layers
        ]
        return headers, rows


def look_complexity(config: LookComplexityConfig) -> LayerGrowth:
    """Measure how attention, recurrence and convolution grow with length or width here."""
    runtime = choose_runtime(config.device, config.precision, config.threads)
    device = f"the CPU with {quantity(torch.get_num_threads(), 'thread')}"
    if runtime.device.type == "cuda":
        device = torch.cuda.get_device_name(runtime.device)
    elif config.precision == "auto":
        runtime = Runtime(runtime.device)  # in bf16 a CPU computes short rows differently
    axis, shapes = _shapes(config, runtime.kind)
    fixed = f"width {shapes[0][1]}" if axis == "length" else f"{shapes[0][0]:,} tokens"
    title = f"One layer, {fixed}, on {device}, {runtime.precision_name}"
    layers = measure_growth(axis, shapes, config.seconds, runtime)
    growth = LayerGrowth(title=title, axis=axis, layers=tuple(layers))
    if config.out is not None:
        save_image(growth.draw(), Path(config.out))
    return growth


def _shapes(config: LookComplexityConfig, device: str) -> tuple[Axis, list[Shape]]:
    """Return what varies, and the lengths and widths to measure, rising."""
    widths = sorted(set(config.widths)) or [WIDTHS[device]]
    if len(widths) > 1:
        length = config.lengths[0] if config.lengths else FIXED_LENGTHS[device]
        return "width", [(length, width) for width in widths]
    lengths = sorted(set(config.lengths or LENGTHS[device]))
    return "length", [(length, widths[0]) for length in lengths]


@dataclass
class TimedLayer:
    """One layer at one size, and its times so far."""

    size: int  # of what varies
    layer: nn.Module
    x: Tensor  # (1, n, D)
    memory_bytes: int
    times_s: list[float] = field(default_factory=list)


def measure_growth(
    axis: Axis, shapes: Sequence[Shape], seconds: float, runtime: Runtime
) -> list[Growth]:
    """Measure every layer at every length and width, within about `seconds`."""
    ends = time.monotonic() + seconds
    budget_s = seconds / len(LAYER_TYPES) / (1 + MIN_ROUNDS)  # for one pass of a layer at each size
    timed: list[list[TimedLayer]] = []  # by kind of layer
    with progress.bar("measuring", None, "layer") as bar:
        for kind in LAYER_TYPES:
            timed.append(_first_passes(kind, axis, shapes, budget_s, runtime))
            bar.advance(len(timed[-1]))
        for num_rounds in range(1, MAX_ROUNDS + 1):
            began = time.monotonic()
            for layer in chain(*timed):  # in turns: other work slows all layers alike
                layer.times_s.append(_time_pass(layer.layer, layer.x, runtime))
                bar.advance(1)
            now = time.monotonic()
            if num_rounds >= MIN_ROUNDS and now + (now - began) > ends:
                break
    kinds = zip(LAYER_TYPES, timed, strict=True)
    return [_growth(kind, axis, layers) for kind, layers in kinds if layers]


def _first_passes(
    kind: LayerType, axis: Axis, shapes: Sequence[Shape], budget_s: float, runtime: Runtime
) -> list[TimedLayer]:
    """Run a layer once at each length and width that memory and time allow."""
    layers: list[TimedLayer] = []
    last_s = spent_s = 0.0
    for length, width in shapes:
        size = length if axis == "length" else width
        expected_s = last_s * (size / layers[-1].size) ** kind.powers[axis] if layers else 0.0
        layer = kind.build(width).to(runtime.device)
        num_bytes = ARRAYS * 4 * getattr(layer, "heads", 0) * length**2
        is_large = num_bytes > MEMORY_SHARE * (free_memory(runtime.device) or math.inf)
        if is_large or spent_s + expected_s > budget_s:
            reason = "memory" if is_large else "time: give more --seconds"
            progress.say(f"{kind.name}: stopped before {axis} {size:,}, for lack of {reason}")
            break
        x = torch.randn(1, length, width, device=runtime.device)
        if not layers:
            _time_pass(layer, x, runtime)  # the first pass includes setting up
        with runtime.precision():
            layers.append(TimedLayer(size, layer, x, saved_bytes(layer, x)))
        last_s = _time_pass(layer, x, runtime)
        spent_s += last_s
    return layers


def _growth(kind: LayerType, axis: Axis, layers: Sequence[TimedLayer]) -> Growth:
    sizes = tuple(layer.size for layer in layers)
    memory = tuple(layer.memory_bytes for layer in layers)
    # Other work on the machine can only add time, so the slower half is left out.
    times = tuple(median(sorted(x.times_s)[: -(-len(x.times_s) // 2)]) for x in layers)
    return Growth(
        name=kind.name,
        formula=kind.formula,
        power=kind.powers[axis],
        sizes=sizes,
        times_s=times,
        ranges_s=tuple((min(layer.times_s), max(layer.times_s)) for layer in layers),
        memory_bytes=memory,
        time_exponent=exponent_of(sizes, times),
        memory_exponent=exponent_of(sizes, memory),
    )


def exponent_of(sizes: Sequence[int], costs: Sequence[float]) -> float | None:
    """Fit cost = c · sizeᵖ to the largest sizes, down to a quarter of the largest; return p."""
    used = [(n, cost) for n, cost in zip(sizes, costs, strict=True) if 4 * n >= max(sizes)]
    log_sizes, log_costs = np.log(used).T
    return float(np.polyfit(log_sizes, log_costs, 1)[0]) if len(used) > 1 else None


def _time_pass(layer: nn.Module, x: Tensor, runtime: Runtime) -> float:
    """Return the seconds of one forward and backward pass; a short pass is repeated."""
    began, num_passes = time.perf_counter(), 0
    while True:
        with runtime.precision():
            layer(x).sum().backward()
        layer.zero_grad(set_to_none=True)
        num_passes += 1
        if x.is_cuda:
            torch.cuda.synchronize()
        elapsed_s = time.perf_counter() - began
        if elapsed_s > SHORTEST_S:
            return elapsed_s / num_passes


def saved_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return the bytes of output and tensors saved for the backward pass, without parameters."""
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


def _draw_theory(axes: Axes, layers: Sequence[Growth]) -> None:
    """Draw the slope in theory through the largest size, and the spread of the rounds."""
    for layer in layers:
        n, colour = np.array(layer.sizes), COLOURS[layer.name]
        theory = layer.times_s[-1] * (n / n[-1]) ** layer.power
        axes.plot(n, theory, color=colour, linewidth=0.9, linestyle=DOTTED, alpha=0.7)
        fastest, slowest = np.transpose(layer.ranges_s)
        axes.fill_between(n, fastest, slowest, color=colour, alpha=BAND, lw=0)


def _draw_costs(
    axes: Axes, curves: Sequence[tuple[Growth, Sequence[float], float | None]], letter: str
) -> None:
    """Draw the costs of each layer, named with its exponent."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    drawn = [cost for _, costs, _ in curves for cost in costs]
    axes.set_ylim(min(drawn) / 1.6, max(drawn) * 1.6)
    labels = []
    for layer, costs, exponent in curves:
        colour = COLOURS[layer.name]
        axes.plot(layer.sizes, costs, color=colour, marker="o", markersize=3.5)
        name = f"{layer.name}: {letter}^{_exponent(exponent)}"
        labels.append(EndLabel(text=name, colour=colour, x=layer.sizes[-1], y=costs[-1]))
    ticks = sorted({size for layer, _, _ in curves for size in layer.sizes})
    axes.set_xticks(ticks, [f"{size:,}" for size in ticks])
    axes.minorticks_off()
    write_end_labels(axes, labels, share=0.5)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _exponent(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}"  # no minus before a zero
