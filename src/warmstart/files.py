"""Files and folders that are written whole or not at all, and survive a power cut.

Knows nothing about what is in them.
"""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> Path:
    """Write `content` under a temporary name beside `path`, then rename it; makes the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)
    return path


def write_json(path: Path, data: Any) -> Path:
    """Write JSON, whole or not at all."""
    return write_whole(path, (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` when the block ends well, else vanishes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.iterdir():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        flush_folder(temporary)
        shutil.rmtree(path, ignore_errors=True)
        os.replace(temporary, path)
        flush_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def flush_folder(path: Path) -> None:
    """Make names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_leftover(path: Path) -> bool:
    """Tell whether a write that was killed left this behind."""
    return path.name.startswith(".") and path.name.endswith((".tmp", ".old"))


def remove_leftovers(folder: Path) -> None:
    """Remove what killed writes left in a folder that nobody else writes to."""
    for path in folder.rglob(".*"):
        if is_leftover(path):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest ends of different paths that tell them apart."""
    longest = max((len(path.parts) for path in paths), default=1)
    for length in range(1, longest):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]
