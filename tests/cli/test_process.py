"""Commands in a process of their own: exit codes, streams, and stopping."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import (
    ENVIRONMENT,
    MACHINE,
    QUICK,
    SHAPE,
    TINY,
    World,
    arguments_of,
    read,
    refuse,
    run,
    succeed,
    weights_of,
)
from forked_commands import Forked, fork, stop_when

LONG = f"{SHAPE} --batch-tokens 64 --steps 200 --save-every 20 --dropout 0.1 {MACHINE}"


def test_a_mistake_is_one_line_on_standard_error(here: Path) -> None:
    ran = fork(f"pretrain gone.txt -o out {TINY}")
    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err == f"warmstart: gone.txt does not exist: there is nothing like it in {Path.cwd()}\n"
    )
    assert list(here.iterdir()) == []


def test_an_argument_that_is_no_text_is_one_line(base: Path) -> None:
    ran = fork("generate {base} --prompt '{prompt}'", base=base, prompt=os.fsdecode(b"bad \xff"))
    assert ran.code == 2
    assert ran.err == "warmstart: --prompt 'bad \\udcff' is not UTF-8 text\n"


def test_results_go_to_standard_output_and_progress_to_standard_error(
    world: World, here: Path
) -> None:
    ran = fork(f"pretrain {world.texts} -o run {TINY}")
    assert ran.code == 0
    assert "validation perplexity" in ran.out
    assert "wrote run" in ran.out
    assert "pretraining: 6/6" in ran.err
    assert "Warning" not in ran.err


def test_help_needs_no_torch_and_predictions_no_library_but_torch() -> None:
    code = (
        "import sys; sys.argv = ['warmstart', 'pretrain', '--help']\n"
        "from warmstart.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules\n"
        "import warmstart.recipes.use\n"
        "assert not {'sklearn', 'scipy', 'matplotlib', 'pyarrow', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=ENVIRONMENT)


@pytest.mark.parametrize("name", ["WORLD_SIZE", "RANK"])
def test_a_variable_of_a_launcher_that_is_no_number_is_one_line(
    world: World, here: Path, name: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "warmstart", "finetune", "--train", world.train, "-o", "run"],
        check=False,
        capture_output=True,
        text=True,
        env={**ENVIRONMENT, "WORLD_SIZE": "2", "RANK": "0", name: "abc"},
    )
    assert ran.returncode == 2
    sentence = f"warmstart: the variable {name} is 'abc'; a launcher sets it to a number"
    assert ran.stderr.splitlines() == [sentence]


def test_a_library_that_does_not_fit_into_memory_is_one_line() -> None:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))\n"
        "sys.argv = ['warmstart', 'params', 'lab']\n"
        "from warmstart.cli.main import main; main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert line.startswith("warmstart: a library cannot be loaded (")
    assert line.endswith(
        "raise the limit of memory (ulimit -v), or install it where programs may run"
    )


@pytest.mark.parametrize("arguments", [["--help"], [], ["look", "--help"]])
def test_a_list_of_commands_builds_none_of_them(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['warmstart', *{arguments}]\n"
        "from warmstart.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT)
    loaded = set(ran.stderr.split())
    assert not {"torch", "numpy", "asyncio", "tomllib", "multiprocessing"} & loaded
    own = {name for name in loaded if name.startswith("warmstart.")}
    assert not {"warmstart.settings.base", "warmstart.cli.commands", "warmstart.cli.options"} & own
    assert len(own) <= 12  # each more is waited for at every --help


def test_a_reader_that_goes_away_is_no_error(world: World, warm: Path) -> None:
    command = arguments_of(f"predict {warm} {world.texts} --json")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        err = process.stderr.read().decode()
    assert err == ""


def test_a_pretraining_killed_and_resumed_equals_one_that_was_not(world: World, here: Path) -> None:
    command = f"pretrain {world.texts} -o cut {LONG}"
    stopped = stop_when(lambda: (here / "cut/checkpoints/step-20").exists(), command)
    assert stopped.code == 143, stopped
    assert "--resume" in stopped.said
    assert run(command).code == 2
    resumed = succeed(f"{command} --resume")
    assert "continuing from step " in resumed.err
    succeed(f"pretrain {world.texts} -o whole {LONG}")
    assert weights_of(here / "cut") == weights_of(here / "whole")
    steps = [line.split(",")[0] for line in (here / "cut/metrics.jsonl").read_text().splitlines()]
    whole = (here / "whole/metrics.jsonl").read_text().splitlines()
    assert steps == [line.split(",")[0] for line in whole]
    assert not (here / "cut/cache").exists()


def test_a_fine_tuning_killed_and_resumed_equals_one_that_was_not(
    world: World, base: Path, here: Path
) -> None:
    options = f"--epochs 20 --batch-size 4 --save-every 20 {MACHINE}"
    command = f"finetune --from {base} --train {world.train} --valid {world.valid} {options} -o"
    stopped = stop_when(lambda: (here / "cut/checkpoints/step-20").exists(), f"{command} cut")
    assert stopped.code == 143, stopped
    assert "continuing from step " in succeed(f"{command} cut --resume").err
    succeed(f"{command} whole")
    assert weights_of(here / "cut") == weights_of(here / "whole")
    both = [read(here / name / "scores.json")["valid"] for name in ("cut", "whole")]
    assert both[0] == both[1]


def test_a_comparison_killed_and_resumed_equals_one_that_was_not(
    world: World, base: Path, here: Path
) -> None:
    options = f"--epochs 4 --batch-size 8 --seeds 0 --trials 2 --arms warm,cold,tfidf {MACHINE}"
    files = f"--train {world.train} --valid {world.valid} --test {world.test}"
    command = f"compare --from {base} {files} {options} -o"
    cells = here / "cut" / "cells"
    stopped = stop_when(lambda: any(cells.glob("*.json")), f"{command} cut")
    kept = {cell: cell.stat().st_mtime_ns for cell in cells.glob("*.json")}
    assert not (here / "cut/results.json").exists()
    succeed(f"{command} cut --resume")
    assert all(cell.stat().st_mtime_ns == when for cell, when in kept.items())
    succeed(f"{command} whole")
    both = [untimed(read(here / name / "results.json")) for name in ("cut", "whole")]
    assert both[0] == both[1]
    assert stopped.code == 143, stopped  # also when it stops between two cells
    assert "--resume" in stopped.said


def untimed(value: object) -> object:
    """Leave out what a clock measured."""
    if isinstance(value, dict):
        return {k: untimed(v) for k, v in value.items() if not k.endswith(("_s", "sentence"))}
    return [untimed(item) for item in value] if isinstance(value, list) else value


def test_two_processes_do_not_write_one_run(world: World, here: Path) -> None:
    command = f"pretrain {world.texts} -o run {LONG}".replace("--steps 200", "--steps 100000")
    other = Forked(command)
    try:
        other.wait_until((here / "run/checkpoints/step-20").exists)
        assert "in use" in refuse(f"{command} --resume")
    finally:
        assert other.end(signal.SIGKILL).code == -signal.SIGKILL


def test_a_folder_of_something_else_is_left_alone(world: World, base: Path, here: Path) -> None:
    (here / "run").mkdir()
    (here / "run" / "notes.txt").write_text("mine")
    files = f"--train {world.train} --valid {world.valid}"
    ran = run(f"finetune --from {base} {files} -o run {QUICK} --resume")
    assert ran.code == 2
    assert (here / "run" / "notes.txt").read_text() == "mine"
