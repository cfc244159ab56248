"""Locks on files and folders, and folders that are held: known by what they are, not by name.

A name may lead elsewhere a moment later: somebody renames the folder, or puts another one in its
place. What a job writes and deletes is therefore addressed through the folder that it holds.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.errors import MovedFolderError

if TYPE_CHECKING:
    from filelock import BaseFileLock

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

HAS_FOLDER_HANDLES = os.open in os.supports_dir_fd
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_DELETED = " (deleted)"  # at the end of what Linux tells of a handle

Identity = tuple[int, int]  # device and inode


def identity(path: Path) -> Identity | None:
    """Return what is at a path, links followed; None: nothing."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


class Lock:
    """A lock on an open file or folder; the system frees it when the process ends."""

    def __init__(self, handle: int | None = None, file: "BaseFileLock | None" = None) -> None:
        self.handle = handle  # of what is locked, where the system has one
        self._file = file

    def release(self) -> None:
        """Free the lock."""
        if self._file is not None:
            self._file.release()
        if self.handle is not None:
            os.close(self.handle)


def lock(path: Path, wait: bool = False) -> Lock | None:
    """Lock a file or folder; None: somebody else holds the lock."""
    return _lock_file_beside(path, wait) if fcntl is None else _lock_itself(path, wait)


def _lock_itself(path: Path, wait: bool) -> Lock | None:
    handle = open_at(path, _READ)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return Lock(handle)


def _lock_file_beside(path: Path, wait: bool) -> Lock | None:
    """Lock a file of this user that stands for what is at a path."""
    from filelock import FileLock, Timeout

    known = identity(path)
    if known is None:
        raise FileNotFoundError(2, "No such file or directory", str(path))
    name = "warmstart-{:x}-{:x}.lock".format(*known)
    file = FileLock(Path(tempfile.gettempdir(), name), thread_local=False)
    try:
        file.acquire(blocking=wait)
    except Timeout:
        return None
    return Lock(file=file)


@dataclass(frozen=True)
class HeldFolder:
    """A folder that this process writes to, and what it was when it was opened."""

    path: Path  # as the user names it
    names: tuple[Path, ...]  # absolute, with and without links
    identity: Identity
    handle: int | None  # None where the system opens no folders

    @property
    def current_identity(self) -> Identity:
        """Return what the open folder is; some file systems number their files anew."""
        if self.handle is None:
            return self.identity
        status = os.fstat(self.handle)
        return status.st_dev, status.st_ino

    def check(self) -> None:
        """Refuse to continue if the folder is no longer where it was."""
        actual = identity(self.path)
        if actual == self.current_identity:
            return
        place = None if self.handle is None else place_of(self.handle)
        now = f"was moved to {place}" if place else "was moved or removed"
        other = "" if actual is None else "; what is there now is left as it is"
        raise MovedFolderError(f"{self.path} {now} while it was written{other}", place)


def place_of(handle: int) -> Path | None:
    """Return the present path of an open file or folder; None: it is gone, or cannot be found."""
    path = _path_of(handle)
    if path is None or path.name.endswith(_DELETED):
        return None
    status = os.fstat(handle)
    with suppress(PermissionError):  # a folder above may not be searched
        return path if identity(path) == (status.st_dev, status.st_ino) else None
    return None


def _path_of(handle: int) -> Path | None:
    try:
        if fcntl is not None and hasattr(fcntl, "F_GETPATH"):  # macOS
            content = fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024))
            return Path(os.fsdecode(content.rstrip(b"\0")))
        return Path(os.readlink(f"/proc/self/fd/{handle}"))
    except OSError:
        return None


_held: list[HeldFolder] = []  # the innermost last


@contextmanager
def hold(path: Path, handle: int | None) -> Iterator[HeldFolder]:
    """Address everything below a folder through its handle in the block, from every thread."""
    known = identity(path)
    assert known is not None
    names = (Path(os.path.abspath(path)), Path(os.path.realpath(path)))
    folder = HeldFolder(path, names, known, handle if HAS_FOLDER_HANDLES else None)
    _held.append(folder)
    try:
        yield folder
    finally:
        _held.remove(folder)


def inode_of(folder: Path) -> int:
    """Return the inode of a folder, which has not been moved if it is held."""
    address(folder)
    return os.stat(folder).st_ino


@contextmanager
def watch(path: Path, inode: int | None = None) -> Iterator[None]:
    """Hold a folder without its lock; it must have this inode, if one is given.

    The device is not compared: machines that share a file system number it differently.
    """
    handle = os.open(path, _READ) if HAS_FOLDER_HANDLES else None
    try:
        with hold(path, handle) as folder:
            if inode not in (None, folder.identity[1]):
                raise MovedFolderError(f"{path} was moved or removed while it was written", None)
            yield
    finally:
        if handle is not None:
            os.close(handle)


def address(path: Path) -> tuple[Path, int | None]:
    """Return a path as the system finds it: below the handle of a held folder, if it is in one.

    The held folder must still have its name.
    """
    absolute = Path(os.path.abspath(path))
    for folder in reversed(_held):
        for name in folder.names:
            if absolute.is_relative_to(name):
                folder.check()
                if folder.handle is None or absolute == name:
                    return path, None
                return absolute.relative_to(name), folder.handle
    return path, None


def open_at(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a file or folder, in the held folder that it belongs to; return the handle."""
    name, folder = address(path)
    return os.open(name, flags, mode, dir_fd=folder)
