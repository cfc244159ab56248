"""A disk that is full for real: a clear sentence, the last checkpoint whole, and going on later."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import MACHINE, SHAPE, Ran, World, before_step, run, succeed, weights_of

JOB = f"{SHAPE} --batch-tokens 64 --steps 24 --save-every 4 --eval-every 10 {MACHINE}"
PAGE = 4096


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Mount a file system of a few megabytes, which only the system's administrator may."""
    folder = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(folder)]
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            yield folder
            subprocess.run(["umount", "-l", str(folder)], check=True)
            return
    pytest.skip("only root can mount a small file system here")


@pytest.fixture(scope="module")
def whole(world: World, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole") / "run"
    succeed(f"pretrain {world.texts} -o {folder} {JOB}")
    return weights_of(folder)


def _fill(disk: Path, pages_left: int) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"\0" * PAGE)
    filler_size = (disk / "filler").stat().st_size
    with (disk / "filler").open("r+b") as filler:
        filler.truncate(max(0, filler_size - pages_left * PAGE))


def _run_while_it_fills(command: str, disk: Path, step: int, pages_left: int) -> Ran:
    with before_step(step + 1, lambda: _fill(disk, pages_left)):
        return run(command)


# So little room that the next line of metrics, the weights or the optimizer does not fit.
@pytest.mark.parametrize("pages_left", [0, 1, 4, 12])
def test_a_full_disk_stops_the_run_and_spoils_nothing(
    world: World, whole: bytes, disk: Path, pages_left: int
) -> None:
    folder = disk / f"run-{pages_left}"
    command = f"pretrain {world.texts} -o {folder} {JOB}"
    ran = _run_while_it_fills(command, disk, 13, pages_left)
    (disk / "filler").unlink()
    assert ran.code == 2, ran.err
    assert "no space left on device" in ran.said
    assert "step 12 is safe" in ran.said
    assert "Traceback" not in ran.err
    assert not list(folder.rglob(".*"))  # nothing is half written
    resumed = succeed(f"{command} --resume")
    assert "continuing from step 12 of 24" in resumed.err
    assert weights_of(folder) == whole


@pytest.mark.parametrize(
    ("command", "pages_left", "sentence"),
    [
        ("predict {warm} many.txt -o {out}.csv", 0, "No space left on device"),
        ("predict {warm} many.txt -o {out}.xlsx", 0, "No space left on device"),
        ("predict {warm} many.txt -o {out}.parquet", 0, "No space left on device"),
        ("embed {base} many.txt -o {out}.npy", 1, "is there room on the disk?"),
        ("suggest {base} many.txt --num 99 -o {out}.csv", 0, "No space left on device"),
    ],
)
def test_a_table_that_does_not_fit_is_not_there(
    warm: Path,
    base: Path,
    here: Path,
    disk: Path,
    command: str,
    pages_left: int,
    sentence: str,
) -> None:
    lines = (f"number {n:x} is {n**9:x}\n" for n in range(999))
    (here / "many.txt").write_text("".join(lines))
    _fill(disk, pages_left)
    ran = run(f"{command} {MACHINE}", warm=warm, base=base, out=disk / "table")
    (disk / "filler").unlink()
    assert ran.code == 2, ran.err
    assert sentence in ran.said
    assert "Traceback" not in ran.err
    assert not list(disk.glob("*table*"))


def test_a_disk_full_before_any_checkpoint_leaves_room_again(world: World, disk: Path) -> None:
    folder = disk / "early"
    command = f"pretrain {world.texts} -o {folder} {JOB}"
    ran = _run_while_it_fills(command, disk, 2, 0)
    (disk / "filler").unlink()
    assert ran.code == 2, ran.err
    assert "make room on the disk" in ran.said
    assert not folder.exists()


@pytest.mark.parametrize(
    "command", ["tokenizer {texts} -o {out}", "pretrain {texts} -o {out} " + JOB]
)
def test_a_disk_full_from_the_start(world: World, disk: Path, command: str) -> None:
    _fill(disk, 3)
    ran = run(command, texts=world.texts, out=disk / "out")
    (disk / "filler").unlink()
    assert ran.code == 2, ran.err
    assert "no space left on device" in ran.said.lower()
    assert str(disk) in ran.said
    assert not (disk / "out").exists()
