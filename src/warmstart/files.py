"""Write files and folders atomically and durably: complete, or not at all."""

import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import to_json

_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # renaming a folder onto something
_NAME = re.compile(r"\.(.*)\.[0-9a-f]{16}\.warmstart-tmp", re.DOTALL)
_NAME_CHARS = 40  # of the final name, so that no temporary name is too long for the file system


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that becomes `path` when the block ends without an error.

    A device, a pipe or the file behind standard output is appended to; for a link, its target is
    replaced.
    """
    if is_stream(path):
        with path.open("ab") as stream:
            yield stream
        return
    path = real_path(path) if path.is_symlink() else path
    with _errors_name(path):
        make_folder(path.parent)
        remove_leftovers_of(path)
        with new_temporary(path, create_file) as (temporary, handle):
            with _write_to(handle) as file:
                yield file
            os.replace(temporary, path)
        flush_folder(path.parent)


@contextmanager
def _write_to(handle: int) -> Iterator[BinaryIO]:
    """Write to a handle and flush it to disk; an error in the block is not hidden by another."""
    file = open(handle, "wb", closefd=False)  # noqa: SIM115 (closed on both paths)
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    file.close()
    os.fsync(handle)


def is_stream(path: Path) -> bool:
    """Tell whether a path must be written to as it is, because its content cannot be replaced."""
    if not path.exists() or path.is_dir():
        return False
    return not path.is_file() or _is_standard_output(path)


def _is_standard_output(path: Path) -> bool:
    with suppress(OSError):  # standard output may be closed
        return os.path.samestat(path.stat(), os.fstat(1))
    return False


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
    return write_whole(path, f"{to_json(data, indent=2)}\n".encode())


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path`, or is removed when the block fails.

    An empty folder at `path` is replaced; anything else is kept, and the block fails.
    """
    with _errors_name(path):
        make_folder(path.parent)
        remove_leftovers_of(path)
        with new_temporary(path, create_folder) as (temporary, _):
            yield temporary
            for entry in temporary.rglob("*"):
                flush_folder(entry) if entry.is_dir() else flush_file(entry)
            flush_folder(temporary)
            _publish(temporary, path)
        flush_folder(path.parent)


def _publish(temporary: Path, path: Path) -> None:
    """Rename a folder; the system refuses to replace anything but an empty folder."""
    try:
        os.rename(temporary, path)
    except OSError as error:
        if error.errno not in _OCCUPIED:
            raise
        raise WarmstartError(
            f"{path} was written by another program in the meantime; it is unchanged, and nothing "
            "else was written: choose another -o"
        ) from None


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Hold an absent or empty folder for a whole job; yield a temporary folder that becomes it."""
    with lock_destination(path) as folder:
        if any(folder.iterdir()):
            raise WarmstartError(f"{path} exists already: choose another -o")
        for fact, is_fact in (
            ("the current folder", folder == Path.cwd()),
            ("a mount point", os.path.ismount(folder)),
        ):
            if is_fact:  # a folder in use cannot be replaced
                raise WarmstartError(f"-o {path} is {fact}: name a new folder in it")
        with whole_folder(folder) as temporary:
            shutil.copymode(folder, temporary)
            yield temporary


@contextmanager
def lock_destination(path: Path) -> Iterator[Path]:
    """Hold the lock of a folder, which is created if needed; yield it with all links followed.

    The system frees the lock when the process ends. If the block fails, the folders that were
    created are removed as far as they are empty.
    """
    if path.exists() and not path.is_dir():
        raise WarmstartError(f"-o {path} is a file; name a folder")
    folder = real_path(path)
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    while not _is_at(handle := _open_destination(folder, path), folder):
        os.close(handle)  # the last user of the folder has just removed it
    try:
        yield folder
    except BaseException:
        with suppress(OSError):  # another program uses a folder
            for parent in created:
                parent.rmdir()
        raise
    finally:
        os.close(handle)


def _open_destination(folder: Path, path: Path) -> int:
    try:
        make_folder(folder)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise WarmstartError(f"{path} cannot be written: {error.strerror}") from None
    if not try_lock(handle):
        os.close(handle)
        raise WarmstartError(f"{path} is in use by another warmstart process")
    return handle


def _is_at(handle: int, path: Path) -> bool:
    """Tell whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def real_path(path: Path) -> Path:
    """Return a path with all links followed; it need not exist."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise WarmstartError(f"{path} is a symbolic link that leads back to itself")
    return target


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Let file-system errors name `path`, where they name no file or a temporary one."""
    try:
        yield
    except OSError as error:
        named = Path(str(error.filename or ""))
        if error.filename is None or any(map(is_temporary, (named, *named.parents))):
            error.filename, error.filename2 = str(path), None
        raise


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
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some systems cannot flush folders
            raise
    finally:
        os.close(handle)


def flush_file(path: Path) -> None:
    """Make the content of a file durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest endings that distinguish these paths."""
    longest = max((len(path.parts) for path in paths), default=1)
    for length in range(1, longest):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


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
    """Yield a locked temporary name for `path` and its handle; remove what still has that name."""
    temporary, handle = _create_locked(path, create)
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


def _create_locked(path: Path, create: Callable[[Path], int]) -> tuple[Path, int]:
    """Create and lock a temporary file; try again if another process took it for a leftover."""
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
    with suppress(OSError):  # the path is gone, or this user cannot lock it
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
