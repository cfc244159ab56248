"""A few kills of the kind that `make chaos` makes by the hundred."""

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from command_line import World, read, run, succeed
from warmstart.errors import WarmstartError
from warmstart.runs.folder import RunFolder
from warmstart.verify.resume import KilledJob, kill_and_resume, traces

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def races(benchmark_module: Callable[[str], ModuleType]) -> ModuleType:
    return benchmark_module("races")


def test_a_killed_run_is_resumed_to_the_same_end(here: Path) -> None:
    ran = succeed("verify-resume --kills 1 --steps 60 --save-every 2 --threads 1 --device cpu")
    assert ran.out.strip().splitlines()[-1] == "1/1 identical"
    assert ran.err.count("resumed from step ") == 1
    assert "resumed from step 0" not in ran.err
    assert list(here.iterdir()) == []


def test_a_run_that_differs_is_found_out(base: Path, here: Path) -> None:
    run_folder = RunFolder(shutil.copytree(base, here / "run"))
    before = traces(run_folder)
    assert before == traces(RunFolder(base))
    weights = bytearray(run_folder.weights_file.read_bytes())
    weights[-1] ^= 1
    run_folder.weights_file.write_bytes(weights)
    lines = run_folder.metrics_file.read_text()
    run_folder.metrics_file.write_text(lines.replace('"step": 6', '"step": 7'))
    after = traces(run_folder)
    found = {name for name in before if before[name] != after[name]}
    assert found == {"model.safetensors", "metrics.jsonl"}


def test_a_clock_makes_no_difference(base: Path, here: Path) -> None:
    run_folder = RunFolder(shutil.copytree(base, here / "run"))
    lines = [json.loads(line) for line in run_folder.metrics_file.read_text().splitlines()]
    slower = [{**line, "elapsed_s": 99.0} if "elapsed_s" in line else line for line in lines]
    run_folder.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in slower))
    assert traces(run_folder) == traces(RunFolder(base))


def test_a_job_that_fails_is_told(tmp_path: Path) -> None:
    job = KilledJob("pretrain", {"files": ["gone.txt"]})
    with pytest.raises(WarmstartError, match=r"the run failed: gone\.txt does not exist"):
        list(kill_and_resume(job, 1, random.Random(0), tmp_path))


def test_a_session_ends_with_the_process_that_verifies(world: World, here: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from warmstart.verify.sessions import Session
settings = {"files": [sys.argv[1]], "out": "run", "preset": "tiny", "steps": 10**6, "threads": 1}
print(Session("pretrain", settings, Path("log")).pid, flush=True)
time.sleep(600)
"""
    arguments = [sys.executable, "-c", script, str(world.texts)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        while not (here / "run/config.json").exists():
            time.sleep(0.01)
        process.kill()
    until = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_results_of_another_command_are_refused(here: Path) -> None:
    (here / "config.json").write_text('{"command": "predict", "settings": {}}')
    ran = run("verify-resume config.json")
    assert ran.code == 2
    assert "predict" in ran.said
    assert read(here / "config.json")["command"] == "predict"


def test_kills_and_races_lose_nothing(world: World, races: ModuleType, tmp_path: Path) -> None:
    job = races.FolderJob("tokenizer", {"files": [str(world.texts)], "vocab_size": 300})
    arena = races.Arena(tmp_path, random.Random(0))
    trials = list(races.run_trials(arena, [job], 8))
    assert [trial.faults for trial in trials] == [[]] * 8


def test_what_is_lost_is_found(races: ModuleType, tmp_path: Path) -> None:
    arena = races.Arena(tmp_path, random.Random(0))
    arena.reset("empty")
    (arena.destination / "whole").write_text("whole")
    arena.expected["tokenizer"] = races.contents(arena.destination)
    assert arena.faults(["tokenizer"]) == []
    (arena.destination / "whole").write_text("half")
    assert arena.faults(["tokenizer"]) == ["the destination holds ['whole']"]
    arena.reset("absent")
    (arena.destination.parent / ".notes.tmp").unlink()
    assert arena.faults(["tokenizer"]) == [".notes.tmp is gone"]
