"""One layer each of self-attention, recurrence and convolution, measured against length.

Forward and backward on one row of random numbers. Knows nothing about pictures.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from warmstart import progress
from warmstart.model.attention import MultiHeadAttention, attention_weights
from warmstart.report.complexity import Crossing, Growth, Measured, crossings_of, exponent_of
from warmstart.runtime import Runtime

# Long enough and wide enough that the work counts and not the start of it.
LENGTHS = {"cpu": tuple(2**n for n in range(7, 14)), "cuda": tuple(2**n for n in range(10, 19))}
WIDTHS = {"cpu": 64, "cuda": 512}
HEAD = 64  # width of a head of attention, where the layer's width is a multiple of it
FEWEST, MOST = 3, 25  # rounds of measurements
SHORTEST_S = 0.02  # a shorter pass is repeated until its time can be trusted
ARRAYS = 6  # arrays of n × n numbers alive at once in written-out attention and its backward pass
SHARE = 0.5  # of the free memory that one measurement may take


class WrittenOut(nn.Module):
    """Self-attention as the formula is written: every weight stands in memory."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x (B, T, D)."""
        split = self.project(x).unflatten(-1, (3, self.heads, -1))  # (B, T, 3, H, K)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mixed = attention_weights(q, k, None) @ v
        return self.output(mixed.transpose(1, 2).reshape(x.shape))


class Recurrence(nn.Module):
    """One recurrent layer."""

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        layer = nn.LSTM if kind == "lstm" else nn.GRU
        self.layer = layer(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Read x (B, T, D) from left to right."""
        return self.layer(x)[0]


class Convolution(nn.Module):
    """One convolution over positions."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.layer = nn.Conv1d(width, width, kernel, padding=kernel // 2)

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position of x (B, T, D) with its neighbours."""
        return self.layer(x.transpose(1, 2)).transpose(1, 2)[:, : x.shape[1]]


@dataclass(frozen=True)
class LayerType:
    """One kind of layer, and what theory says of it."""

    name: str
    formula: str  # multiply-adds that grow with length, as the 2017 paper writes them
    power: int  # of the length in it
    build: Callable[[], nn.Module]
    operations: Callable[[int], int]  # multiply-adds of one forward pass
    squares: int = 0  # numbers kept for every pair of positions


def layer_types(width: int, kernel: int, recurrence: str) -> list[LayerType]:
    """Return the layers to compare."""
    d, gates = width, {"gru": 3, "lstm": 4}[recurrence]
    heads = 1 if width % HEAD else width // HEAD

    def attention(n: int) -> int:
        return 4 * n * d * d + 2 * n * n * d

    return [
        LayerType(
            "self-attention",
            "n²d",
            2,
            lambda: WrittenOut(d, heads),
            attention,
            squares=heads,
        ),
        LayerType(
            "fused attention",
            "n²d",
            2,
            lambda: MultiHeadAttention(d, heads, 0.0, True),
            attention,
        ),
        LayerType(
            recurrence.upper(),
            "nd²",
            1,
            lambda: Recurrence(d, recurrence),
            lambda n: 2 * gates * n * d * d,
        ),
        LayerType(
            "convolution",
            "knd²",
            1,
            lambda: Convolution(d, kernel),
            lambda n: kernel * n * d * d,
        ),
    ]


def measure_growth(
    lengths: Sequence[int],
    width: int,
    kernel: int,
    recurrence: str,
    seconds: float,
    runtime: Runtime,
) -> tuple[list[Growth], list[Crossing]]:
    """Measure every layer at every length, within about the time given."""
    chosen = layer_types(width, kernel, recurrence)
    trials = _trials(chosen, sorted(set(lengths)), width, seconds, runtime)
    ends = time.monotonic() + seconds - sum(trial.spent_s for trial in trials)
    _repeat(trials, ends, runtime)
    found = [
        _growth(layer_type, [t for t in trials if t.layer_type is layer_type])
        for layer_type in chosen
    ]
    return found, crossings_of(found, width, kernel)


@dataclass
class Trial:
    """One layer at one length, and the times it took so far."""

    layer_type: LayerType
    layer: nn.Module
    x: Tensor  # (1, n, D)
    memory_bytes: int
    spent_s: float
    times: list[float]

    @property
    def length(self) -> int:
        """Return the length of the row."""
        return self.x.shape[1]


def _trials(
    chosen: Sequence[LayerType],
    lengths: Sequence[int],
    width: int,
    seconds: float,
    runtime: Runtime,
) -> list[Trial]:
    """Run everything once that the time allows to repeat."""
    trials: list[Trial] = []
    share = seconds / len(chosen) / (1 + FEWEST)  # of one layer's time, for one pass of each
    with progress.bar("first passes", len(chosen) * len(lengths), "layer") as bar:
        for layer_type in chosen:
            torch.manual_seed(0)
            layer = layer_type.build().to(runtime.device)
            last = spent = 0.0
            for place, length in enumerate(lengths):
                bar.advance(1, f"{layer_type.name}, length {length:,}")
                growth = (length / lengths[place - 1]) ** layer_type.power if place else 1.0
                reason = _too_much(
                    layer_type, length, spent + growth * last > share, runtime.device
                )
                if reason:
                    progress.say(f"{layer_type.name}: stopped before length {length:,}, {reason}")
                    break
                x = torch.randn(1, length, width, device=runtime.device)
                if place == 0:
                    _once(layer, x, runtime)  # the first of all pays for setting up
                with runtime.precision():
                    memory = _peak_bytes(layer, x) if x.is_cuda else _kept_bytes(layer, x)
                last = _once(layer, x, runtime, shortest=0.0)
                spent += last
                trials.append(Trial(layer_type, layer, x, memory, last, []))
    return trials


def _too_much(
    layer_type: LayerType, length: int, is_slow: bool, device: torch.device
) -> str | None:
    room = free_bytes(device)
    if room and ARRAYS * 4 * layer_type.squares * length**2 > SHARE * room:
        return "it needs more memory"
    return "no time left for it: give more --seconds" if is_slow else None


def _repeat(trials: Sequence[Trial], ends: float, runtime: Runtime) -> None:
    """Time everything in rounds, so that other work on the machine slows all of it alike."""
    with progress.bar("rounds", None, "round") as bar:
        for place in range(MOST):
            began = time.monotonic()
            for trial in trials:
                trial.times.append(_once(trial.layer, trial.x, runtime))
            bar.advance(1)
            now = time.monotonic()
            if place + 1 >= FEWEST and now + (now - began) > ends:
                return


def _growth(layer_type: LayerType, trials: Sequence[Trial]) -> Growth:
    points = tuple(
        Measured(
            length=trial.length,
            time_s=_typical(trial.times),
            memory_bytes=trial.memory_bytes,
            operations=layer_type.operations(trial.length),
        )
        for trial in trials
    )
    return Growth(
        name=layer_type.name,
        formula=layer_type.formula,
        power=layer_type.power,
        points=points,
        time_exponent=exponent_of([(p.length, p.time_s) for p in points]),
        memory_exponent=exponent_of([(p.length, p.memory_bytes) for p in points]),
    )


def _typical(times: Sequence[float]) -> float:
    """Return the median of the faster half: other work on the machine only ever adds time."""
    return median(sorted(times)[: -(-len(times) // 2)])


def _step(layer: nn.Module, x: Tensor) -> None:
    layer(x).sum().backward()
    layer.zero_grad(set_to_none=True)


def _once(layer: nn.Module, x: Tensor, runtime: Runtime, shortest: float = SHORTEST_S) -> float:
    """Return the time of one pass; a short one is repeated until a clock can measure it."""
    begun, passes = time.perf_counter(), 0
    while True:
        with runtime.precision():
            _step(layer, x)
        passes += 1
        if x.is_cuda:
            torch.cuda.synchronize()
        elapsed = time.perf_counter() - begun
        if elapsed > shortest:
            return elapsed / passes


def _peak_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return how far the CUDA allocator's counter rises in one pass."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    _step(layer, x)
    return torch.cuda.max_memory_allocated() - before


def _kept_bytes(layer: nn.Module, x: Tensor) -> int:
    """Return the bytes of every tensor kept for the backward pass, parameters left out."""
    own = {parameter.untyped_storage().data_ptr() for parameter in layer.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = layer(x)  # alive, so that no two tensors take the same place
    kept[result.untyped_storage().data_ptr()] = result.untyped_storage().nbytes()
    return sum(kept.values())


def free_bytes(device: torch.device) -> int | None:
    """Return the memory that is free on a device; None where nobody tells."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    facts = Path("/proc/meminfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    found = (line.split() for line in lines if line.startswith("MemAvailable:"))
    return next((1024 * int(words[1]) for words in found), None)


def memory_in_words(device: torch.device) -> str:
    """Say what the memory figures count."""
    if device.type == "cuda":
        return "Memory: how far the CUDA allocator's peak rises in a forward and backward pass."
    return "Memory: the tensors kept from the forward pass for the backward pass, output included."


TIMING = (
    "Time: forward and backward pass of one row, in rounds over all layers and lengths; the median"
    " of the faster half of the rounds."
)


def device_in_words(runtime: Runtime) -> str:
    """Name the device that was measured, and its precision."""
    precision = "fp32" if runtime.dtype is None else "bf16"
    if runtime.device.type == "cuda":
        return f"{torch.cuda.get_device_name(runtime.device)}, {precision}"
    threads = torch.get_num_threads()
    return f"the CPU with {threads} thread{'' if threads == 1 else 's'}, {precision}"
