"""The commands that train, in several processes: one run folder, one voice."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import TCPStore
from torch.distributed.rendezvous import rendezvous

from command_line import MACHINE, SHAPE, Ran, World, read, refuse, run, succeed
from forked_commands import Forked
from several_processes import (
    free_port,
    read_ran,
    run_at,
    run_command,
    run_on_machines,
    run_together,
    run_with_other_code,
    start_launcher,
)
from warmstart.processes import LAUNCHER
from warmstart.runs.checkpoint import list_checkpoints
from warmstart.runs.folder import RunFolder
from warmstart.verify.resume import started_by

pytestmark = pytest.mark.slow

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
SHARDED = {
    "sharded pretrain": f"{PRETRAIN} --objective masked --shard",
    "sharded finetune": f"{FINETUNE} --shard --checkpoint-activations",
    "sharded train-translator": f"{TRANSLATE} --optimizer adamw --average 2 --shard",
}


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


@pytest.mark.parametrize("name", [*COMMANDS, *SHARDED])
def test_two_processes_write_the_run_of_one(
    name: str, places: dict[str, str], tmp_path: Path
) -> None:
    alone, together = RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "together")
    command = (COMMANDS | SHARDED)[name]
    succeed(command, **places, out=alone.path)
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
    codes = run_together(3, run_command, PRETRAIN, tmp_path, at=3, **places, out=out)
    assert codes == [143] * 3
    assert "stopped at step 3, saved in" in read_ran(tmp_path, 3)[0].said
    assert [ran.err for ran in read_ran(tmp_path, 3)[1:]] == ["", ""]
    assert [path.name for path in list_checkpoints(together)] == ["step-3"]
    succeed(f"{PRETRAIN} --resume", **places, out=out)
    assert _losses(together) == pytest.approx(_losses(alone), rel=1e-4)


def test_a_restart_continues_from_the_last_checkpoint(
    places: dict[str, str], tmp_path: Path
) -> None:
    """What `torchrun --max-restarts` does: the store of keys outlives the processes.

    The second machine is a new one in each attempt: its launcher has counted no restart.
    """
    alone, together = RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "together")
    succeed(PRETRAIN, **places, out=alone.path)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    words = f"{PRETRAIN} --save-every 2".format(**places, out=together.path)
    for attempt, codes in enumerate(([2, -signal.SIGKILL], [0, 0])):
        variables = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
        kill = {"at": 0 if attempt else 4, "number": signal.SIGKILL}
        # The other must not take the addresses of the first attempt for those of this one.
        work = partial(run_command, words, tmp_path, num_restarts=attempt, **kill)
        assert run_at(store.port, variables, 2, work) == codes
        if attempt == 0:
            assert "step 2 is safe" in read_ran(tmp_path, 1)[0].said
    assert "continuing from step 2 of 6" in read_ran(tmp_path, 1)[0].err
    assert _losses(together) == pytest.approx(_losses(alone), rel=1e-4)


def test_a_sharded_run_needs_an_optimizer_that_shares_its_state(
    places: dict[str, str], tmp_path: Path
) -> None:
    command = f"{PRETRAIN} --optimizer muon --shard"
    out = str(tmp_path / "run")
    assert run_together(2, run_command, command, tmp_path, **places, out=out) == [2, 2]
    said = [ran.said for ran in read_ran(tmp_path, 2)]  # one may hear of it from the other
    assert any("--shard needs --optimizer adamw" in line for line in said)


@pytest.mark.parametrize("flag", ["--shard", "--checkpoint-activations"])
def test_what_compilation_cannot_be_combined_with(
    flag: str, places: dict[str, str], tmp_path: Path
) -> None:
    assert f"--compile does not work with {flag}" in refuse(
        f"{PRETRAIN} --compile {flag}", **places, out=tmp_path / "run"
    )


def test_an_error_is_one_sentence(places: dict[str, str], tmp_path: Path) -> None:
    codes = run_together(
        2, run_command, PRETRAIN, tmp_path, texts="gone.txt", out=str(tmp_path / "run")
    )
    assert codes[0] == 2
    told = [(tmp_path / f"{rank}.json").exists() for rank in range(2)]
    assert told[0]
    assert "gone.txt" in read_ran(tmp_path, 1)[0].said
    assert not (tmp_path / "run").exists()


def _run_as(
    rank: str, port: int, places: dict[str, str], tmp_path: Path, patched: pytest.MonkeyPatch
) -> Ran:
    variables = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    for name, value in {**variables, "MASTER_PORT": str(port)}.items():
        patched.setenv(name, value)
    return run(PRETRAIN, **places, out=tmp_path / "run")


def test_a_port_in_use_is_told(
    places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        ran = _run_as("0", port, places, tmp_path, monkeypatch)
    assert ran.code == 2
    assert f"cannot meet the other processes at 127.0.0.1:{port}" in ran.said
    assert not (tmp_path / "run").exists()


def test_a_wrong_variable_is_told(
    places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = _run_as("first", 1, places, tmp_path, monkeypatch)
    assert ran.code == 2
    assert "the variable RANK is 'first'" in ran.said


def test_processes_with_other_code_are_refused(places: dict[str, str], tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    codes = run_together(2, run_with_other_code, PRETRAIN, tmp_path, **places, out=out)
    assert codes == [2, 2]
    _assert_told("process 1 of 2 has other code than process 0: give every machine", tmp_path)


@pytest.fixture
def machines(places: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Copy the files to folders of two machines; return their names there."""
    for number in range(2):
        (tmp_path / f"machine-{number}").mkdir()
        for path in places.values():
            shutil.copy(path, tmp_path / f"machine-{number}")
    return {name: Path(path).name for name, path in places.items()}


@pytest.mark.parametrize("name", ["train", "valid"])
def test_a_machine_with_another_file_is_refused(
    name: str, machines: dict[str, str], tmp_path: Path
) -> None:
    with (tmp_path / "machine-1" / machines[name]).open("a") as file:
        file.write("positive\tOne more.\n")
    out = str(tmp_path / "run")
    assert run_together(2, run_on_machines, FINETUNE, tmp_path, **machines, out=out) == [2, 2]
    _assert_told(f"{machines[name]} is another file on", tmp_path)


def test_a_machine_that_does_not_see_the_run_is_told(
    machines: dict[str, str], tmp_path: Path
) -> None:
    codes = run_together(2, run_on_machines, PRETRAIN, tmp_path, **machines, out="run")
    assert codes == [2, 2]
    _assert_told("run is not visible to process 1 on", tmp_path)


def _assert_told(complaint: str, folder: Path) -> None:
    """One process tells why both end; which one does is a matter of chance."""
    assert any(complaint in ran.said for ran in read_ran(folder, 2)), read_ran(folder, 2)


def test_processes_that_start_while_their_launcher_is_killed_end_at_once(
    places: dict[str, str], tmp_path: Path
) -> None:
    killed = subprocess.Popen(["true"])
    killed.wait()
    variables = {"TORCHELASTIC_RUN_ID": "any", LAUNCHER: str(killed.pid)}
    words = f"{PRETRAIN} --steps 100000".format(**places, out=tmp_path / "run")
    assert run_at(free_port(), variables, 2, partial(run_command, words, tmp_path)) == [143, 143]


def test_an_unreachable_address_is_tried_once(
    places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def recorded(url: str, **given: Any) -> Iterator[Any]:
        tried.append(url)
        return rendezvous(url, **given)

    monkeypatch.setattr("warmstart.processes.rendezvous", recorded)
    monkeypatch.setattr("warmstart.processes.CONNECT", timedelta(seconds=1))
    ran = _run_as("1", 1, places, tmp_path, monkeypatch)  # nobody listens at port 1
    assert ran.code == 2
    assert "cannot meet the other processes at 127.0.0.1:1 (" in ran.said
    assert "check the address, and that the port is free and reachable" in ran.said
    assert len(tried) == 1


def test_processes_that_cannot_be_started_are_told(
    places: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    said = refuse(f"{PRETRAIN} --processes 2", **places, out=tmp_path / "run")
    assert "--processes 2: none could be started: " in said
    assert "/nowhere/python" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_processes_are_auto_or_a_number(value: str, places: dict[str, str], tmp_path: Path) -> None:
    assert f"--processes {value} is not allowed: give auto or a number" in refuse(
        f"{PRETRAIN} --processes={value}", **places, out=tmp_path / "run"
    )


ENDLESS = f"{PRETRAIN} --steps 100000 --eval-every 100000"


def _has_begun(out: Path) -> bool:
    metrics = RunFolder(out).metrics_file
    return metrics.exists() and metrics.stat().st_size > 0


def test_processes_save_and_end_when_their_launcher_is_killed(
    places: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    words = ENDLESS.format(**places, out=out)
    launcher = start_launcher(2, partial(run_command, words, tmp_path))
    until = time.monotonic() + 60
    while launcher.is_alive() and not _has_begun(out) and time.monotonic() < until:
        time.sleep(0.01)
    assert launcher.pid is not None
    started = started_by(launcher.pid)
    launcher.kill()
    while any(Path(f"/proc/{pid}").exists() for pid in started) and time.monotonic() < until:
        time.sleep(0.01)
    assert len(started) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)
    assert len(list_checkpoints(RunFolder(out))) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_the_launcher_starts_them_and_passes_a_signal_on(
    number: signal.Signals, places: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    launcher = Forked(f"{ENDLESS} --processes 2 --resume", **places, out=out)
    launcher.wait_until(lambda: _has_begun(out))
    ran = launcher.end(number)
    assert ran.code == 128 + number, ran.err
    assert ran.out == ""
    assert ran.said.startswith("warmstart: stopped at step")
    assert ran.err.count("warmstart: stopped at step") == 1, ran.err
    assert "torch" not in ran.err
    step = int(list_checkpoints(RunFolder(out))[-1].name.removeprefix("step-"))
    succeed(f"{PRETRAIN} --steps {step + 2} --eval-every 100000 --resume", **places, out=out)
    assert read(out / "scores.json")["valid"]["step"] == step + 2
