import json
from pathlib import Path

import pytest

import warmstart
from command_line import World, figures, refuse, run, succeed
from warmstart.planning.commands import PlanPretrainConfig
from warmstart.planning.devices import known_devices, step_seconds, target_on
from warmstart.planning.job import planned_pretraining
from warmstart.planning.plan import long_time
from warmstart.runs.folder import FORMAT

SMALL = "plan tiny --vocab-size 300 --width 16 --heads 2 --depth 1 --ffn-width 32 --max-length 16"


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


@pytest.mark.slow
def test_the_reading_of_a_frozen_backbone_is_measured_here(world: World, masked: Path) -> None:
    texts = f"--train {world.train} --valid {world.valid}"
    found = figures(f"plan finetune {texts} --from {masked} --frozen --seconds 0.1 --threads 1")
    files = (world.train, world.valid)
    num_texts = sum(len(file.read_text().splitlines()) - 1 for file in files)
    row_s = found["time"]["step_s"] / found["job"]["rows"]
    assert found["time"]["total_s"] == pytest.approx(num_texts * row_s)
    assert f"to read {num_texts} texts once on this machine's CPU" in found["sentences"][2]


def test_what_does_not_fit_is_told_how_to() -> None:
    job = "plan vaswani-base --on gtx-1050-ti --batch-tokens 50000"
    found = figures(job)
    assert not found["fits"]
    assert found["precision"] == "fp32"
    tokens = found["largest_micro_tokens"]
    assert f"lower --micro-tokens to {tokens:,}" in found["sentences"][1]
    less = figures(f"{job} --micro-tokens {tokens}")
    assert less["fits"]
    never = figures("plan vaswani-big --on gtx-1050-ti --depth 24")
    assert "a single row is too much" in never["sentences"][1]
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
        ("plan {empty}", "not a run folder"),
        ("plan lab --steps 5 --tokens 5", "are mutually exclusive"),
        ("plan pretrain --objective classify --on h200", "--objective 'classify' is unknown"),
        ("plan pretrain --objective causal --nsp --on h200", "--nsp has no effect"),
        ("plan finetune --frozen --on h200", "--frozen needs --from"),
        ("plan train-translator --source a.txt --target b.txt --train c.tsv", "--train holds both"),
    ],
)
def test_errors_name_what_is_wrong(command: str, said: str, tmp_path: Path) -> None:
    assert said in refuse(command, empty=tmp_path)


def test_a_run_is_planned_as_what_it_is(tmp_path: Path, warm: Path, masked: Path) -> None:
    found = figures("plan {run} --no-measure", run=warm)
    assert (found["command"], found["job"]["task"]) == ("finetune", "classify")
    assert found["time"]["step_s"] is found["steps"] is None
    found = figures("plan {run} --on h200", run=masked)
    assert (found["command"], found["settings"]["from"]) == ("pretrain", str(masked))
    step = next((masked / "checkpoints").iterdir())
    at_step = figures("plan {run} --on h200", run=step)
    assert at_step["parameters"] == found["parameters"]
    facts = {"command": "compare", "settings": {}, "model": {}, "task": "tfidf", "format": FORMAT}
    (tmp_path / "config.json").write_text(json.dumps(facts))
    ran = run("plan {run} --on h200", run=tmp_path)
    assert ran.code == 2


def _step_seconds(name: str, precision: str = "auto") -> float:
    device = known_devices()[name]
    config = PlanPretrainConfig(preset="modern-small", batch_tokens=16_384)
    job = planned_pretraining(config, device.kind).job
    return step_seconds(job, device, target_on(device, precision))


def test_faster_devices_take_less_time() -> None:
    order = ("laptop-cpu", "gtx-1050-ti", "rtx-3060", "rtx-4090", "a100-80", "h200")
    times = list(map(_step_seconds, order))
    assert times == sorted(times, reverse=True)


def test_a_device_without_bf16_trains_in_fp16_if_that_is_faster() -> None:
    assert _step_seconds("t4") == _step_seconds("t4", "fp16") < _step_seconds("t4", "fp32")
    assert _step_seconds("p100") == _step_seconds("p100", "fp32")
    assert figures("plan tiny --on t4")["precision"] == "fp16"


def test_minutes_are_turned_into_steps() -> None:
    short, long = (figures(f"plan tiny --on t4 --minutes {minutes}") for minutes in (1, 4))
    assert long["steps"] == pytest.approx(4 * short["steps"], abs=4)
    assert any("fit into --minutes 4 on one Tesla T4" in line for line in long["sentences"])
    assert long["time"]["total_s"] <= 240


def test_formulas_give_the_figures() -> None:
    found = figures("plan vaswani-base --on h200")["flops"]["per_token"]
    assert found["vocabulary head"]["formula"] == "½ · 2DV"
    assert found["vocabulary head"]["forward"] == 512 * 37_000
    assert found["encoder projections"]["forward"] == 6 * 8 * 512**2 / 2


@pytest.mark.parametrize(("objective", "is_masked"), [("masked", True), ("causal", False)])
def test_the_planned_command_is_said(objective: str, is_masked: bool) -> None:
    said = figures(f"plan tiny --on t4 --objective {objective} --steps 9")["sentences"][0]
    assert said.startswith(f"planned: pretrain --objective {objective} --preset tiny ")
    assert ("--mask-rate 0.3" in said) == is_masked
    again = figures(f"plan {said.removeprefix('planned: ')} --on t4")
    assert again["sentences"][0] == said


def test_what_is_not_counted_is_said() -> None:
    said = figures("plan tiny --on t4 --checkpoint-activations")["sentences"]
    assert said[-1] == "--checkpoint-activations is not counted"


def test_plan_is_a_verb_of_python() -> None:
    plan = warmstart.plan("lab", on="a100-80", optimizer="adamw")
    assert plan.parameters == 21_018_401
    assert plan.memory.optimizer == 8 * 21_018_401
    same = warmstart.plan_pretrain(preset="lab", on="a100-80", optimizer="adamw")
    assert same.settings == plan.settings
    with pytest.raises(warmstart.WarmstartError, match="did you mean 'optimizer'"):
        warmstart.plan("lab", optimiser="adamw")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.5, "0.5 s"), (45, "45 s"), (600, "10 minutes"), (7200, "2 hours"), (864_000, "10 days")],
)
def test_times_are_written_as_people_plan(seconds: float, said: str) -> None:
    assert long_time(seconds) == said
