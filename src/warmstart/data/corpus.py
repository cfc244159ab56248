"""Stream unlabelled text: passages of documents for training, single texts for prediction.

At most one passage or row is in memory at a time.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from warmstart import progress
from warmstart.data.tables import DEFAULT, Table, open_table
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat, TextLines
from warmstart.textfiles import expand, file_or_stream, format_of, read_lines, text_size

_PASSAGE_CHARS = 1 << 16  # a longer document is split into several passages
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Passage:
    """A document, or part of a document that is too long to hold."""

    rows: tuple[str, ...]  # its paragraphs in order, none empty
    continues: bool  # its document began in an earlier passage

    @property
    def num_chars(self) -> int:
        return sum(map(len, self.rows))

    @property
    def num_bytes(self) -> int:
        """Return the size of the passage, including line ends."""
        return sum(len(row.encode()) + 1 for row in self.rows)


@dataclass
class RowCounts:
    """The number of rows read so far."""

    rows: int = 0  # lines or table rows; blank lines that separate documents do not count
    skipped: int = 0  # empty ones among them


@dataclass(frozen=True)
class TextSource:
    """Text files, and how they are divided into documents."""

    files: tuple[Path, ...]
    document: str
    tables: TableFormat = DEFAULT

    def passages(self, counts: dict[Path, RowCounts] | None = None) -> Iterator[Passage]:
        """Stream all files in order, and enter the rows of each in `counts`."""
        for path in self.files:
            file_counts = RowCounts()
            yield from read_passages(path, self.document, self.tables, file_counts)
            if counts is not None:
                counts[path] = file_counts

    @property
    def num_bytes(self) -> int | None:
        """Return the size of the text, None where it is not known before reading."""
        sizes = [text_size(path) for path in self.files]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None


def source_of(
    patterns: Sequence[str],
    document: str,
    tables: TableFormat = DEFAULT,
    allow_private_urls: bool = False,
) -> TextSource:
    """Return the text in the files that names, folders, globs and URLs refer to."""
    source = TextSource(expand(patterns, allow_private_urls), document, tables)
    for path in source.files:
        if format_of(path) != "lines":
            progress.say(open_table(path, tables).describe())
    return source


def read_passages(
    path: Path,
    document: str = "auto",
    tables: TableFormat = DEFAULT,
    counts: RowCounts | None = None,
) -> Iterator[Passage]:
    """Yield the documents of a file; `document` says what separates them in plain text."""
    if document not in ("auto", "blank", "line"):
        raise WarmstartError(f"document={document} must be auto, blank or line")
    counts = RowCounts() if counts is None else counts
    encoding = tables.encoding
    documents: Iterator[Iterable[str]]
    if format_of(path) != "lines":
        texts = (re.split("\r?\n", text) for text in _table_texts(open_table(path, tables)))
        documents = (rows for text in texts for rows in _count_row(text, counts))
    elif document == "blank" or (document == "auto" and _has_blank_between(path, encoding)):
        documents = _documents_of_blocks(path, encoding, counts)
    else:
        lines = read_lines(path, encoding)
        documents = (rows for line in lines for rows in _count_row([line], counts))
    is_empty = True
    for rows in documents:
        for passage in _passages(rows):
            is_empty = False
            yield passage
    if is_empty:
        raise WarmstartError(f"{path}: no rows with text")


def read_input(config: TextLines, stream: BinaryIO | None) -> Iterator[str]:
    """Yield the text of --text, or the texts of a file or a stream."""
    if config.text is not None:
        return iter([config.text])
    return read_texts(file_or_stream(config.file, stream), config)


def read_texts(source: Path | BinaryIO, tables: TableFormat = DEFAULT) -> Iterator[str]:
    """Yield the text of every line or row, including empty ones; a stream has plain lines."""
    if not isinstance(source, Path) or format_of(source) == "lines":
        yield from read_lines(source, tables.encoding)
    else:
        table = open_table(source, tables)
        progress.say(table.describe())
        yield from _table_texts(table)


def _table_texts(table: Table) -> Iterator[str]:
    return (row.text("text") for row in table.rows())


def _has_text(line: str) -> bool:
    return bool(line.strip())


def _has_blank_between(path: Path, encoding: str) -> bool:
    groups = groupby(read_lines(path, encoding), _has_text)
    blocks = (has_text for has_text, _ in groups if has_text)
    return len(list(islice(blocks, 2))) == 2


def _documents_of_blocks(path: Path, encoding: str, counts: RowCounts) -> Iterator[Iterator[str]]:
    def count_rows(lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            counts.rows += 1
            yield line

    for has_text, lines in groupby(read_lines(path, encoding), _has_text):
        if has_text:
            yield count_rows(lines)


def _count_row(paragraphs: list[str], counts: RowCounts) -> Iterator[list[str]]:
    """Count one row and yield its paragraphs with text, if there are any."""
    counts.rows += 1
    filled = list(filter(_has_text, paragraphs))
    if filled:
        yield filled
    else:
        counts.skipped += 1


def _passages(document: Iterable[str]) -> Iterator[Passage]:
    rows: list[str] = []
    size = 0
    continues = False
    for row in document:
        for part in _split_row(row):
            if rows and size + len(part) > _PASSAGE_CHARS:
                yield Passage(tuple(rows), continues)
                rows, size, continues = [], 0, True
            rows.append(part)
            size += len(part)
    if rows:
        yield Passage(tuple(rows), continues)


def _split_row(row: str) -> Iterator[str]:
    """Split a row longer than a passage, at spaces where possible."""
    start = 0
    while len(row) - start > _PASSAGE_CHARS:
        space = row.rfind(" ", start + 1, start + _PASSAGE_CHARS)
        stop = space if space > 0 else start + _PASSAGE_CHARS
        if row[start:stop].strip():
            yield row[start:stop]
        start = stop + 1 if space > 0 else stop
    if row[start:].strip():
        yield row[start:]


def cut_chunks(
    items: Iterable[T], limit: int, size_of: Callable[[Any], int] = lambda _: 1
) -> Iterator[list[T]]:
    """Yield items in order, in lists that end when their total size reaches `limit`."""
    chunk: list[T] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += size_of(item)
        if size >= limit:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def map_ahead(
    items: Iterable[T], make: Callable[[T], R], num_ahead: int = 2
) -> Iterator[tuple[T, R]]:
    """Yield every item with its result, in order; a thread computes the next ones meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        yield from submit_ahead(items, lambda item: pool.submit(make, item), num_ahead)


def submit_ahead(
    items: Iterable[T], submit: Callable[[T], "Future[R]"], num_ahead: int
) -> Iterator[tuple[T, R]]:
    """Yield every item with its result, in order; `num_ahead` more are submitted meanwhile."""
    waiting: deque[tuple[T, Future[R]]] = deque()
    for item in items:
        waiting.append((item, submit(item)))
        if len(waiting) > num_ahead:
            first, made = waiting.popleft()
            yield first, made.result()
    for last, made in waiting:
        yield last, made.result()
