"""Temporary files and folders, and which of them a killed process left behind.

A temporary name ends in a random part and a marker, and its writer holds a lock on the file. The
system frees the locks of a process that dies, so a temporary file that can be locked is a
leftover, even if its writer lived in another container.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = re.compile(r"\.(.*)\.[0-9a-f]{16}\.warmstart-tmp", re.DOTALL)
_NAME_CHARS = 40  # of the final name, so that no temporary name is too long for the file system


def temporary_path(path: Path) -> Path:
    """Return a name beside `path` that nobody else uses."""
    return path.with_name(f".{path.name[:_NAME_CHARS]}.{secrets.token_hex(8)}.warmstart-tmp")


def final_name(path: Path) -> str | None:
    """Return the beginning of the name that a temporary file will have; None for any other file."""
    match = _NAME.fullmatch(path.name)
    return match[1] if match else None


def is_temporary(path: Path) -> bool:
    """Tell by its name whether a file is being written, or was left behind by a killed write."""
    return final_name(path) is not None


@contextmanager
def new_temporary(path: Path, create: Callable[[Path], int]) -> Iterator[tuple[Path, int]]:
    """Yield a locked temporary name for `path` and its handle; remove what keeps that name."""
    temporary, handle = _created(path, create)
    try:
        yield temporary, handle
    finally:
        os.close(handle)
        remove(temporary)


def create_file(path: Path) -> int:
    """Create a file that must not exist; return its handle."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def create_folder(path: Path) -> int:
    """Create a folder that must not exist; return its handle."""
    path.mkdir()
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _created(path: Path, create: Callable[[Path], int]) -> tuple[Path, int]:
    """Create and lock; again, if another process took the unlocked file for a leftover."""
    while True:
        temporary = temporary_path(path)
        handle = create(temporary)
        with suppress(OSError):  # where locks are not supported, leftovers stay
            fcntl.flock(handle, fcntl.LOCK_EX)
        if temporary.exists():
            return temporary, handle
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove everything that killed writes left in a folder and below it."""
    for path in list(folder.rglob(".*")):
        if is_temporary(path):
            _remove_unlocked(path)


def remove_leftovers_of(path: Path) -> None:
    """Remove what killed writes of one file or folder left beside it."""
    for neighbour in list(path.parent.iterdir()):
        if final_name(neighbour) == path.name[:_NAME_CHARS]:
            _remove_unlocked(neighbour)


def _remove_unlocked(path: Path) -> None:
    """Remove a temporary file or folder unless its writer is alive."""
    with suppress(OSError):  # it is gone, or cannot be locked by this user
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if try_lock(handle):
                remove(path)
        finally:
            os.close(handle)


def try_lock(handle: int) -> bool:
    """Lock an open file or folder; return False if somebody else holds the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file or folder as far as possible; an error never hides the one that led here."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()
