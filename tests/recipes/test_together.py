"""The commands that train, in several processes: one run folder, one voice."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from product import ENVIRONMENT, MACHINE, SHAPE, World, arguments_of, read, run, succeed
from together import read_ran, run_command, run_together
from warmstart.runs.checkpoint import list_checkpoints
from warmstart.runs.folder import RunFolder

PRETRAIN = (
    f"pretrain {{texts}} {SHAPE} --dropout 0 --batch-tokens 96 --steps 6 --eval-every 4 "
    f"--log-every 1 --optimizer adamw {MACHINE} -o {{out}}"
)
FINETUNE = (
    f"finetune --train {{train}} --valid {{valid}} {SHAPE} --dropout 0 --classifier-dropout 0 "
    f"--epochs 1 {MACHINE} -o {{out}}"
)
TRANSLATE = (
    "train-translator --source {texts} --target {texts} --valid-source {texts} "
    "--valid-target {texts} --preset translator-small --width 16 --heads 2 --depth 1 "
    "--decoder-depth 1 --ffn-width 32 --vocab-size 300 --max-length 90 --dropout 0 --samples 0 "
    f"--batch-tokens 512 --steps 4 --eval-every 2 {MACHINE} -o {{out}}"
)
COMMANDS = {"pretrain": PRETRAIN, "finetune": FINETUNE, "train-translator": TRANSLATE}


def _losses(run: RunFolder) -> list[float]:
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    return [line.get("train_loss", line.get("valid_loss")) for line in lines]


def _files(run: RunFolder) -> set[str]:
    return {path.name for path in run.path.iterdir()}


@pytest.fixture
def places(world: World, tmp_path: Path) -> dict[str, str]:
    """Return the files of a small training."""
    lines = world.texts.read_text().splitlines()[:60]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n")
    train, valid = str(world.train), str(world.valid)
    return {"texts": str(tmp_path / "texts.txt"), "train": train, "valid": valid}


@pytest.mark.parametrize("name", COMMANDS)
def test_two_processes_write_the_run_of_one(
    name: str, places: dict[str, str], tmp_path: Path
) -> None:
    alone, together = RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "together")
    succeed(COMMANDS[name], **places, out=alone.path)
    command = COMMANDS[name]
    codes = run_together(2, run_command, command, tmp_path, **places, out=str(together.path))
    lead, follower = read_ran(tmp_path, 2)
    assert codes == [0, 0], lead.err
    assert follower.err == ""
    assert _files(together) == _files(alone)
    assert _losses(together) == pytest.approx(_losses(alone), rel=1e-4)
    assert together.config()["settings"] == alone.config()["settings"]


def test_a_signal_to_one_process_saves_the_run_and_another_number_resumes(
    places: dict[str, str], tmp_path: Path
) -> None:
    alone, together = RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "together")
    succeed(PRETRAIN, **places, out=alone.path)
    out = str(together.path)
    codes = run_together(3, run_command, PRETRAIN, tmp_path, stop_at=3, **places, out=out)
    assert codes == [143] * 3
    assert "stopped at step 3, saved in" in read_ran(tmp_path, 3)[0].said
    assert [ran.err for ran in read_ran(tmp_path, 3)[1:]] == ["", ""]
    assert [path.name for path in list_checkpoints(together)] == ["step-3"]
    succeed(f"{PRETRAIN} --resume", **places, out=out)
    assert _losses(together) == pytest.approx(_losses(alone), rel=1e-4)


def test_an_error_is_one_sentence(places: dict[str, str], tmp_path: Path) -> None:
    codes = run_together(
        2, run_command, PRETRAIN, tmp_path, texts="gone.txt", out=str(tmp_path / "run")
    )
    assert codes[0] == 2
    told = [(tmp_path / f"{rank}.json").exists() for rank in range(2)]
    assert told[0]
    assert "gone.txt" in read_ran(tmp_path, 1)[0].said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_processes_are_auto_or_a_number(value: str, places: dict[str, str], tmp_path: Path) -> None:
    ran = run(f"{PRETRAIN} --processes={value}", **places, out=tmp_path / "run")
    assert ran.code == 2
    assert f"--processes {value} is not allowed: give auto or a number" in ran.said


@pytest.mark.slow
def test_the_launcher_starts_them_and_passes_a_signal_on(
    places: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = f"{PRETRAIN} --steps 100000 --eval-every 100000 --processes 2 --resume"
    launcher = subprocess.Popen(
        arguments_of(command, **places, out=out),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )
    metrics = RunFolder(out).metrics_file
    while launcher.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.05)
    launcher.send_signal(signal.SIGTERM)
    printed, errors = launcher.communicate(timeout=60)
    assert launcher.returncode == 128 + signal.SIGTERM, errors
    assert printed == ""
    assert errors.splitlines()[-1].startswith("warmstart: stopped at step")
    assert errors.count("warmstart: stopped at step") == 1, errors
    assert "torch" not in errors
    step = int(list_checkpoints(RunFolder(out))[-1].name.removeprefix("step-"))
    succeed(f"{PRETRAIN} --steps {step + 2} --eval-every 100000 --resume", **places, out=out)
    assert read(out / "scores.json")["valid"]["step"] == step + 2
