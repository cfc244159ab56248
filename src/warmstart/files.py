"""Write files and folders atomically and durably: complete, or not at all."""

import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that becomes `path` when the block ends without an error.

    A device or a pipe is written directly; for a link, its target is replaced.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve() if path.is_symlink() else path
    temporary = _temporary_path(path)
    with _errors_name(path, temporary):
        make_folder(path.parent)
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        flush_folder(path.parent)


def write_whole(path: Path, content: bytes) -> Path:
    """Write `content`, whole or not at all; create the folder if needed."""
    with whole_file(path) as file:
        file.write(content)
    return path


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write lines as a stream, whole or not at all."""
    with whole_file(path) as file:
        for line in lines:
            file.write(f"{line}\n".encode())
    return path


def write_json(path: Path, data: Any) -> Path:
    """Write JSON, whole or not at all."""
    return write_whole(path, (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path`, or is removed when the block fails."""
    temporary = _temporary_path(path)
    with _errors_name(path, temporary):
        make_folder(path.parent)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            yield temporary
            for entry in temporary.rglob("*"):
                flush_folder(entry) if entry.is_dir() else flush_file(entry)
            flush_folder(temporary)
            _replace_folder(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


@contextmanager
def _errors_name(path: Path, temporary: Path) -> Iterator[None]:
    """Let file-system errors name `path`, where they name no file or a temporary one."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).startswith(str(temporary)):
            error.filename, error.filename2 = str(path), None
        raise


def _replace_folder(temporary: Path, path: Path) -> None:
    """Rename a folder; an existing one is moved aside first."""
    old = path.with_name(f".{path.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        os.replace(path, old)
    os.replace(temporary, path)
    flush_folder(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def make_folder(path: Path) -> None:
    """Create a folder and its parents durably; it may exist."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        flush_folder(folder.parent)


def flush_folder(path: Path) -> None:
    """Make the names in a folder durable, where the file system supports it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some cannot
            raise
    finally:
        os.close(handle)


def flush_file(path: Path) -> None:
    """Make the content of a file durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def is_leftover(path: Path) -> bool:
    """Tell whether a killed write left this path behind."""
    return path.name.startswith(".") and path.name.endswith((".tmp", ".old"))


def remove_leftovers(folder: Path) -> None:
    """Remove what killed writes left in a folder that no other process writes to."""
    for path in folder.rglob(".*"):
        if is_leftover(path):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest endings that distinguish these paths."""
    longest = max((len(path.parts) for path in paths), default=1)
    for length in range(1, longest):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
