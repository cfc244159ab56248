"""The analysis of the text that a pretraining keeps, on a CPU before it, on a GPU beside it."""

import os
import signal
import sys
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import warmstart
from command_line import World
from warmstart.recipes.analysis import Analysis
from warmstart.runs.folder import RunFolder
from warmstart.settings.training import PretrainConfig
from warmstart.tasks.latent_semantics import SPACE_FILE
from warmstart.training.trainer import Trainer


def analyse(world: World, folder: Path, device: str, is_lost: bool = False) -> bytes:
    folder.mkdir()
    config = PretrainConfig(files=(str(world.texts),), out=str(folder))
    with Analysis(config, RunFolder(folder)) as analysis:
        analysis.begin(device)
        if is_lost:
            assert analysis._pool is not None
            for process in analysis._pool._executor._processes.values():
                os.kill(process.pid, signal.SIGTERM)
        analysis.finish()
    return (folder / SPACE_FILE).read_bytes()


def test_a_process_beside_the_training_finds_the_same(world: World, tmp_path: Path) -> None:
    before = analyse(world, tmp_path / "before", "cpu")
    assert analyse(world, tmp_path / "beside", "cuda") == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_if_the_process_is_lost_the_text_is_analysed_here(world: World, tmp_path: Path) -> None:
    before = analyse(world, tmp_path / "before", "cpu")
    assert analyse(world, tmp_path / "lost", "cuda", is_lost=True) == before


def test_a_text_that_is_gone_by_the_end_costs_no_training(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "texts.txt"
    text.write_bytes(world.texts.read_bytes())

    def build(*given: Any) -> Trainer:
        text.unlink()
        return Trainer(*given)

    monkeypatch.setattr("warmstart.recipes.pretrain.Trainer", build)
    out = tmp_path / "run"
    warmstart.pretrain(
        files=str(text), out=str(out), preset="tiny", vocab_size=300, steps=2, device="cpu"
    )
    assert (out / "scores.json").exists()
    assert (out / SPACE_FILE).exists()


def test_an_analysis_that_fails_beside_the_training_costs_nothing_but_itself(
    world: World, tmp_path: Path
) -> None:
    text = tmp_path / "texts.txt"
    text.write_bytes(world.texts.read_bytes())
    config = PretrainConfig(files=(str(text),), out=str(tmp_path))
    text.unlink()
    with Analysis(config, RunFolder(tmp_path)) as analysis:
        analysis.begin("cuda")
        analysis.finish()
    assert not (tmp_path / SPACE_FILE).exists()


def test_an_interrupted_run_keeps_what_was_found(world: World, tmp_path: Path) -> None:
    config = PretrainConfig(files=(str(world.texts),), out=str(tmp_path))
    with suppress(KeyboardInterrupt), Analysis(config, RunFolder(tmp_path)) as analysis:
        analysis.begin("cuda")
        assert analysis._found is not None
        analysis._found.result()
        raise KeyboardInterrupt
    before = (tmp_path / SPACE_FILE).stat()
    with Analysis(config, RunFolder(tmp_path)) as analysis:
        analysis.begin("cuda")
        analysis.finish()
    assert (tmp_path / SPACE_FILE).stat().st_mtime_ns == before.st_mtime_ns


def analyse_in_a_daemon(texts: str, folder: str) -> None:
    with Analysis(PretrainConfig(files=(texts,), out=folder), RunFolder(folder)) as analysis:
        analysis.begin("cuda")
        analysis.finish()


def test_where_no_process_can_be_started_the_text_is_analysed_here(
    world: World, tmp_path: Path
) -> None:
    work = (str(world.texts), str(tmp_path))
    process = get_context("spawn").Process(target=analyse_in_a_daemon, args=work, daemon=True)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert (tmp_path / SPACE_FILE).exists()
