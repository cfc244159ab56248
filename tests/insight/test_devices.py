import json
import re
from itertools import pairwise, product
from pathlib import Path

import pytest

from product import run, succeed
from warmstart.planning.commands import PlanConfig
from warmstart.planning.devices import (
    LEAST_EFFICIENCY,
    known_devices,
    most_useful,
    shared_steps,
    target_on,
)
from warmstart.planning.job import planned_job

H200 = known_devices()["h200"]


def _job(batch_tokens: int | None = None):
    return planned_job(PlanConfig(model="vaswani-base", batch_tokens=batch_tokens), "vaswani-base")


def _shared(most: int, batch_tokens: int | None = None, network: float = 25.0):
    return shared_steps(_job(batch_tokens), H200, target_on(H200, "auto"), most, network)


@pytest.mark.parametrize(
    ("most", "counts"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (16, [1, 2, 4, 8, 16])]
)
def test_powers_of_two_up_to_the_number_asked_for(most: int, counts: list[int]) -> None:
    assert [step.devices for step in _shared(most)] == counts


def test_a_ring_sends_each_gradient_almost_twice() -> None:
    alone, two, *_, many = _shared(64)
    gradients = 4 * 63_082_496
    assert alone.sent == 0
    assert alone.communication_s == 0
    assert alone.efficiency == pytest.approx(1.0)
    assert two.sent == gradients
    assert many.sent == pytest.approx(2 * gradients * 63 / 64, rel=1e-6)


def test_memory_and_computing_fall_with_the_share_of_the_rows() -> None:
    steps = _shared(8)
    for one, twice in pairwise(steps):
        assert twice.memory <= one.memory
        assert one.compute_s / 2 <= twice.compute_s <= one.compute_s
        assert twice.efficiency < one.efficiency


def test_shards_of_the_state_fall_with_the_number_of_devices() -> None:
    steps = _shared(64)
    assert steps[0].sharded_memory == steps[0].memory
    for one, twice in pairwise(steps[1:]):
        assert twice.sharded_memory < one.sharded_memory
    assert steps[-1].sharded_memory < steps[-1].memory


def test_larger_steps_and_faster_networks_use_more_devices() -> None:
    small, large = _shared(256), _shared(256, batch_tokens=4_000_000)
    assert most_useful(small).devices < most_useful(large).devices
    assert most_useful(small).efficiency >= LEAST_EFFICIENCY
    slow, fast = (_shared(64, network=network)[-1] for network in (1.0, 100.0))
    assert slow.compute_s == fast.compute_s
    assert slow.communication_s > fast.communication_s


def _documented() -> list[tuple[str, list[float]]]:
    """Return the rows of the table in docs/scaling.md: a preset and its numbers."""
    page = (Path(__file__).parents[2] / "docs/scaling.md").read_text()
    rows = re.findall(r"(?m)^\| `([\w-]+)` \|(.* ms .*%) \|$", page)
    return [
        (preset, [float(n) for n in re.findall(r"[\d.]+", row.replace(",", ""))])
        for preset, row in rows
    ]


@pytest.mark.parametrize(("preset", "numbers"), _documented())
def test_the_guide_says_what_is_calculated(preset: str, numbers: list[float]) -> None:
    tokens, devices, sent_mb, compute_ms, communication_ms, percent = numbers
    job = planned_job(PlanConfig(model=preset, batch_tokens=int(tokens)), preset)
    step = shared_steps(job, H200, target_on(H200, "auto"), int(devices), 25.0)[-1]
    assert step.sent / 1e6 == pytest.approx(sent_mb, abs=0.5)
    assert 1e3 * step.compute_s == pytest.approx(compute_ms, rel=0.03)
    assert 1e3 * step.communication_s == pytest.approx(communication_ms, rel=0.05)
    assert 100 * step.efficiency == pytest.approx(percent, abs=0.5)


def test_the_guide_covers_one_machine_and_eight() -> None:
    covered = {(preset, int(numbers[1])) for preset, numbers in _documented()}
    assert covered == set(product(("lab", "modern-small", "vaswani-big"), (8, 64)))


def test_the_command_says_where_more_devices_stop_paying() -> None:
    command = "plan vaswani-base --on h200 --devices 64"
    shared = json.loads(succeed(f"{command} --json").out)["shared"]
    assert [step["devices"] for step in shared] == [1, 2, 4, 8, 16, 32, 64]
    useful = max(step["devices"] for step in shared if step["efficiency"] >= LEAST_EFFICIENCY)
    said = " ".join(succeed(command).out.split())
    assert f"more than {useful} do not pay" in said


def test_several_devices_need_their_kind() -> None:
    ran = run("plan lab --devices 8")
    assert ran.code == 2
    assert "--devices 8 needs --on" in ran.said
