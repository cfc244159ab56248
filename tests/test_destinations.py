"""A folder that a command writes once: locked for the whole job, and never in another's place."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import run
from warmstart.errors import WarmstartError
from warmstart.files import (
    create_folder,
    final_name,
    is_temporary,
    new_folder,
    new_temporary,
    remove_leftovers,
    temporary_path,
    whole_folder,
    write_whole,
)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _write(path: Path, meanwhile: Callable[[], object] = lambda: None) -> None:
    with new_folder(path) as temporary:
        (temporary / "file").write_text("ours")
        meanwhile()


def test_the_folder_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder"

    def look() -> None:
        assert _names(path) == []

    _write(path, look)
    assert _names(path) == ["file"]
    assert _names(path.parent) == ["folder"]


def test_an_empty_folder_is_used_with_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)
    _write(tmp_path / "folder")
    assert _names(tmp_path / "folder") == ["file"]
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700


def test_what_appears_in_the_meantime_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "folder"

    def appear() -> None:
        write_whole(path / "thesis.tex", b"ten years of work")

    with pytest.raises(WarmstartError, match="folder was written by another program"):
        _write(path, appear)
    assert (path / "thesis.tex").read_bytes() == b"ten years of work"
    assert _names(tmp_path) == ["folder"]


def test_a_file_that_takes_the_place_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "folder"

    def appear() -> None:
        path.rmdir()
        path.write_text("mine")

    with pytest.raises(WarmstartError, match="folder was moved or removed while it was written"):
        _write(path, appear)
    assert path.read_text() == "mine"
    assert _names(tmp_path) == ["folder"]


@pytest.mark.parametrize("name", ["file", "folder/file"])
def test_what_exists_is_refused(tmp_path: Path, name: str) -> None:
    write_whole(tmp_path / name, b"mine")
    with pytest.raises(WarmstartError, match=r"exists already|is a file"):
        _write((tmp_path / name) if name == "file" else (tmp_path / name).parent)
    assert (tmp_path / name).read_bytes() == b"mine"


def test_a_second_job_is_refused_while_the_first_works(tmp_path: Path) -> None:
    path = tmp_path / "folder"

    def second() -> None:
        with pytest.raises(WarmstartError, match="folder is in use by another warmstart process"):
            _write(path)

    _write(path, second)
    assert _names(path) == ["file"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, WarmstartError])
def test_a_failure_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(error):
        _write(tmp_path / "a" / "b", fail)
    assert _names(tmp_path) == []


def test_a_failure_leaves_the_empty_folder_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    def fail() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        _write(tmp_path / "folder", fail)
    assert _names(tmp_path) == ["folder"]


@pytest.mark.parametrize("exists", [False, True])
def test_a_link_is_written_where_it_points(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far")
    _write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert _names(tmp_path / "far") == ["file"]
    assert _names(tmp_path) == ["far", "link"]


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(WarmstartError, match="loop is a symbolic link that leads back to itself"):
        _write(tmp_path / "loop")


def test_the_current_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WarmstartError, match=r"-o \. is the current folder"):
        _write(Path())


def test_a_folder_is_never_replaced(tmp_path: Path) -> None:
    write_whole(tmp_path / "folder" / "old", b"old")

    def replace() -> None:
        with whole_folder(tmp_path / "folder") as temporary:
            (temporary / "new").write_text("new")

    with pytest.raises(WarmstartError, match="was written by another program"):
        replace()
    assert _names(tmp_path / "folder") == ["old"]
    assert _names(tmp_path) == ["folder"]


def _leave_behind(path: Path) -> None:
    """Let a process die while it writes a folder."""
    code = (
        "import os, sys; from pathlib import Path; from warmstart.files import new_folder\n"
        "with new_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'half').write_text('half')\n"
        "    os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)


def test_the_next_job_removes_what_a_dead_one_left(tmp_path: Path) -> None:
    _leave_behind(tmp_path / "folder")
    _leave_behind(tmp_path / "other")
    assert sum(map(is_temporary, tmp_path.iterdir())) == 2
    _write(tmp_path / "folder")
    assert _names(tmp_path / "folder") == ["file"]
    assert [final_name(path) for path in tmp_path.iterdir() if is_temporary(path)] == ["other"]


def test_what_a_live_process_writes_is_no_leftover(tmp_path: Path) -> None:
    with new_temporary(tmp_path / "folder", create_folder) as temporary:
        remove_leftovers(tmp_path)
        assert temporary.is_dir()
    assert _names(tmp_path) == []


def test_files_of_others_are_no_leftovers(tmp_path: Path) -> None:
    names = [".a.tmp", ".a.1.tmp", ".a.old", ".a.0123.warmstart-tmp", "a.warmstart-tmp"]
    for name in names:
        (tmp_path / name).touch()
    write_whole(temporary_path(tmp_path / "deep" / "a"), b"")
    remove_leftovers(tmp_path)
    assert _names(tmp_path) == sorted([*names, "deep"])
    assert _names(tmp_path / "deep") == []


def test_a_link_with_a_temporary_name_is_not_followed(tmp_path: Path) -> None:
    target = write_whole(tmp_path / "far" / "file", b"mine")
    temporary_path(tmp_path / "a").symlink_to(target.parent)
    remove_leftovers(tmp_path)
    assert target.read_bytes() == b"mine"


def test_writers_and_removers_at_once_lose_nothing(tmp_path: Path) -> None:
    """A temporary file is never taken for a leftover between its creation and its lock."""
    is_over = threading.Event()

    def sweep() -> None:
        while not is_over.is_set():
            remove_leftovers(tmp_path)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        for number in range(200):
            write_whole(tmp_path / f"{number}", os.urandom(8))
    finally:
        is_over.set()
        sweeper.join()
    assert len(_names(tmp_path)) == 200


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_folder_that_cannot_be_created_is_refused() -> None:
    done = run("samples -o /proc/nothing")
    assert done.code == 2
    assert "cannot be written" in done.err
