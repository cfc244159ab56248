"""--precision fp16: each training command skips steps, and resumes to the same weights."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import MACHINE, TINY, World, read, stop_at, succeed, weights_of
from toy_pairs import FILES, SHORT, Toy
from warmstart.training import loss_scale

FP16 = MACHINE.replace("fp32", "fp16")
COMMANDS = {
    "pretrain": f"pretrain {{texts}} {TINY}",
    "adamw": f"pretrain {{texts}} {TINY} --optimizer adamw",
    "finetune": "finetune --train {train} --valid {valid} --from {base} --epochs 1 --batch-size 8 "
    + MACHINE,
    "train-translator": f"train-translator {FILES} {SHORT} --average 1",
}


@pytest.fixture(scope="module", autouse=True)
def _high_scale() -> Iterator[None]:
    """Begin with a scale at which the first steps overflow."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loss_scale, "FIRST", loss_scale.MOST)
        yield


@pytest.fixture(scope="module", params=COMMANDS)
def command(request: pytest.FixtureRequest, world: World, toy: Toy, base: Path) -> str:
    """Return each command in turn, with fp16."""
    places = {**vars(world), **vars(toy), "base": base}
    return COMMANDS[request.param].replace(MACHINE, FP16).format(**places)


@pytest.fixture(scope="module")
def uninterrupted(command: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fp16") / "whole"
    ran = succeed(f"{command} -o {folder}")
    assert "changed nothing: a gradient was too large for fp16" in ran.err
    assert "fp16 is very slow on a CPU" in ran.err
    return folder


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_run_that_is_stopped_among_skipped_steps_ends_as_an_uninterrupted_one(
    command: str, uninterrupted: Path, here: Path, step: int
) -> None:
    stop_at(step, f"{command} -o run")
    succeed(f"{command} -o run --resume")
    assert weights_of(here / "run") == weights_of(uninterrupted)
    overflows = [read(run / "scores.json")["overflows"] for run in (here / "run", uninterrupted)]
    assert overflows[0] == overflows[1] > 1


def test_skipped_steps_are_in_the_card(uninterrupted: Path) -> None:
    num = read(uninterrupted / "scores.json")["overflows"]
    card = (uninterrupted / "README.md").read_text(encoding="utf-8")
    assert f"| steps skipped because fp16 overflowed | {num} |" in card
    assert "after a fault" not in card


def test_other_precisions_skip_nothing(base: Path) -> None:
    assert read(base / "scores.json")["overflows"] == 0
    assert "fp16" not in (base / "README.md").read_text(encoding="utf-8")


def test_vectors_are_near_those_of_fp32(base: Path, here: Path) -> None:
    ran = succeed(f"embed {base} --text 'a good film' --threads 1 --precision fp16 -o vectors.npy")
    found = re.search(r"fp16: the vectors .* deviate from fp32 by up to ([\d.]+)%", ran.err)
    assert found
    assert float(found[1]) <= 1.0
