"""Growth with length and width: exponents, and what is counted as memory."""

import math

import pytest
import torch

from warmstart.look.complexity import (
    LAYER_TYPES,
    Axis,
    Convolution,
    Growth,
    LayerGrowth,
    Recurrence,
    SelfAttention,
    Shape,
    exponent_of,
    measure_growth,
    saved_bytes,
)
from warmstart.model.attention import MultiHeadAttention
from warmstart.runtime import Runtime

LENGTHS = (64, 128, 256, 512, 1024)


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmstart.look.complexity.MAX_ROUNDS", 3)


def test_the_exponent_is_of_the_long_end() -> None:
    flat_at_first = [0.1 + 1e-4 * n**2 for n in LENGTHS]
    assert exponent_of(LENGTHS, flat_at_first) == pytest.approx(2, abs=0.05)
    assert exponent_of(LENGTHS[:1], flat_at_first[:1]) is None
    assert exponent_of(LENGTHS, [3.0 * n for n in LENGTHS]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("layer", "power"),
    [(SelfAttention(8), 2), (Recurrence(8), 1), (Convolution(8), 1)],
    ids=["attention", "recurrence", "convolution"],
)
def test_memory_grows_as_it_must(layer: torch.nn.Module, power: int) -> None:
    saved = [saved_bytes(layer, torch.randn(1, n, 8)) for n in (128, 256, 512)]
    assert exponent_of((128, 256, 512), saved) == pytest.approx(power, abs=0.25)


def test_attention_saves_every_weight() -> None:
    n, width = 256, 8
    saved = saved_bytes(SelfAttention(width), torch.randn(1, n, width))
    assert 4 * n * n <= saved < 4 * n * n + 4 * n * width * 12


def test_attention_equals_the_models() -> None:
    ours, fused = SelfAttention(128), MultiHeadAttention(128, 2, 0.0, True)
    ours.load_state_dict(fused.state_dict())
    x = torch.randn(2, 9, 128)
    torch.testing.assert_close(ours(x), fused(x))


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize(
    ("axis", "shapes"),
    [
        ("length", [(16, 8), (32, 8), (64, 8)]),
        ("width", [(16, 64), (16, 128), (16, 256)]),
    ],
)
def test_every_layer_is_measured(axis: Axis, shapes: list[Shape], cpu: Runtime) -> None:
    layers = measure_growth(axis, shapes, 30.0, cpu)
    assert [layer.name for layer in layers] == ["self-attention", "recurrence", "convolution"]
    for layer, kind in zip(layers, LAYER_TYPES, strict=True):
        assert layer.sizes == tuple(shape[axis == "width"] for shape in shapes)
        assert layer.power == kind.powers[axis]
        for time_s, (fastest_s, slowest_s) in zip(layer.times_s, layer.ranges_s, strict=True):
            assert 0 < fastest_s <= time_s <= slowest_s
        assert layer.time_exponent is not None
        assert math.isfinite(layer.time_exponent)


def test_the_figure_explains_its_lines() -> None:
    layers = [
        Growth(
            name=kind.name,
            formula=kind.formula,
            power=kind.powers["length"],
            sizes=LENGTHS,
            times_s=tuple(1e-3 * n for n in LENGTHS),
            ranges_s=tuple((0.9e-3 * n, 1.2e-3 * n) for n in LENGTHS),
            memory_bytes=LENGTHS,
            time_exponent=-1e-9,
            memory_exponent=None,
        )
        for kind in LAYER_TYPES
    ]
    growth = LayerGrowth(title="toy", axis="length", layers=tuple(layers))
    drawing = growth.draw()
    (legend,) = drawing.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["measured", "from the fastest to the slowest round", "slope in theory"]
    assert "recurrence: n^0.00" in [text.get_text() for text in drawing.axes[0].texts]
    headers, rows = growth.table()
    assert all(len(row) == len(headers) for row in rows)


@pytest.mark.usefixtures("few_rounds")
def test_memory_is_counted_in_the_precision_that_is_timed(cpu: Runtime) -> None:
    saved = [
        [layer.memory_bytes[0] for layer in measure_growth("length", [(512, 16)], 30.0, runtime)]
        for runtime in (cpu, Runtime(cpu.device, torch.bfloat16))
    ]
    assert all(half < full for full, half in zip(*saved, strict=True))


def test_no_time_leaves_long_lengths_out(cpu: Runtime) -> None:
    layers = measure_growth("length", [(16, 8), (100_000, 8)], 0.05, cpu)
    assert all(layer.sizes == (16,) for layer in layers)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_growth_on_cuda() -> None:
    runtime = Runtime(torch.device("cuda"))
    layers = measure_growth("length", [(1024, 64), (2048, 64), (4096, 64)], 10.0, runtime)
    memory = {layer.name: layer.memory_exponent or 0 for layer in layers}
    assert memory["self-attention"] > 1.6
    assert memory["recurrence"] < 1.3
