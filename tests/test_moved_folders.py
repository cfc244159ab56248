"""A folder that is moved or exchanged while a job writes to it: nobody else's file is touched."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import MACHINE, SHAPE, World, before_step, read, run, succeed, weights_of
from warmstart.data import shards
from warmstart.data.corpus import Passage, TextSource, source_of
from warmstart.data.shards import ShardWriter, write_shards
from warmstart.errors import MovedFolderError, WarmstartError
from warmstart.files import (
    lock_destination,
    new_folder,
    remove_own,
    take_over,
    whole_file,
    write_whole,
)
from warmstart.interop import exchange
from warmstart.interop.hf_write import write_hf
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import claim_folder
from warmstart.tasks.finetuning import FinetuningTask
from warmstart.tasks.latent_semantics import SPACE_FILE
from warmstart.tasks.span_overlap import FILE as OVERLAP_FILE
from warmstart.tokenization.backends import train_tokenizer

STEPS = f"{SHAPE} --batch-tokens 64 --steps 12 --save-every 2 --eval-every 2 --keep 1 {MACHINE}"
NAMES = (
    *("model.safetensors", "config.json", "thesis.tex", "cache/train.bin", "cells/0.json"),
    *("checkpoints/step-2/thesis.tex", "checkpoints/step-4/model.safetensors"),
    *("checkpoints/step-6/state.json", "checkpoints/step-30/thesis.tex", "models/warm/config.json"),
)


class Disturbance:
    """Moves the folder of a job once, and knows what must be found there afterwards."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind, self.place = folder, kind, folder.parent.parent / "away"
        self.is_done = False

    def __call__(self) -> None:
        if self.is_done:
            return
        self.is_done = True
        match self.kind:
            case "renamed":
                self.folder.rename(self.place)
            case "replaced":
                self.folder.rename(self.place)
                self._lay_out(self.folder)
            case "link":
                self.folder.rename(self.place)
                self._lay_out(self.folder.parent / "other")
                self.folder.symlink_to("other")
            case "parent":
                self.folder.parent.rename(self.place)
                self._lay_out(self.folder)
                self.place /= self.folder.name
            case "removed":
                shutil.rmtree(self.folder.parent)

    def _lay_out(self, folder: Path) -> None:
        for name in NAMES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"mine: {name}")

    def check(self) -> None:
        """Everything that took the place of the folder is there, and nothing else."""
        assert self.is_done
        if self.kind in ("renamed", "removed"):
            assert not self.folder.exists()
            return
        files = (path for path in self.folder.rglob("*") if path.is_file())
        contents = {path.relative_to(self.folder).as_posix(): path.read_text() for path in files}
        assert contents == {name: f"mine: {name}" for name in NAMES}


@pytest.fixture(params=["renamed", "replaced", "link", "parent", "removed"])
def disturb(request: pytest.FixtureRequest, here: Path) -> Iterator[Disturbance]:
    (here / "place").mkdir()
    disturbance = Disturbance(here / "place" / "out", request.param)
    yield disturbance
    disturbance.check()


def _check_sentence(sentence: str, disturb: Disturbance) -> None:
    moved = "was moved or removed" if disturb.kind == "removed" else f"was moved to {disturb.place}"
    assert f"out {moved} while it was written" in sentence


def test_a_training_stops_and_says_where_its_folder_is(world: World, disturb: Disturbance) -> None:
    with before_step(6, disturb):
        ran = run(f"pretrain {world.texts} --objective causal -o place/out {STEPS}")
    assert ran.code == 2
    _check_sentence(ran.said, disturb)
    if disturb.kind != "removed":
        assert "step 4 is safe" in ran.said
        assert f"-o {disturb.place} --resume" in ran.said


def test_a_training_continues_in_its_new_place(world: World, here: Path) -> None:
    command = f"pretrain {world.texts} --objective causal {STEPS} -o"
    with before_step(6, lambda: (here / "out").rename(here / "new")):
        assert run(f"{command} out").code == 2
    assert "continuing from step 4" in succeed(f"{command} new --resume").err
    succeed(f"{command} whole")
    assert weights_of(here / "new") == weights_of(here / "whole")


def test_a_comparison_stops(world: World, base: Path, disturb: Disturbance) -> None:
    files = f"--train {world.train} --valid {world.valid}"
    options = f"--epochs 1 --batch-size 8 --seeds 0 --trials 1 --arms tfidf,warm {MACHINE}"
    with before_step(1, disturb):
        ran = run(f"compare --from {base} {files} {options} -o place/out")
    assert ran.code == 2
    _check_sentence(ran.said, disturb)


@pytest.fixture(scope="module")
def exportable(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exportable") / "run"
    shape = SHAPE.replace("tiny", "mini").replace("sinusoidal", "rope")
    steps = f"--objective causal --batch-tokens 64 --steps 2 {MACHINE}"
    succeed(f"pretrain {world.texts} -o {folder} {shape} {steps}")
    return folder


def test_an_export_stops_and_leaves_nothing(
    exportable: Path, disturb: Disturbance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(request: Any) -> Any:
        result = write_hf(request)
        disturb()
        return result

    monkeypatch.setitem(exchange.FORMATS, "hf", ("transformers", write))
    ran = run(f"export {exportable} -o place/out")
    assert ran.code == 2
    _check_sentence(ran.said, disturb)
    assert not list(disturb.folder.parent.parent.rglob("*.warmstart-tmp"))


def test_tokenizing_stops(
    world: World, disturb: Disturbance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARS", 500)
    source = source_of([str(world.texts)], "line")

    class Moving(TextSource):
        def passages(self, *counts: Any) -> Iterator[Passage]:
            for number, passage in enumerate(source.passages(*counts)):
                if number == 100:
                    disturb()
                yield passage

    moving = Moving(**{name: getattr(source, name) for name in source.__dataclass_fields__})
    writer = ShardWriter(train_tokenizer(["a b c"], "bpe", 300))
    with pytest.raises(MovedFolderError) as caught, claim_folder("place/out", False) as claimed:
        write_shards(moving, writer, claimed.shards, None, {})
    _check_sentence(str(caught.value), disturb)


def test_an_evaluation_enters_no_scores_in_another_run(
    world: World, warm: Path, disturb: Disturbance, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(warm, disturb.folder)
    measure = FinetuningTask.evaluate

    def evaluate(*arguments: Any) -> Any:
        scores = measure(*arguments)
        disturb()
        return scores

    monkeypatch.setattr(FinetuningTask, "evaluate", evaluate)
    ran = run(f"evaluate place/out --test {world.test} {MACHINE}")
    assert ran.code == 2
    _check_sentence(ran.said, disturb)


@pytest.mark.parametrize("name", ["out", "link"])
def test_a_folder_that_is_written_once_stops(name: str, disturb: Disturbance, here: Path) -> None:
    (here / "link").symlink_to("place/out")
    path = here / "link" if name == "link" else disturb.folder

    def write() -> None:
        with new_folder(path) as temporary:
            write_whole(temporary / "file", b"ours")
            disturb()

    with pytest.raises(MovedFolderError):
        write()
    assert not list(here.rglob("*.warmstart-tmp"))


def test_a_link_that_is_turned_to_another_folder(world: World, here: Path) -> None:
    (here / "far").mkdir()
    other = write_whole(here / "other" / "model.safetensors", b"mine")
    (here / "link").symlink_to("far")

    def turn() -> None:
        (here / "link").unlink()
        (here / "link").symlink_to("other")

    with before_step(6, turn):
        ran = run(f"pretrain {world.texts} --objective causal -o link {STEPS}")
    assert ran.code == 2
    assert f"link was moved to {here / 'far'}" in ran.said
    assert [path.name for path in other.parent.iterdir()] == ["model.safetensors"]
    assert other.read_bytes() == b"mine"


def test_retention_deletes_only_checkpoints_of_the_run(world: World, here: Path) -> None:
    command = f"pretrain {world.texts} --objective causal -o out {STEPS}"
    checkpoints = here / "out" / "checkpoints"

    def visit() -> None:
        write_whole(checkpoints / "step-1" / "thesis.tex", b"mine")  # not a checkpoint
        write_whole(checkpoints / "step-4" / "notes.txt", b"mine")  # beside what the run wrote
        shutil.copytree(checkpoints / "step-4", checkpoints / "step-3")  # a copy of a checkpoint
        (checkpoints / "step-3" / "notes.txt").unlink()

    with before_step(6, visit):
        succeed(command)
    names = {path.relative_to(checkpoints).as_posix() for path in checkpoints.rglob("*")}
    assert {"step-1/thesis.tex", "step-4/notes.txt", "step-3/state.json"} <= names
    assert not {"step-2", "step-6", "step-8", "step-10"} & names
    assert read(checkpoints / "step-12" / "state.json")["step"] == 12


def test_a_folder_in_the_way_of_a_checkpoint_is_kept(world: World, here: Path) -> None:
    thesis = here / "out" / "checkpoints" / "step-8" / "thesis.tex"
    with before_step(6, lambda: write_whole(thesis, b"mine")):
        ran = run(f"pretrain {world.texts} --objective causal -o out {STEPS}")
    assert ran.code == 2
    assert "step-8 was written by another program in the meantime" in ran.said
    assert thesis.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("change", "is_gone"),
    [
        (lambda path: None, True),
        (lambda path: write_whole(path / SPACE_FILE, b"ours"), True),
        (lambda path: write_whole(path / OVERLAP_FILE, b"ours"), True),
        (lambda path: write_whole(path / "notes.txt", b"mine"), False),
        (lambda path: path.rename(path.with_name("moved")), False),
        (lambda path: shutil.copytree(path.rename(path.with_name("moved")), path), False),
    ],
)
def test_only_what_the_job_wrote_is_removed(
    change: Callable[[Path], object], is_gone: bool, tmp_path: Path
) -> None:
    path = tmp_path / "step-1"
    write_whole(path / "model.safetensors", b"ours")
    change(path)
    before = sorted(tmp_path.rglob("*"))
    assert remove_own(path) == is_gone
    assert sorted(tmp_path.rglob("*")) == ([] if is_gone else before)


def test_a_run_that_was_moved_away_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with lock_destination(path):
        path.rename(tmp_path / "away")
        path.mkdir()
        with pytest.raises(MovedFolderError, match="was moved to"):
            RunFolder(path).config()


def test_what_an_earlier_process_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "step-1"
    path.mkdir()
    assert not remove_own(path)
    take_over([path])
    assert remove_own(path)
    assert not path.exists()


@pytest.mark.parametrize("kind", ["removed", "renamed", "replaced"])
def test_a_file_whose_folder_is_gone_says_so(tmp_path: Path, kind: str) -> None:
    def write() -> None:
        with whole_file(tmp_path / "a" / "table.csv"):
            (tmp_path / "a").rename(tmp_path / "b")
            if kind == "removed":
                shutil.rmtree(tmp_path / "b")
            elif kind == "replaced":
                (tmp_path / "a").mkdir()

    with pytest.raises(
        WarmstartError, match=r"a was moved or removed while table\.csv was written"
    ):
        write()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_mistake_of_a_failed_job_deletes_no_other_files(tmp_path: Path) -> None:
    def fail() -> None:
        with claim_folder(tmp_path / "out", False):
            write_whole(tmp_path / "out" / "config.json", b"ours")
            (tmp_path / "out" / "README.md").write_text("mine")
            raise WarmstartError("a mistake")

    with pytest.raises(WarmstartError, match="a mistake"):
        fail()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["README.md"]
