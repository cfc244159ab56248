"""What ends a job from outside is one sentence that says how to go on."""

import errno
import shlex
from pathlib import Path

import pytest
import torch

from command_line import MACHINE, TINY, World, little_memory, run, succeed, weights_of
from warmstart.errors import StoppedError, WarmstartError, is_out_of_memory
from warmstart.files import write_json, write_whole
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import claim_folder, explain_faults, resume_command


def _raise(fault: BaseException, run_folder: RunFolder) -> None:
    with explain_faults("pretrain", run_folder):
        raise fault


def test_a_stop_gives_the_whole_command(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "my run")
    with pytest.raises(
        StoppedError, match=r"^stopped, as in: warmstart pretrain --config '"
    ) as told:
        _raise(StoppedError("stopped"), folder)
    words = shlex.split(str(told.value))
    assert words[-3:] == ["-o", str(folder.path), "--resume"]


def _interrupt(path: Path, prepared: bool) -> None:
    with claim_folder(path, resume=False) as folder:
        write_json(folder.config_file, {})
        if prepared:
            write_json(folder.data_file, {})
        _raise(KeyboardInterrupt(), folder)


def test_ctrl_c_before_the_first_step_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(StoppedError, match=r"^stopped before there was anything to save$"):
        _interrupt(tmp_path / "run", prepared=False)
    assert not (tmp_path / "run").exists()
    with pytest.raises(StoppedError, match=r"^stopped; continue with: warmstart pretrain --config"):
        _interrupt(tmp_path / "run", prepared=True)
    assert (tmp_path / "run" / "data.json").exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_disk_that_cannot_be_written(tmp_path: Path, number: int) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(WarmstartError, match=r"metrics\.jsonl: .*; make ") as told:
        _raise(OSError(number, "Something", str(folder.metrics_file)), folder)
    assert "--resume" not in str(told.value)  # there is nothing to go on from
    write_whole(folder.checkpoints / "step-7" / "state.json", b"")
    with pytest.raises(WarmstartError, match=r"step 7 is safe; continue with: warmstart pretrain"):
        _raise(OSError(number, "Something"), folder)


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    for fault in (FileNotFoundError(errno.ENOENT, "gone"), RuntimeError("a bug"), KeyError("x")):
        with pytest.raises(type(fault)):
            _raise(fault, RunFolder(tmp_path))


def test_too_little_memory_says_what_to_lower(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    write_whole(folder.cells / "a.json", b"{}")
    for fault in (torch.OutOfMemoryError("CUDA out of memory"), MemoryError()):
        with pytest.raises(
            WarmstartError, match=r"lower --micro-tokens, .* 1 finished cell is safe"
        ):
            _raise(fault, folder)


def test_memory_that_runs_out_for_real() -> None:
    with little_memory(1 << 28), pytest.raises((RuntimeError, MemoryError)) as caught:
        torch.zeros(1 << 30)
    assert is_out_of_memory(caught.value)


def test_the_command_it_gives_goes_on(world: World, base: Path, here: Path) -> None:
    succeed(f"pretrain {world.texts} -o run {TINY}")
    (here / "run/scores.json").unlink()  # as if it had been stopped just before the end
    ran = succeed(resume_command("pretrain", RunFolder("run")).removeprefix("warmstart "))
    assert "continuing from step 6 of 6" in ran.err
    assert weights_of(here / "run") == weights_of(base)


def test_data_that_changed_is_taken_when_told(world: World, base: Path, here: Path) -> None:
    from shutil import copy

    rows = f"--train own.tsv --valid {world.valid} --epochs 4 --batch-size 8 {MACHINE}"
    command = f"finetune --from {base} {rows} --save-every 2 -o run"
    copy(world.train, "own.tsv")
    succeed(command)
    (here / "run/scores.json").unlink()
    lines = (here / "own.tsv").read_text().splitlines(keepends=True)
    (here / "own.tsv").write_text("".join([lines[0], *lines[:0:-1]]))
    refused = run(f"{command} --resume")
    assert refused.code == 2
    assert "--changed-data" in refused.said
    told = succeed(f"{command} --resume --changed-data")
    assert "own.tsv changed since the run started; continuing" in told.err
    facts = RunFolder("run").read_json(here / "run/data.json")["files"][0]
    assert len(facts["earlier"]) == 1
    assert facts["sha256"] != facts["earlier"][0]
