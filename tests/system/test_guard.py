"""`make bench` names what got slower, and nothing that chance explains."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def guard(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("guard")


def ratio(guard: ModuleType, *rounds: tuple[float, float], **more: Any) -> Any:
    return guard.Ratio.of("a step", "tokens/s", "the peer", rounds, **more)


@pytest.mark.parametrize(
    ("rates", "is_slower"),
    [
        ((200, 200, 200), False),
        ((230, 230, 230), False),  # faster
        ((191, 191, 191), False),  # less than 5%
        ((180, 180, 180), True),
        ((160, 180, 200), False),  # 10% lower, with a spread of 11%
        ((140, 150, 160), True),  # 25% lower, with a spread of 7%
    ],
)
def test_slower_is_what_chance_does_not_explain(
    guard: ModuleType, rates: tuple[float, ...], is_slower: bool
) -> None:
    before = {"a step": ratio(guard, (200, 100), (200, 100))}
    now = {"a step": ratio(guard, *((rate, 100) for rate in rates))}
    findings = guard.slower(before, now)
    assert len(findings) == is_slower
    if is_slower:
        assert findings[0].startswith(f"a step: {rates[1] / 100:.2f} times the peer, 2.00 before")


def test_what_is_not_measured_any_more_is_named(guard: ModuleType) -> None:
    assert guard.slower({"a step": ratio(guard, (2, 1))}, {}) == ["a step: not measured any more"]


def test_less_memory_is_a_ratio_above_one(guard: ModuleType) -> None:
    assert ratio(guard, (50, 100), is_less_better=True).ratio == 2


def test_another_machine_is_told(guard: ModuleType) -> None:
    committed = {"processor": "A", "cores": 2}
    assert guard.differences(committed, committed) == []
    here = {"processor": "B", "cores": 2}
    assert guard.differences(committed, here) == ["processor: B here, A in ratios.json"]


def test_every_part_has_a_script_and_a_smoke_test(guard: ModuleType) -> None:
    assert set(guard.SMOKE) == set(guard.PARTS)
    assert all((BENCHMARKS / f"{part}.py").exists() for part in guard.PARTS)


@pytest.mark.parametrize("script", sorted(path.stem for path in BENCHMARKS.glob("*.py")))
def test_every_script_finds_what_it_imports(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location(
        f"benchmark_{script}", BENCHMARKS / f"{script}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
