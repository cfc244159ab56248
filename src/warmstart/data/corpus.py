"""Stream unlabelled text: passages of documents for training, single texts for prediction.

Knows nothing about labels or tokens; never holds more than one passage or row.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from warmstart.data.columns import parse_columns
from warmstart.data.tables import as_text, read_rows
from warmstart.errors import WarmstartError
from warmstart.textfiles import expand, format_of, read_lines, sha256_of

__all__ = ["Passage", "Tally", "expand", "read_passages", "read_texts", "sha256_of"]

_PASSAGE_CHARS = 1 << 16  # more than this, and a document comes in several passages


@dataclass(frozen=True)
class Passage:
    """A document, or one stretch of a document too long to hold."""

    rows: tuple[str, ...]  # its paragraphs in order, none empty
    continues: bool  # its document began in an earlier passage


@dataclass
class Tally:
    """What was read so far, over as many files as it is handed to."""

    rows: int = 0  # lines or table rows; blank lines that part documents are not rows
    skipped: int = 0  # those of them that were empty


def read_passages(
    path: Path,
    document: str = "auto",
    columns: Sequence[str] = ("text",),
    tally: Tally | None = None,
) -> Iterator[Passage]:
    """Yield the documents of a file; `document` says what parts them in plain text."""
    if document not in ("auto", "blank", "line"):
        raise WarmstartError(f"document={document} must be auto, blank or line")
    tally = Tally() if tally is None else tally
    if format_of(path) != "lines":
        documents = _table_documents(path, columns, tally)
    elif document == "blank" or (document == "auto" and _has_blank_between(path)):
        documents = _blank_parted(path, tally)
    else:
        documents = _line_documents(path, tally)
    is_empty = True
    for rows in documents:
        for passage in _passages(rows):
            is_empty = False
            yield passage
    if is_empty:
        raise WarmstartError(f"{path}: no rows with text")


def read_texts(source: Path | BinaryIO, columns: Sequence[str] = ("text",)) -> Iterator[str]:
    """Yield one text for every line or row, empty ones too; a stream is read as plain lines."""
    if not isinstance(source, Path) or format_of(source) == "lines":
        yield from read_lines(source)
    else:
        for row in read_rows(source, parse_columns(columns, ("text",))):
            yield as_text(row.values["text"], source, row.number, "text")


def _has_blank_between(path: Path) -> bool:
    has_text = has_blank = False
    for line in read_lines(path):
        is_blank = not line.strip()
        if has_blank and not is_blank:
            return True
        has_text = has_text or not is_blank
        has_blank = has_text and is_blank
    return False


def _blank_parted(path: Path, tally: Tally) -> Iterator[Iterator[str]]:
    lines = read_lines(path)
    for first in lines:
        if first.strip():
            yield _until_blank(first, lines, tally)


def _until_blank(first: str, lines: Iterator[str], tally: Tally) -> Iterator[str]:
    tally.rows += 1
    yield first
    for line in lines:
        if not line.strip():
            return
        tally.rows += 1
        yield line


def _line_documents(path: Path, tally: Tally) -> Iterator[Iterable[str]]:
    for line in read_lines(path):
        yield from _counted([line], tally)


def _table_documents(path: Path, columns: Sequence[str], tally: Tally) -> Iterator[Iterable[str]]:
    for row in read_rows(path, parse_columns(columns, ("text",))):
        text = as_text(row.values["text"], path, row.number, "text")
        yield from _counted(re.split("\r?\n", text), tally)


def _counted(paragraphs: list[str], tally: Tally) -> Iterator[list[str]]:
    """Yield one row's paragraphs that hold text; count the row as skipped when none does."""
    tally.rows += 1
    kept = [paragraph for paragraph in paragraphs if paragraph.strip()]
    if kept:
        yield kept
    else:
        tally.skipped += 1


def _passages(document: Iterable[str]) -> Iterator[Passage]:
    rows: list[str] = []
    size = 0
    continues = False
    for row in document:
        for part in _cut(row):
            if rows and size + len(part) > _PASSAGE_CHARS:
                yield Passage(tuple(rows), continues)
                rows, size, continues = [], 0, True
            rows.append(part)
            size += len(part)
    if rows:
        yield Passage(tuple(rows), continues)


def _cut(row: str) -> Iterator[str]:
    """Cut a row longer than a passage, at a space where there is one."""
    start = 0
    while len(row) - start > _PASSAGE_CHARS:
        space = row.rfind(" ", start + 1, start + _PASSAGE_CHARS)
        stop = space if space > 0 else start + _PASSAGE_CHARS
        if row[start:stop].strip():
            yield row[start:stop]
        start = stop + 1 if space > 0 else stop
    if row[start:].strip():
        yield row[start:]
