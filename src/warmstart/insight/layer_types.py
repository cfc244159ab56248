"""The layers that `look complexity` compares: attention, recurrence and convolution."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor, nn

from warmstart.model.attention import MultiHeadAttention, attention_weights
from warmstart.results.growth import Axis

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


@dataclass(frozen=True)
class LayerType:
    """One kind of layer, and its cost in theory."""

    name: str
    formula: str  # multiply-adds that grow with length, as the 2017 paper writes them
    powers: dict[Axis, int]  # of each quantity in the formula
    build: Callable[[], nn.Module]
    operations: Callable[[int], int]  # multiply-adds of a forward pass, by length
    numbers_per_pair: int = 0  # stored for every pair of positions


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
