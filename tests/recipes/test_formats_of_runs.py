"""Runs of the format before this one: finished ones are used, unfinished ones are not resumed."""

import shutil
from pathlib import Path

import pytest

from command_line import TINY, World, read, refuse, run, stop_at, succeed
from warmstart.files import write_json
from warmstart.runs.folder import FORMAT


def _set_format(folder: Path, number: int) -> None:
    write_json(folder / "config.json", read(folder / "config.json") | {"format": number})


@pytest.mark.parametrize(
    "command",
    [
        "predict {run} {texts} --device cpu",
        "evaluate {run} --test {test} --device cpu",
        "export {run} --to onnx -o {out}",
        "finetune --from {run} --train {test} --valid {test} -o {out} --epochs 1 --threads 1",
    ],
)
def test_a_finished_run_of_the_format_before_is_used(
    command: str, warm: Path, world: World, tmp_path: Path
) -> None:
    old = shutil.copytree(warm, tmp_path / "old")
    places = {"texts": world.texts, "test": world.test}
    _set_format(old, FORMAT - 1)
    was, now = (run(command, run=r, out=tmp_path / f"{r.name}-out", **places) for r in (old, warm))
    assert (was.code, now.code) == (0, 0), was.err
    if command.startswith("predict"):
        assert was.out == now.out


def test_a_finished_run_of_the_format_before_stays_finished(base: Path, tmp_path: Path) -> None:
    old = shutil.copytree(base, tmp_path / "old")
    _set_format(old, FORMAT - 1)
    ran = succeed(f"pretrain --config {old}/config.json -o {old} --resume")
    assert "already finished" in ran.err


def test_an_unfinished_run_of_the_format_before_is_not_resumed(world: World, here: Path) -> None:
    command = f"pretrain {world.texts} -o run {TINY} --save-every 2"
    stop_at(3, command)
    _set_format(here / "run", FORMAT - 1)
    before = sorted(here.rglob("*"))
    assert f"run format {FORMAT - 1}, now {FORMAT}" in refuse(f"{command} --resume")
    assert sorted(here.rglob("*")) == before


def test_a_run_of_a_later_version_is_refused(base: Path, world: World, tmp_path: Path) -> None:
    later = shutil.copytree(base, tmp_path / "later")
    config = read(later / "config.json") | {"format": FORMAT + 1, "warmstart": "7.0"}
    write_json(later / "config.json", {**config, "model": "elsewhere"})
    said = refuse(f"predict {later} {world.texts}")
    assert f"run format {FORMAT + 1}" in said
    assert "warmstart '7.0' reads it" in said
