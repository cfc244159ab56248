"""Find files, open them whatever their compression, and stream their lines.

Knows nothing about columns, documents or labels.
"""

import bz2
import glob
import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from warmstart.errors import WarmstartError

Format = Literal["lines", "jsonl", "csv", "tsv", "parquet"]

_FORMATS: dict[str, Format] = {
    ".txt": "lines",
    ".jsonl": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
_COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst")

LONGEST_LINE = 1 << 27  # bytes; a longer one would only fill the memory
_MOST_EXPANDED = 250  # times a file's size that it may decompress to, once that is over a gigabyte
_SURELY_FINE = 1 << 30  # bytes

UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What opening or decompressing a damaged file may raise."""


def expand(patterns: Sequence[str]) -> tuple[Path, ...]:
    """Return the files that names, folders and globs stand for, in order and without repeats."""
    found: dict[Path, Path] = {}
    for pattern in patterns:
        for path in _expand_one(pattern):
            found.setdefault(path.resolve(), path)
    return tuple(found.values())


def _expand_one(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        return _files_under(path)
    if path.is_file():
        return [path]
    if path.exists():
        raise WarmstartError(f"{pattern} is a pipe or a device; files are read more than once")
    if not glob.has_magic(pattern):
        raise WarmstartError(f"{pattern}: no such file or folder")
    matches = [Path(match) for match in sorted(glob.glob(pattern, recursive=True))]
    files = [match for match in matches if match.is_file()]
    if not files:
        raise WarmstartError(f"{pattern}: no file matches this pattern")
    return files


def _files_under(folder: Path) -> list[Path]:
    files = sorted(p for p in folder.rglob("*") if base_suffix(p) in _FORMATS and p.is_file())
    if not files:
        raise WarmstartError(
            f"{folder}: no file in this folder ends in {' '.join(_FORMATS)}, "
            f"compressed ({' '.join(_COMPRESSIONS)}) or not"
        )
    return files


def file_or_stream(name: str | None, stream: BinaryIO | None) -> Path | BinaryIO:
    """Return the file of this name, a pipe too; without a name, or by the name `-`, the stream."""
    if name is None or name == "-":
        if stream is None:
            raise WarmstartError("FILE is missing: texts, a line each")
        return stream
    path = Path(name)
    if path.is_dir():
        raise WarmstartError(f"{name} is a folder; give one file")
    if not path.exists():
        raise WarmstartError(f"{name}: no such file")
    return path


def base_suffix(path: Path) -> str:
    """Return a file's extension in lower case, looking through a compression."""
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSIONS else path
    return plain.suffix.lower()


def format_of(path: Path) -> Format:
    """Return how a file is laid out, by its name; an unknown extension means plain lines."""
    return _FORMATS.get(base_suffix(path), "lines")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as hexadecimal digits."""
    if path.exists() and not path.is_file():
        raise WarmstartError(f"{path} is not a file")
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise WarmstartError(f"{path}: {explain(error)}") from None


def _open_zst(path: Path) -> io.BufferedReader:
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"), 1 << 16)


_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
    ".zst": _open_zst,
}


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading its decompressed bytes."""
    opener = _OPENERS.get(path.suffix.lower(), partial(open, mode="rb"))
    try:
        return cast(BinaryIO, opener(path))
    except UNREADABLE as error:
        raise WarmstartError(f"{path}: {explain(error)}") from None


def explain(error: Exception) -> str:
    """Say in a few words why a file could not be read."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())
    truncated = isinstance(error, EOFError) or "Truncated" in reason
    if truncated:
        return "the compressed data stops too early, so the file is truncated"
    return f"cannot be read ({reason[:1].lower()}{reason[1:]})"


def read_bytes(path: Path) -> bytes:
    """Return the whole decompressed content of a file."""
    with open_binary(path) as stream:
        try:
            content = stream.read(_SURELY_FINE + 1)
        except UNREADABLE as error:
            raise WarmstartError(f"{path}: {explain(error)}") from None
    if len(content) > _SURELY_FINE:
        raise WarmstartError(f"{path} holds more than {_SURELY_FINE:,} bytes, too many to read")
    return content


def read_lines(source: Path | BinaryIO) -> Iterator[str]:
    r"""Yield every line without its end; only \n and \r\n end lines."""
    if isinstance(source, Path):
        with open_binary(source) as stream:
            yield from _lines_of(stream, str(source), most_bytes(source))
    else:
        yield from _lines_of(source, "standard input", None)


def most_bytes(path: Path) -> int | None:
    """Return how many bytes a compressed file may give, None for one that is not compressed."""
    if path.suffix.lower() not in _COMPRESSIONS:
        return None
    return max(_SURELY_FINE, _MOST_EXPANDED * path.stat().st_size)


def refuse_bomb(name: str) -> WarmstartError:
    """Return the error for a small file that decompresses to far too much."""
    return WarmstartError(
        f"{name} decompresses to more than {_MOST_EXPANDED} times its size, as no text does; "
        "decompress it yourself if that is right"
    )


def _lines_of(stream: BinaryIO, name: str, most: int | None) -> Iterator[str]:
    number = num_bytes = 0
    try:
        while raw := stream.readline(LONGEST_LINE + 1):
            number += 1
            num_bytes += len(raw)
            if len(raw) > LONGEST_LINE:
                raise WarmstartError(f"{name} line {number} is longer than {LONGEST_LINE:,} bytes")
            if most is not None and num_bytes > most:
                raise refuse_bomb(f"{name} (line {number})")
            line = _decode(raw, name, number)
            yield line.removeprefix("\ufeff") if number == 1 else line
    except UNREADABLE as error:
        raise WarmstartError(f"{name} line {number + 1}: {explain(error)}") from None


def _decode(raw: bytes, name: str, number: int) -> str:
    if b"\0" in raw:
        raise WarmstartError(
            f"{name} line {number}: byte {raw.index(0) + 1} is NUL, so this is a binary file "
            "or UTF-16; text in UTF-8 is needed"
        )
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WarmstartError(
            f"{name} line {number}: byte {error.start + 1} (0x{raw[error.start]:02X}) "
            "is not UTF-8; save the file as UTF-8"
        ) from None
    return line.removesuffix("\n").removesuffix("\r")
