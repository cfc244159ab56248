import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from warmstart.errors import StoppedError, WarmstartError
from warmstart.files import temporary_path, write_json, write_whole
from warmstart.runs.folder import FORMAT, RunFolder
from warmstart.runs.lifecycle import claim_folder

HOLDER = """
import sys
from warmstart.runs.lifecycle import claim_folder
with claim_folder(sys.argv[1], resume=sys.argv[2] == "resume"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def _held_elsewhere(path: Path, resume: bool) -> Iterator[subprocess.Popen[str]]:
    """Hold the folder in another process inside the block."""
    command = [sys.executable, "-c", HOLDER, str(path), "resume" if resume else "fresh"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def _begun(path: Path) -> RunFolder:
    run = RunFolder(path)
    config = {"format": FORMAT, "command": "pretrain", "settings": {}, "model": {}}
    write_json(run.config_file, config)
    return run


def test_a_new_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    for resume in (False, True):
        path = tmp_path / "runs" / str(resume)
        with claim_folder(path, resume) as run:
            assert run.path == path
            assert path.is_dir()
        assert path.is_dir()


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    with claim_folder(tmp_path, resume=False) as run:
        assert run.path == tmp_path


def test_an_existing_folder_is_refused_without_resume(tmp_path: Path) -> None:
    run = _begun(tmp_path / "run")
    with pytest.raises(WarmstartError, match=r"run already exists: add --resume"):
        claim_folder(run.path, resume=False).__enter__()
    assert run.config_file.exists()
    with claim_folder(run.path, resume=True):
        pass


@pytest.mark.parametrize("resume", [False, True])
def test_a_file_or_a_foreign_folder_is_left_alone(tmp_path: Path, resume: bool) -> None:
    thesis = write_whole(tmp_path / "work" / "thesis.tex", b"ten years of work")
    for path in (thesis, thesis.parent):
        with pytest.raises(WarmstartError, match=r"already exists|not a run folder|is a file"):
            claim_folder(path, resume).__enter__()
    assert thesis.read_bytes() == b"ten years of work"
    with pytest.raises(WarmstartError, match="cannot be written"):
        claim_folder(thesis / "run", resume).__enter__()


def test_what_a_killed_write_left_does_not_forbid_resuming(tmp_path: Path) -> None:
    leftover = write_whole(temporary_path(tmp_path / "run" / "config.json"), b'{"comm')
    with claim_folder(tmp_path / "run", resume=True) as run:
        assert run.path.is_dir()
        assert not leftover.exists()


@pytest.mark.parametrize("resume", [False, True])
def test_hidden_files_of_the_user_are_kept(tmp_path: Path, resume: bool) -> None:
    names = (".notes.tmp", ".config.json.123.tmp", ".thesis.old", ".x.warmstart-tmp")
    files = [write_whole(tmp_path / "run" / name, b"mine") for name in names]
    with pytest.raises(WarmstartError, match=r"already exists|not a run folder"):
        claim_folder(tmp_path / "run", resume).__enter__()
    assert [file.read_bytes() for file in files] == [b"mine"] * len(names)


def test_what_the_user_puts_into_the_folder_of_a_job_that_fails_is_kept(tmp_path: Path) -> None:
    def fail() -> None:
        with claim_folder(tmp_path / "run", resume=False) as run:
            _begun(run.path)
            write_whole(run.path / "notes.txt", b"mine")
            raise WarmstartError("no text")

    with pytest.raises(WarmstartError, match="no text"):
        fail()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_a_link_to_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("deep/run")
    with claim_folder(tmp_path / "link", resume=False) as run:
        write_json(run.config_file, {})
    assert (tmp_path / "deep/run/config.json").exists()
    assert (tmp_path / "link").is_symlink()


def test_a_second_holder_is_refused(tmp_path: Path) -> None:
    run = _begun(tmp_path / "run")
    with _held_elsewhere(run.path, resume=True):
        with pytest.raises(WarmstartError, match="run is in use by another warmstart process"):
            claim_folder(run.path, resume=True).__enter__()
        assert run.config_file.exists()


def test_a_second_holder_leaves_the_folder_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with _held_elsewhere(path, resume=False):  # it has written nothing yet
        with pytest.raises(WarmstartError, match="in use"):
            claim_folder(path, resume=False).__enter__()
        assert path.is_dir()


def test_death_frees_the_lock(tmp_path: Path) -> None:
    run = _begun(tmp_path / "run")
    with _held_elsewhere(run.path, resume=True) as process:
        process.kill()
        process.wait()
        with claim_folder(run.path, resume=True):
            pass


def test_leaving_frees_the_lock(tmp_path: Path) -> None:
    run = _begun(tmp_path / "run")
    for _ in range(2):
        with claim_folder(run.path, resume=True):
            pass
    with pytest.raises(RuntimeError), claim_folder(run.path, resume=True):
        raise RuntimeError
    with claim_folder(run.path, resume=True):
        pass


def test_a_fresh_folder_goes_when_the_job_fails_before_any_work(tmp_path: Path) -> None:
    def fail() -> None:
        with claim_folder(tmp_path / "run", resume=False) as run:
            _begun(run.path)
            raise WarmstartError("no text")

    with pytest.raises(WarmstartError, match="no text"):
        fail()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "work", ["checkpoints/step-1/state.json", "scores.json", "cells/a.json", "model.safetensors"]
)
def test_work_is_never_thrown_away(tmp_path: Path, work: str) -> None:
    def stop() -> None:
        with claim_folder(tmp_path / "run", resume=False) as run:
            write_whole(run.path / work, b"{}")
            raise StoppedError("stopped")

    with pytest.raises(StoppedError, match="stopped"):
        stop()
    assert (tmp_path / "run" / work).exists()
    assert RunFolder(tmp_path / "run").has_work


def test_a_resumed_folder_stays_when_the_job_fails(tmp_path: Path) -> None:
    run = _begun(tmp_path / "run")
    with pytest.raises(WarmstartError), claim_folder(run.path, resume=True):
        raise WarmstartError("a setting changed")
    assert run.config_file.exists()


def test_config_says_what_it_lacks(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(WarmstartError, match=r"is not a run folder: no config\.json in it"):
        run.config()
    for content, fault in (
        (b'{"format": 2, "command": "pretrain", "settings": {}}', "has no 'model'"),
        (b'{"command": "pretrain", "settings": {}, "model": {}}', "has no 'format'"),
        (b'{"format": 99, "warmstart": "9.0"}', "has run format 99, .*: warmstart '9.0' reads it"),
        (b"[]", "must hold a JSON object"),
        (b"{", "not valid JSON"),
        (b"\xff", "not valid JSON"),
    ):
        run.config_file.write_bytes(content)
        with pytest.raises(WarmstartError, match=fault):
            run.config()
    assert _begun(tmp_path).config()["command"] == "pretrain"


def test_the_ledger_grows(tmp_path: Path) -> None:
    run = _begun(tmp_path)
    write_json(run.scores_file, {"valid": {"accuracy": 0.5}, "ledger": [{"test": "a"}]})
    run.add_scores({"test": "b"})
    scores = run.read_json(run.scores_file)
    assert scores == {"valid": {"accuracy": 0.5}, "ledger": [{"test": "a"}, {"test": "b"}]}


def test_evaluations_at_the_same_moment_all_enter_the_ledger(tmp_path: Path) -> None:
    run = _begun(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: run.add_scores({"test": number}), range(64)))
    entries = run.read_json(run.scores_file)["ledger"]
    assert sorted(entry["test"] for entry in entries) == list(range(64))


def test_finishing_keeps_what_was_scored_before(tmp_path: Path) -> None:
    run = _begun(tmp_path)
    run.add_scores({"test": "a"})
    run.finish({"valid": {"accuracy": 0.5}})
    assert run.read_json(run.scores_file)["ledger"] == [{"test": "a"}]
    assert run.is_finished


def test_a_run_is_finished_once_it_has_scores(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    write_whole(run.cache / "train.bin", b"")
    assert not run.is_finished
    assert not run.has_work
    write_json(run.scores_file, {"ledger": []})
    assert not run.is_finished
    write_json(run.scores_file, {"valid": {}})
    assert run.is_finished
    run.drop_cache()
    run.drop_cache()
    assert not run.cache.exists()
