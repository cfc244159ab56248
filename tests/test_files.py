import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import full_disk
from warmstart.errors import WarmstartError
from warmstart.files import distinct_names, whole_file, whole_folder, write_json, write_whole


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_makes_folders_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    assert write_whole(path, b"one") == path
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert _names(path.parent) == ["file"]


def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")
    with pytest.raises(TypeError):
        write_whole(path, "text, not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    with pytest.raises(OSError):  # noqa: PT011 (the number depends on the system)
        write_whole(tmp_path / "folder", b"new")
    assert _names(tmp_path) == ["file", "folder"]


def test_a_file_that_is_replaced_stays_as_private_as_it_was(tmp_path: Path) -> None:
    path = write_whole(tmp_path / "labels.csv", b"one")
    path.chmod(0o600)
    with whole_file(path) as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600  # before anything is written
        file.write(b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o600)


@pytest.mark.parametrize("existed", [True, False])
def test_what_another_program_wrote_in_the_meantime_is_kept(tmp_path: Path, existed: bool) -> None:
    path = tmp_path / "labels.csv"
    if existed:
        path.write_bytes(b"old")
    with (
        pytest.raises(WarmstartError, match="by another program in the meantime"),
        whole_file(path),
    ):
        write_whole(path, b"theirs")
    assert path.read_bytes() == b"theirs"
    assert _names(tmp_path) == ["labels.csv"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(path, b"content")
    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert path.is_fifo()


def test_what_a_link_points_at_is_written(tmp_path: Path) -> None:
    path, link = write_whole(tmp_path / "far" / "file", b"old"), tmp_path / "link"
    link.symlink_to(path)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert _names(tmp_path / "far") == ["file"]


@contextmanager
def _another_user() -> Iterator[None]:
    """Be a user whom permissions bind: root is not."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_folder_that_may_be_written_to_but_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o333)
    monkeypatch.chdir(tmp_path)
    try:
        with _another_user():
            write_whole(Path("file"), b"content")
            with whole_folder(Path("folder")) as temporary:
                write_whole(temporary / "inside", b"content")
    finally:
        tmp_path.chmod(0o700)
    assert _names(tmp_path) == ["file", "folder"]


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(WarmstartError, match="a is a symbolic link that leads back to itself"):
        write_whole(tmp_path / "a", b"new")
    assert _names(tmp_path) == ["a", "b"]


def test_what_standard_output_holds_is_kept(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from warmstart.files import write_whole\n"
        "write_whole(Path('/dev/stdout'), b'new')"
    )
    (tmp_path / "log").write_bytes(b"old ")
    with (tmp_path / "log").open("ab") as log:
        subprocess.run([sys.executable, "-c", code], stdout=log, check=True)
    assert (tmp_path / "log").read_bytes() == b"old new"


def test_a_name_as_long_as_names_may_be(tmp_path: Path) -> None:
    path = write_whole(tmp_path / ("é" * 127), b"content")
    assert path.read_bytes() == b"content"


def test_a_full_disk_does_not_hide_the_error_before_it(tmp_path: Path) -> None:
    def write() -> None:
        with full_disk(), whole_file(tmp_path / "file") as file:
            file.write(b"buffered")
            raise WarmstartError("the real error")

    with pytest.raises(WarmstartError, match="the real error"):
        write()
    assert _names(tmp_path) == []


def test_a_reader_keeps_the_version_it_opened(tmp_path: Path) -> None:
    path = write_whole(tmp_path / "file", b"old")
    with path.open("rb") as opened:
        write_whole(path, b"new content")
        assert opened.read() == b"old"


def test_json_round_trip(tmp_path: Path) -> None:
    data = {"texte": "été", "nombres": [1, 0.1, None, True]}
    path = write_json(tmp_path / "data.json", data)
    assert json.loads(path.read_text(encoding="utf-8")) == data
    assert "été" in path.read_text(encoding="utf-8")


def test_whole_folder_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder"
    with whole_folder(path) as temporary:
        (temporary / "file").write_text("new")
        assert not path.exists()
    assert _names(path) == ["file"]
    assert _names(path.parent) == ["folder"]


def _write_half(path: Path, error: type[BaseException]) -> None:
    with whole_folder(path) as temporary:
        (temporary / "half").write_text("half")
        raise error


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("exists", [False, True])
def test_whole_folder_leaves_nothing_on_error(
    tmp_path: Path, error: type[BaseException], exists: bool
) -> None:
    path = tmp_path / "folder"
    if exists:
        write_whole(path / "old", b"kept")
    with pytest.raises(error):
        _write_half(path, error)
    assert _names(tmp_path) == (["folder"] if exists else [])
    assert not exists or _names(path) == ["old"]


def test_names_are_as_short_as_they_can_be_told_apart() -> None:
    assert distinct_names([Path("a/x/base"), Path("a/y/tail")]) == ["base", "tail"]
    assert distinct_names([Path("a/x/base"), Path("a/y/base")]) == ["x/base", "y/base"]
    assert distinct_names([Path("base"), Path("y/base")]) == ["base", "y/base"]


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder") as caught:
        write_whole(tmp_path / "folder", b"new")
    assert caught.value.filename == str(tmp_path / "folder")

    def write() -> None:
        with whole_folder(tmp_path / "whole"):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space") as caught:
        write()
    assert caught.value.filename == str(tmp_path / "whole")


def test_another_file_that_cannot_be_read_keeps_its_name(tmp_path: Path) -> None:
    def write() -> None:
        with whole_folder(tmp_path / "whole"):
            (tmp_path / "gone.txt").read_text()

    with pytest.raises(FileNotFoundError) as caught:
        write()
    assert caught.value.filename == str(tmp_path / "gone.txt")


def test_a_folder_in_a_folder_is_flushed_too(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "whole") as temporary:
        write_whole(temporary / "deep" / "deeper" / "file", b"x")
    assert (tmp_path / "whole/deep/deeper/file").read_bytes() == b"x"
