import json
from pathlib import Path
from typing import Any

import pytest

import warmstart
from product import run, succeed
from warmstart.planning.commands import PlanConfig
from warmstart.planning.devices import known_devices, step_seconds, target_on
from warmstart.planning.job import planned_job
from warmstart.planning.plan import long_time
from warmstart.runs.folder import FORMAT

SMALL = "plan tiny --vocab-size 300 --width 16 --heads 2 --depth 1 --ffn-width 32 --max-length 16"


def figures(command: str, **places: object) -> Any:
    return succeed(f"{command} --json", **places).json


@pytest.mark.slow
def test_a_small_job_is_measured_here() -> None:
    found = figures(
        f"{SMALL} --batch-tokens 128 --micro-tokens 64 --steps 50 --seconds 0.1 --threads 1"
    )
    assert found["job"]["rows"] == 8
    assert found["job"]["micro_rows"] == 4
    time = found["time"]
    assert time["total_s"] == pytest.approx(50 * time["step_s"])
    assert time["measured"]["num_steps"] >= 3
    assert time["measured"]["peak_bytes"] > time["measured"]["baseline_bytes"] > 0
    assert found["fits"]
    assert any("as measured" in line for line in found["sentences"])


def test_what_does_not_fit_is_told_how_to() -> None:
    job = "plan vaswani-base --on gtx-1050-ti --batch-tokens 50000"
    found = figures(job)
    assert not found["fits"]
    assert found["precision"] == "fp32"
    tokens = found["largest_micro_tokens"]
    assert f"lower --micro-tokens to {tokens:,}" in found["sentences"][0]
    less = figures(f"{job} --micro-tokens {tokens}")
    assert less["fits"]
    never = figures("plan vaswani-big --on gtx-1050-ti --depth 24")
    assert "a single row is too much" in never["sentences"][0]
    assert never["largest_micro_tokens"] == 0


def test_the_table_of_devices_is_printed() -> None:
    said = succeed("plan --on list").out
    assert all(name in said for name in known_devices())
    assert figures("plan --on list")["t4"]["bf16_tflops"] is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("plan labb --on h200", "did you mean 'lab'?"),
        ("plan lab --on h20", "did you mean 'h200'?"),
        ("plan --on h200", "MODEL is missing"),
        ("plan {empty}", "not a run folder"),
        ("plan vaswani-base --objective causal", "vaswani-base is a translator"),
        ("plan lab --objective classify --optimizer muon", "--optimizer muon"),
        ("plan lab --steps 5 --tokens 5", "are mutually exclusive"),
    ],
)
def test_errors_name_what_is_wrong(command: str, said: str, tmp_path: Path) -> None:
    ran = run(command, empty=tmp_path)
    assert ran.code == 2
    assert said in ran.said


def test_a_run_is_planned_as_what_it_is(tmp_path: Path) -> None:
    model = json.loads(succeed(f"{SMALL} --no-measure --json").out)["job"]["model"]
    facts = {
        "command": "finetune",
        "settings": {},
        "model": model,
        "task": "classify",
        "format": FORMAT,
    }
    (tmp_path / "config.json").write_text(json.dumps({**facts, "classes": ["a", "b", "c"]}))
    found = figures("plan {run} --no-measure", run=tmp_path)
    assert found["job"]["objective"] == "classify"
    assert found["job"]["labels"] == 3
    assert found["time"]["step_s"] is None


def test_tokens_are_turned_into_steps() -> None:
    config = PlanConfig(model="lab", tokens=1_000_000, batch_tokens=2560)
    assert planned_job(config, "lab").steps == 391


def test_faster_devices_take_less_time() -> None:
    job = planned_job(PlanConfig(model="modern-small", batch_tokens=16_384), "modern-small")
    times = {
        name: step_seconds(job, device, target_on(device, "auto"))
        for name, device in known_devices().items()
    }
    order = ("laptop-cpu", "gtx-1050-ti", "t4", "rtx-3060", "rtx-4090", "a100-80", "h200")
    found = [times[name] for name in order]
    assert found == sorted(found, reverse=True)


def test_formulas_give_the_figures() -> None:
    found = figures("plan vaswani-base --on h200")["flops"]["per_token"]
    assert found["vocabulary head"]["formula"] == "½ · 2DV"
    assert found["vocabulary head"]["forward"] == 512 * 37_000
    assert found["encoder projections"]["forward"] == 6 * 8 * 512**2 / 2


def test_plan_is_a_verb_of_python() -> None:
    found = warmstart.plan(model="lab", on="a100-80", optimizer="adamw")
    assert found.parameters == 21_018_401
    assert found.memory.optimizer == 8 * 21_018_401


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.5, "0.5 s"), (45, "45 s"), (600, "10 minutes"), (7200, "2 hours"), (864_000, "10 days")],
)
def test_times_are_written_as_people_plan(seconds: float, said: str) -> None:
    assert long_time(seconds) == said
