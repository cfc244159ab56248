"""Measure time and memory of single layers: forward and backward pass of one row."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor, nn

from warmstart import progress
from warmstart.formats import counted
from warmstart.insight.layer_types import LayerType, Sweep, layer_types
from warmstart.results.growth import (
    Axis,
    Crossing,
    Growth,
    LayerCost,
    crossings_of,
    exponent_of,
    spread_of,
)
from warmstart.runtime import Runtime, free_memory

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
TIMING = (
    "Time: forward and backward pass of one row, in rounds over all layers and sizes; the median"
    " of the faster half of the rounds."
)


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
