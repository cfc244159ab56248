"""Write files and folders atomically and durably: complete, or not at all."""

import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from warmstart.errors import MovedFolderError, WarmstartError
from warmstart.jsonfiles import to_json
from warmstart.locks import (
    HAS_FOLDER_HANDLES,
    HeldFolder,
    Identity,
    Lock,
    address,
    hold,
    identity,
    lock,
    open_at,
    place_of,
    watch,
)

_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # renaming a folder onto something
_NAME = re.compile(r"\.(.*)\.[0-9a-f]{16}\.warmstart-tmp", re.DOTALL)
_NAME_CHARS = 40  # of the final name, so that no temporary name is too long for the file system
_BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_MOST_REMOVED = 100  # times that another process removes a folder before it is locked
_TRIES, _TRY_S = 50, 0.1  # to replace a file that another program has open: Windows refuses that

# The names in the folders of a job; a folder with any other is never deleted.
_WRITTEN = re.compile(
    r"(config|data|scores|features|overlap|state|fingerprints|train|valid|special_tokens_map)\.json"
    r"|tokenizer\.(json|model)|target|README\.md|(model|optimizer|lsa|step-\d+)\.safetensors"
    r"|(train|valid)\.(bin|sentences|documents)|\d{6,}-[0-9a-f]{16}|events\.out\.tfevents\.\d+"
    r"|(mlflow|wandb|trackio)\.json"
)

_made: set[Identity] = set()  # files and folders that this process wrote, or took over


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that becomes `path` when the block ends without an error.

    A device, a pipe or the file behind standard output is appended to; for a link, its target is
    replaced. A file that is replaced leaves its permissions to the new one.
    """
    if is_stream(path):
        with path.open("ab") as stream:
            yield stream
        return
    path = real_path(path) if path.is_symlink() else path
    with _errors_name(path):
        make_folder(path.parent)
        remove_leftovers_of(path)
        before = identity(path)
        with new_temporary(path, create_file) as temporary:
            with _write_to(temporary) as file:
                _keep_permissions(file, path)
                yield file
            if identity(path) not in (before, None):
                raise _written_by_others(path)
            if not temporary.exists():
                moved = f"{path.parent} was moved or removed while {path.name} was written"
                raise MovedFolderError(f"{moved}; nothing was written", None)
            replace(temporary, path)
        flush_folder(path.parent)


@contextmanager
def _write_to(path: Path) -> Iterator[BinaryIO]:
    """Write to a file and flush it to disk; an error in the block is not hidden by another."""
    file = open(open_at(path, os.O_RDWR | _BINARY), "wb")  # noqa: SIM115 (closed on both paths)
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _keep_permissions(file: BinaryIO, path: Path) -> None:
    """Let nobody read the file that replaces another who could not read that one."""
    if not HAS_FOLDER_HANDLES:  # Windows: the folder gives the rights
        return
    name, folder = address(path)
    with suppress(FileNotFoundError, PermissionError):  # a file system may have no permissions
        os.fchmod(file.fileno(), stat.S_IMODE(os.stat(name, dir_fd=folder).st_mode))


def replace(source: Path, target: Path) -> None:
    """Rename a file onto another one, which may not exist."""
    (name, folder), (new_name, new_folder) = address(source), address(target)
    _made.difference_update([identity(target)])  # the system may give its inode to another file
    take_over([source])
    for attempt in range(_TRIES):
        try:
            os.replace(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
            break
        except PermissionError:  # on Windows, until a program that reads the file closes it
            if HAS_FOLDER_HANDLES or attempt == _TRIES - 1 or target.is_dir():
                raise
            time.sleep(_TRY_S)


def append_to(path: Path) -> BinaryIO:
    """Open a file of this job to add to its end; create it if needed."""
    handle = open_at(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _BINARY)
    take_over([path])
    return open(handle, "ab")


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
        with new_temporary(path, create_folder) as temporary:
            with watch(temporary):
                yield temporary
            for entry in temporary.rglob("*"):
                flush_folder(entry) if entry.is_dir() else flush_file(entry)
            flush_folder(temporary)
            _publish(temporary, path)
        flush_folder(path.parent)


def _publish(temporary: Path, path: Path) -> None:
    """Rename a folder; the system refuses to replace anything but an empty folder."""
    take_over([temporary])
    (name, folder), (new_name, new_folder) = address(temporary), address(path)
    try:
        try:
            os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
        except FileExistsError:  # Windows does not replace empty folders either
            with suppress(OSError):
                os.rmdir(new_name, dir_fd=new_folder)
            os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)
    except OSError as error:
        if error.errno not in _OCCUPIED:
            raise
        raise _written_by_others(path) from None


def _written_by_others(path: Path) -> WarmstartError:
    return WarmstartError(
        f"{path} was written by another program in the meantime; it is unchanged, and nothing "
        "else was written: move it away, or choose another -o"
    )


def _rename(path: Path, new: Path) -> None:
    """Rename a file or folder inside the held folder that both belong to."""
    (name, folder), (new_name, new_folder) = address(path), address(new)
    os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Hold an absent or empty folder for a whole job; yield a temporary folder that becomes it."""
    with lock_destination(path) as held:
        folder = held.names[1]
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
def lock_destination(path: Path) -> Iterator[HeldFolder]:
    """Lock and hold a folder, which is created if needed.

    The system frees the lock when the process ends. If the block fails, the folders that were
    created are removed as far as they are empty.
    """
    if path.exists() and not path.is_dir():
        raise WarmstartError(f"-o {path} is a file; name a folder")
    folder = real_path(path)
    created = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    owned = _lock_folder(folder, path)
    try:
        with hold(path, owned.handle) as held:
            try:
                yield held
            except BaseException:
                with suppress(OSError, MovedFolderError):  # another program uses a folder
                    held.check()
                    for parent in created:
                        parent.rmdir()
                raise
    finally:
        owned.release()


def _lock_folder(folder: Path, path: Path) -> Lock:
    """Create a folder and lock it; again if its last user has just removed it."""
    for _ in range(_MOST_REMOVED):
        try:
            make_folder(folder)
            known = identity(folder)
            owned = lock(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise WarmstartError(f"{path} cannot be written: {error.strerror}") from None
        if owned is None:
            raise WarmstartError(f"{path} is in use by another warmstart process")
        if known is not None and identity(folder) == known:
            return owned
        owned.release()
    raise WarmstartError(
        f"{path} cannot be written: the folder cannot be created, or does not stay"
    )


def real_path(path: Path) -> Path:
    """Return a path with all links followed; it need not exist."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise WarmstartError(f"{path} is a symbolic link that leads back to itself")
    return target


@contextmanager
def _errors_name(path: Path) -> Iterator[None]:
    """Let file-system errors name `path`, where they name no file or a temporary one.

    If its held folder is gone, that is the error.
    """
    try:
        yield
    except MovedFolderError:
        address(path)  # the destination tells more than a temporary folder in it
        raise
    except OSError as error:
        address(path)
        if error.errno is None:  # numpy does not say why it could not write everything
            raise WarmstartError(f"{path}: {error}; is there room on the disk?") from None
        named = Path(str(error.filename or ""))
        if error.filename is None or any(map(is_temporary, (named, *named.parents))):
            error.filename, error.filename2 = str(path), None
        raise


def make_folder(path: Path) -> None:
    """Create a folder and its parents durably; it may exist."""
    for folder in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        name, held = address(folder)
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=held)
            take_over([folder])
        flush_folder(folder.parent)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def flush_folder(path: Path) -> None:
    """Make the names in a folder durable, where the file system supports it."""
    if not HAS_FOLDER_HANDLES:
        return
    try:
        handle = open_at(path, os.O_RDONLY)
    except PermissionError:  # it may be written to, but not listed
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some systems cannot flush folders
            raise
    finally:
        os.close(handle)


def flush_file(path: Path) -> None:
    """Make the content of a file durable."""
    handle = open_at(path, os.O_RDONLY if HAS_FOLDER_HANDLES else os.O_RDWR)  # as Windows asks
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
def new_temporary(path: Path, create: Callable[[Path], object]) -> Iterator[Path]:
    """Yield a locked temporary name for `path`; remove what still has that name at the end."""
    temporary, owned = _create_locked(path, create)
    try:
        yield temporary
    finally:
        if owned:
            place = None if owned.handle is None else place_of(owned.handle)
            temporary = place if place and is_temporary(place) else temporary
            owned.release()
        remove(temporary)


def create_file(path: Path) -> None:
    """Create a file that must not exist."""
    os.close(open_at(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY))


def create_folder(path: Path) -> None:
    """Create a folder that must not exist."""
    name, held = address(path)
    os.mkdir(name, dir_fd=held)


def _create_locked(path: Path, create: Callable[[Path], object]) -> tuple[Path, Lock | None]:
    """Create and lock a temporary file; try again if another process took it for a leftover."""
    while True:
        temporary, owned = temporary_path(path), None
        create(temporary)
        with suppress(OSError):  # where locks are not supported, leftovers stay
            owned = lock(temporary, wait=True)
        if temporary.exists():
            return temporary, owned
        if owned:
            owned.release()


def remove_leftovers(folder: Path) -> None:
    """Remove everything that killed writes left in a folder and below it."""
    for path in list(folder.rglob(".*")):
        if is_temporary(path):
            _remove_unlocked(path)


def remove_leftovers_of(path: Path) -> None:
    """Remove what killed writes of one file or folder left beside it, where names can be listed."""
    neighbours: list[Path] = []
    with suppress(PermissionError):
        neighbours += path.parent.iterdir()
    for neighbour in neighbours:
        if final_name(neighbour) == path.name[:_NAME_CHARS]:
            _remove_unlocked(neighbour)


def _remove_unlocked(path: Path) -> None:
    """Remove a temporary file or folder unless its writer is alive."""
    if path.is_symlink():
        return
    with suppress(OSError):  # the path is gone, or this user cannot lock it
        owned = lock(path)
        if owned:
            try:
                remove(path)
            finally:
                owned.release()


def remove(path: Path) -> None:
    """Remove a temporary file or folder; an error never hides the one that led here."""
    with suppress(OSError, MovedFolderError):
        name, folder = address(path)
        is_folder = path.is_dir() and not path.is_symlink()
        # The system may give their inodes to files of others.
        _made.difference_update(map(identity, [path, *path.rglob("*")] if is_folder else [path]))
        if is_folder:
            shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def take_over(paths: Iterable[Path]) -> None:
    """Count files and folders among those that this job wrote, and may delete."""
    _made.update(known for path in paths if (known := identity(path)))


def remove_own(path: Path) -> bool:
    """Remove a file or folder that this job wrote, unless the folder has other files, too.

    It is hidden under a temporary name first: no half-deleted folder is ever seen, and what is
    judged is what is deleted. Return whether it is gone.
    """
    if not _is_own(path):
        return False
    hidden = temporary_path(path)
    try:
        _rename(path, hidden)
    except PermissionError:  # on Windows, a program has it open
        return False
    if not _is_own(hidden):  # it was exchanged a moment ago
        _rename(hidden, path)
        return False
    remove(hidden)
    return True


def _is_own(path: Path) -> bool:
    entries = (entry.name for entry in path.rglob("*") if not is_temporary(entry))
    is_made = not path.is_symlink() and identity(path) in _made
    return is_made and all(map(_WRITTEN.fullmatch, entries))
