"""Growth with length: exponents, crossing points, and what is counted as memory."""

import math
from typing import Any

import pytest
import torch

from warmstart.look.complexity import (
    Axis,
    Convolution,
    Growth,
    LayerCost,
    LayerSettings,
    PlainAttention,
    Recurrence,
    Sweep,
    busy_warning,
    crossings_of,
    draw_growth,
    exponent_of,
    growth_rows,
    measure_growth,
    saved_bytes,
    spread_of,
)
from warmstart.model.attention import MultiHeadAttention
from warmstart.runtime import Runtime


def _sweep(*lengths: int, width: int = 8) -> Sweep:
    return Sweep("length", lengths, 32, LayerSettings(width, 3, "gru"))


LENGTHS = (64, 128, 256, 512, 1024)


def test_the_exponent_is_of_the_long_end() -> None:
    cost = [(n, 0.1 + 1e-4 * n**2) for n in LENGTHS]  # flat at first
    assert exponent_of(cost) == pytest.approx(2, abs=0.05)
    assert exponent_of(cost[:1]) is None
    assert exponent_of([(n, 3.0 * n) for n in LENGTHS]) == pytest.approx(1)


def _growth(name: str, formula: str, power: int, cost: Any, spread: float = 1.2) -> Growth:
    points = tuple(
        LayerCost(
            size=n,
            time_s=cost(n),
            fastest_s=cost(n) / 1.1,
            slowest_s=spread * cost(n) / 1.1,
            memory_bytes=int(1e6 * cost(n)) + 1,
            operations=n,
        )
        for n in LENGTHS
    )
    found = exponent_of([(p.size, p.time_s) for p in points])
    return Growth(
        name=name,
        formula=formula,
        power=power,
        points=points,
        time_exponent=found,
        memory_exponent=found,
    )


@pytest.mark.parametrize(
    ("factor", "how", "length"),
    [
        (1e-3 / 300, "measured", 300),
        (1e-3 / 5000, "extrapolated", 5000),
        (1.0, "slower throughout", None),
    ],
)
def test_crossing_points_are_found(factor: float, how: str, length: float | None) -> None:
    square = _growth("self-attention", "n²d", 2, lambda n: factor * n**2)
    line = _growth("GRU", "nd²", 1, lambda n: 1e-3 * n)
    (found,) = crossings_of([square, line], width=64, kernel=3)
    assert found.how == how
    assert found.theory == 64
    assert (found.length is None) == (length is None)
    if length is not None and found.length is not None:
        assert found.length == pytest.approx(length, rel=0.02)
    assert "self-attention is slower" in found.sentence


def test_a_layer_that_grows_no_faster_never_crosses() -> None:
    square = _growth("self-attention", "n²d", 2, lambda n: 1e-6 * n)
    line = _growth("convolution", "knd²", 1, lambda n: 1e-3 * n)
    (found,) = crossings_of([square, line], width=64, kernel=5)
    assert found.how == "never"
    assert found.theory == 320
    assert "never gets slower" in found.sentence


@pytest.mark.parametrize(
    ("layer", "power"),
    [
        (PlainAttention(8, 1), 2),
        (MultiHeadAttention(8, 1, 0.0, True), 1),
        (Recurrence(8, "gru"), 1),
        (Recurrence(8, "lstm"), 1),
        (Convolution(8, 3), 1),
    ],
    ids=["plain", "fused", "gru", "lstm", "convolution"],
)
def test_memory_grows_as_it_must(layer: torch.nn.Module, power: int) -> None:
    kept = [(n, float(saved_bytes(layer, torch.randn(1, n, 8)))) for n in (128, 256, 512)]
    assert exponent_of(kept) == pytest.approx(power, abs=0.25)


def test_plain_attention_keeps_every_weight() -> None:
    n, width = 256, 8
    kept = saved_bytes(PlainAttention(width, 1), torch.randn(1, n, width))
    assert kept >= 4 * n * n
    assert kept < 4 * n * n + 4 * n * width * 12


def test_plain_attention_equals_the_models() -> None:
    ours, fused = PlainAttention(16, 2), MultiHeadAttention(16, 2, 0.0, True)
    ours.load_state_dict(fused.state_dict())
    x = torch.randn(2, 9, 16)
    torch.testing.assert_close(ours(x), fused(x))


def test_every_layer_is_measured(cpu: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmstart.look.complexity.MAX_ROUNDS", 3)
    grown, crossings = measure_growth(_sweep(16, 32, 64), 30.0, cpu)
    assert [growth.name for growth in grown] == [
        "self-attention",
        "fused attention",
        "GRU",
        "convolution",
    ]
    for growth in grown:
        assert [point.size for point in growth.points] == [16, 32, 64]
        for point in growth.points:
            assert 0 < point.fastest_s <= point.time_s <= point.slowest_s
        assert growth.time_exponent is not None
        assert math.isfinite(growth.time_exponent)
    assert len(crossings) == 4
    assert len(growth_rows(grown)) == 4
    assert draw_growth(grown, "length", "toy").axes


@pytest.mark.parametrize(
    ("axis", "sizes"),
    [("width", (64, 128, 256)), ("kernel", (1, 3, 9))],
)
def test_width_and_kernel_vary(
    axis: Axis,
    sizes: tuple[int, ...],
    cpu: Runtime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("warmstart.look.complexity.MAX_ROUNDS", 3)
    sweep = Sweep(axis, sizes, 16, LayerSettings(8, 3, "gru"))
    grown, crossings = measure_growth(sweep, 30.0, cpu)
    assert not crossings
    assert all([point.size for point in growth.points] == list(sizes) for growth in grown)
    operations = {growth.name: [p.operations for p in growth.points] for growth in grown}
    assert operations["convolution"] == [16 * d * d * k for d, k in _shapes(axis, sizes)]
    assert (operations["GRU"][-1] > operations["GRU"][0]) == (axis == "width")


def _shapes(axis: Axis, sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(size, 3) if axis == "width" else (8, size) for size in sizes]


@pytest.mark.parametrize(
    ("spread", "load", "signs"),
    [(1.2, 0.1, []), (1.2, 3.0, ["load was 3.0 on 2 cores"]), (2.0, 0.1, ["2.0 times as long"])],
)
def test_a_busy_machine_is_said_to_be(spread: float, load: float, signs: list[str]) -> None:
    growth = _growth("GRU", "nd²", 1, lambda n: 1e-3 * n, spread)
    assert spread_of([growth]) == pytest.approx(spread)
    warning = busy_warning([growth], load, 2)
    assert bool(warning) == bool(signs)
    assert all(sign in str(warning) for sign in signs)


def test_the_figure_explains_its_lines() -> None:
    growths = [_growth(name, "nd²", 1, lambda n: 1e-3 * n) for name in "abcd"]
    (legend,) = draw_growth(growths, "length", "toy").legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["measured", "from the fastest to the slowest round", "slope in theory"]


def test_memory_is_counted_in_the_precision_that_is_timed(
    cpu: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warmstart.look.complexity.MAX_ROUNDS", 3)
    half = Runtime(cpu.device, torch.bfloat16)
    kept = []
    for runtime in (cpu, half):
        grown, _ = measure_growth(_sweep(512, width=16), 30.0, runtime)
        kept.append([growth.points[0].memory_bytes for growth in grown])
    assert all(low < full for full, low in zip(*kept, strict=True))


def test_no_time_leaves_long_lengths_out(cpu: Runtime) -> None:
    grown, _ = measure_growth(_sweep(16, 100_000), 0.05, cpu)
    assert all(point.size == 16 for growth in grown for point in growth.points)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_growth_on_cuda() -> None:
    runtime = Runtime(torch.device("cuda"))
    grown, _ = measure_growth(_sweep(1024, 2048, 4096, width=64), 10.0, runtime)
    memory = {growth.name: growth.memory_exponent or 0 for growth in grown}
    assert memory["self-attention"] > 1.6
    assert memory["fused attention"] < 1.3
