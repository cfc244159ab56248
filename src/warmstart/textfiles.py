"""Find text files, decompress them and stream their lines.

The extensions of files to read are listed here: formats in `_FORMATS`, compressions in `_OPENERS`.
"""

import bz2
import glob
import gzip
import hashlib
import io
import lzma
import os
import shlex
import sys
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from warmstart.errors import WarmstartError
from warmstart.remotefiles import is_url, local_copies

Format = Literal["lines", "jsonl", "csv", "tsv", "parquet", "workbook"]
_FORMATS: dict[str, Format] = {
    ".txt": "lines",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".parquet": "parquet",
    ".xlsx": "workbook",
    ".xls": "workbook",
    ".xlsb": "workbook",
    ".ods": "workbook",
}
TABLE_SUFFIXES = " ".join(suffix for suffix, name in _FORMATS.items() if name != "lines")
LONGEST_LINE = 1 << 27  # bytes; a longer line would exhaust the memory
SAFE_BYTES = 1 << 30  # a file that is streamed may always decompress to this size
BLOCK = 1 << 16  # bytes of a compressed file that are read at once
LARGEST_WHOLE = 1 << 28  # bytes of a file that is read whole; large tokenizers have tens of MB
MAX_EXPANSION = 250  # beyond it, a file may decompress to this many times its size
ROW_BYTES = 128  # that a row or line counts besides its own: it takes memory even if it is empty
# Raised when a damaged file is opened or decompressed.
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)


def _open_with_arrow(path: Path, codec: str) -> io.BufferedReader:
    import pyarrow as pa

    return io.BufferedReader(pa.CompressedInputStream(pa.OSFile(str(path)), codec), BLOCK)


class _Streams(io.RawIOBase):
    """The content of a file of compressed streams, of which the standard library skips bad ones."""

    def __init__(self, path: Path, new: Callable[[], Any]) -> None:
        self._file, self._new, self._stream = path.open("rb"), new, new()

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        data = b""
        while not data:
            block = self._next_block()
            if block is None:
                return 0
            data = self._stream.decompress(block, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _next_block(self) -> bytes | None:
        """Return what the stream reads next, nothing while it has enough; None: the end."""
        if not self._stream.eof:
            block = self._file.read(BLOCK) if self._stream.needs_input else b""
            if self._stream.needs_input and not block:
                raise EOFError("no end of the stream")
            return block
        rest = self._stream.unused_data.lstrip(b"\0")  # padding
        while not rest:
            if not (block := self._file.read(BLOCK)):
                return None
            rest = block.lstrip(b"\0")
        self._stream = self._new()
        return rest


def _open_streams(path: Path, new: Callable[[], Any]) -> io.BufferedReader:
    return io.BufferedReader(_Streams(path, new), BLOCK)


_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".xz": partial(_open_streams, new=lzma.LZMADecompressor),
    ".bz2": partial(_open_streams, new=bz2.BZ2Decompressor),
    ".zst": partial(_open_with_arrow, codec="zstd"),
}


def expand(patterns: Sequence[str], allow_private_urls: bool = False) -> tuple[Path, ...]:
    """Return the files that names, folders, globs and URLs refer to, in order and once each."""
    files: dict[Path, Path] = {}
    for pattern in patterns:
        for path in _matching_files(pattern, allow_private_urls):
            if str(path) != str(path).encode(errors="ignore").decode():
                raise WarmstartError(f"{path}: its name is not UTF-8, so rename it")
            files.setdefault(path.resolve(), path)
    return tuple(files.values())


def _matching_files(pattern: str, allow_private_urls: bool) -> list[Path]:
    if is_url(pattern):
        return local_copies(
            pattern, allow_private_urls, lambda name: base_suffix(Path(name)) in _FORMATS
        )
    path = Path(pattern)
    if path.is_dir():
        return _files_under(path)
    if path.is_file():
        return [path]
    refuse_pipe(path)
    if not glob.has_magic(pattern):
        raise WarmstartError(f"{pattern} {describe_missing(path)}")
    matches = [Path(match) for match in sorted(glob.glob(pattern, recursive=True))]
    files = [match for match in matches if match.is_file()]
    if not files:
        raise WarmstartError(f"{pattern}: no file matches this pattern")
    return files


def describe_missing(path: Path) -> str:
    """Say why nothing is at a path, and name files with similar names."""
    if path.is_symlink():
        target = Path(os.path.realpath(path))
        end = "back to itself" if target.is_symlink() else f"to {target}, which does not exist"
        return f"is a symbolic link that leads {end}"
    folder = path.parent
    if not folder.is_dir():
        return f"does not exist: there is no folder {folder}"
    try:
        names = [entry.name for entry in folder.iterdir() if not _is_empty_folder(entry)]
    except OSError:
        names = []
    close = [shlex.quote(str(folder / name)) for name in get_close_matches(path.name, names)]
    if close:
        return f"does not exist; did you mean {' or '.join(close)}?"
    return f"does not exist: there is nothing like it in {folder.absolute()}"


def _is_empty_folder(path: Path) -> bool:
    """Tell whether a path is a folder without files, such as one that is about to be written."""
    return path.is_dir() and all(child.name.startswith(".") for child in path.iterdir())


def refuse_pipe(path: Path) -> None:
    """Refuse a pipe or a device, where reading a second time would wait forever."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise WarmstartError(
            f"{path} is a pipe or a device; input is read more than once, so give a file"
        )


def _files_under(folder: Path) -> list[Path]:
    files = sorted(p for p in folder.rglob("*") if base_suffix(p) in _FORMATS and p.is_file())
    if not files:
        raise WarmstartError(
            f"{folder}: no file in this folder ends in {' '.join(_FORMATS)}, "
            f"with or without a compression ({' '.join(_OPENERS)})"
        )
    return files


def standard_input() -> BinaryIO | None:
    """Return the bytes of standard input; None if it is closed."""
    return sys.stdin.buffer if sys.stdin else None


def file_or_stream(name: str | None, stream: BinaryIO | None) -> Path | BinaryIO:
    """Return the file or pipe of this name, or the stream if there is no name or it is `-`."""
    if name is None or name == "-":
        if stream is None:
            raise WarmstartError("FILE is missing: name a file with one text per line")
        return stream
    path = Path(name)
    if path.is_dir():
        raise WarmstartError(f"{name} is a folder; give one file")
    if not path.exists():
        raise WarmstartError(f"{name} {describe_missing(path)}")
    return path


def is_compressed(path: Path) -> bool:
    """Tell by its name whether a file is compressed."""
    return path.suffix.lower() in _OPENERS


def base_suffix(path: Path) -> str:
    """Return a file's extension in lower case, without the extension of a compression."""
    return (path.with_suffix("") if is_compressed(path) else path).suffix.lower()


def format_of(path: Path) -> Format:
    """Return the format of a file by its name; an unknown extension means plain lines."""
    return _FORMATS.get(base_suffix(path), "lines")


def text_size(path: Path) -> int | None:
    """Return the bytes of text in a file; None where a compressed format hides them."""
    is_hidden = is_compressed(path) or format_of(path) in ("parquet", "workbook")
    return None if is_hidden else path.stat().st_size


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's stored bytes, as hexadecimal digits."""
    if path.exists() and not path.is_file():
        raise WarmstartError(f"{path} is not a file")
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise WarmstartError(f"{path}: {explain(error)}") from None


def is_one_of(path: Path, checksums: Collection[str]) -> bool:
    """Tell whether a file has one of these checksums; those of the system have no size, and no end.

    What a run names is read only if it is what the run was trained on: the run may be somebody
    else's.
    """
    return path.is_file() and path.stat().st_size > 0 and sha256_of(path) in checksums


def file_facts(rows: Mapping[Path, int]) -> list[dict[str, Any]]:
    """Return the path, checksum and number of rows of each file."""
    return [
        {"path": str(path), "sha256": sha256_of(path), "rows": num_rows}
        for path, num_rows in rows.items()
    ]


def open_binary(path: Path) -> BinaryIO:
    """Open a file for reading its decompressed bytes."""
    opener = _OPENERS.get(path.suffix.lower(), partial(open, mode="rb"))
    try:
        return cast(BinaryIO, opener(path))
    except UNREADABLE as error:
        raise WarmstartError(f"{path}: {explain(error)}") from None


def open_seekable(path: Path) -> BinaryIO:
    """Open a file for random access, through a temporary copy when it is compressed."""
    stream = open_binary(path)
    if not is_compressed(path):
        return stream
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    with stream:
        try:
            limit = max_bytes(path) or 0
            while block := stream.read(1 << 20):
                if copy.tell() + len(block) > limit:
                    raise bomb_error(str(path))
                copy.write(block)
        except UNREADABLE as error:
            raise WarmstartError(f"{path}: {explain(error)}") from None
    copy.seek(0)
    return cast(BinaryIO, copy)


def explain(error: Exception) -> str:
    """Say why a file cannot be read."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split())
    if isinstance(error, EOFError) or "Truncated" in reason:
        return "the compressed data ends too early, so the file is truncated"
    return f"cannot be read ({reason[:1].lower()}{reason[1:]})"


def read_bytes(path: Path) -> bytes:
    """Return the whole decompressed content of a file."""
    with open_binary(path) as stream:
        try:
            content = stream.read(LARGEST_WHOLE + 1)
        except UNREADABLE as error:
            raise WarmstartError(f"{path}: {explain(error)}") from None
    if len(content) > LARGEST_WHOLE:
        raise WarmstartError(f"{path} holds more than {LARGEST_WHOLE:,} bytes, too many to read")
    return content


def read_lines(source: Path | BinaryIO, encoding: str = "utf-8") -> Iterator[str]:
    r"""Yield every line without its end; only \n and \r\n end lines."""
    if isinstance(source, Path):
        with open_binary(source) as stream:
            limit = max_bytes(source)
            yield from _read_stream(_as_utf8(stream, encoding), str(source), limit)
    else:
        yield from _read_stream(_as_utf8(source, encoding), "standard input", None)


class _Recoded:
    """The lines of a stream in another encoding, as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._text = io.TextIOWrapper(stream, encoding, newline="\n")

    def readline(self, size: int) -> bytes:
        return self._text.readline(size).encode("utf-8")


def _as_utf8(stream: BinaryIO, encoding: str) -> BinaryIO | _Recoded:
    return stream if encoding == "utf-8" else _Recoded(stream, encoding)


def max_bytes(path: Path) -> int | None:
    """Return how many bytes a compressed file may expand to, None if it is not compressed."""
    return most_expanded(path.stat().st_size) if is_compressed(path) else None


def most_expanded(size: int) -> int:
    """Return how many bytes a compressed file of a size may expand to."""
    return max(SAFE_BYTES, MAX_EXPANSION * size)


def bomb_error(name: str) -> WarmstartError:
    """Return the error for a small file that decompresses to far too much."""
    return WarmstartError(
        f"{name} decompresses to more than {MAX_EXPANSION} times its size (a row counts "
        f"{ROW_BYTES} bytes more than it has), which is unusual for text; if this is intended, "
        "save it as uncompressed text"
    )


def _read_stream(stream: BinaryIO | _Recoded, name: str, limit: int | None) -> Iterator[str]:
    number = num_bytes = 0
    try:
        while raw := stream.readline(LONGEST_LINE + 1):
            number += 1
            num_bytes += ROW_BYTES + len(raw)
            if len(raw) > LONGEST_LINE:
                raise WarmstartError(f"{name} line {number} is longer than {LONGEST_LINE:,} bytes")
            if limit is not None and num_bytes > limit:
                raise bomb_error(f"{name} (line {number})")
            line = _decode(raw, name, number)
            if number == 1 and _ends_lines_with_cr(raw):
                raise WarmstartError(
                    f"{name}: its lines end with a carriage return (CR) alone, as on old Macs; "
                    "save it with LF or CR LF at the ends of lines"
                )
            yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeError as error:
        raise WarmstartError(
            f"{name} line {number + 1} or soon after: not the encoding that --encoding names "
            f"({error})"
        ) from None
    except UNREADABLE as error:
        raise WarmstartError(f"{name} line {number + 1}: {explain(error)}") from None


def _ends_lines_with_cr(first: bytes) -> bool:
    """Tell whether the first line of a file is all of it, with several CR inside."""
    return first.count(b"\r") > 1 and not first.endswith(b"\n")


def _decode(raw: bytes, name: str, number: int) -> str:
    if b"\0" in raw:
        raise WarmstartError(
            f"{name} line {number}: byte {raw.index(0) + 1} is NUL, so this is a binary file "
            "or UTF-16; for UTF-16 add --encoding utf-16"
        )
    try:
        line = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WarmstartError(
            f"{name} line {number}: byte {error.start + 1} (0x{raw[error.start]:02X}) "
            "is not UTF-8; if Excel or another Windows program wrote the file, add "
            "--encoding cp1252, else save it as UTF-8"
        ) from None
    return line.removesuffix("\n").removesuffix("\r")
