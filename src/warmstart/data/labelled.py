"""Read labelled texts or text pairs, from a table or from two line-aligned files.

Labels remain the strings of the file.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from warmstart import progress
from warmstart.data.tables import DEFAULT, Row, aligned_rows, open_table
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import TABLE_SUFFIXES, format_of, read_lines

T = TypeVar("T")
PAIR = ("text", "text2")
_SEPARATOR = " ␞ "  # joins the two texts of a pair; the symbol does not occur in ordinary text


@dataclass(frozen=True)
class LabelledTexts:
    """The rows of labelled files that have a text and a label, in file order."""

    file: str
    texts: tuple[str, ...]  # none empty
    labels: tuple[str, ...]  # none empty, without surrounding spaces
    lines: tuple[int, ...]  # number of the line where each row begins; in Parquet, of the row
    seconds: tuple[str, ...] | None = None  # the second text of each pair, none empty
    skipped: int = 0  # rows without a text or a label
    description: str = ""  # how the file was read

    def __len__(self) -> int:
        return len(self.texts)

    def subset(self, rows: Sequence[int]) -> "LabelledTexts":
        """Return these rows, in this order."""

        def chosen(values: tuple[T, ...]) -> tuple[T, ...]:
            return tuple(values[row] for row in rows)

        return replace(
            self,
            texts=chosen(self.texts),
            labels=chosen(self.labels),
            lines=chosen(self.lines),
            seconds=None if self.seconds is None else chosen(self.seconds),
        )


def join_files(files: Sequence[LabelledTexts]) -> LabelledTexts:
    """Return the rows of several files, one after the other; all or none of them hold pairs."""
    first, *others = files
    if not others:
        return first
    return LabelledTexts(
        ", ".join(data.file for data in files),
        tuple(chain.from_iterable(data.texts for data in files)),
        tuple(chain.from_iterable(data.labels for data in files)),
        tuple(chain.from_iterable(data.lines for data in files)),
        None
        if first.seconds is None
        else tuple(chain.from_iterable(data.seconds or () for data in files)),
        sum(data.skipped for data in files),
    )


def read_labelled(
    path: Path, tables: TableFormat = DEFAULT, labels: Path | None = None
) -> LabelledTexts:
    """Read the texts of `path` with their labels, from its columns or from the file `labels`."""
    for file in (path, labels):
        if file is not None and file.is_dir():
            raise WarmstartError(f"{file} is a folder; labelled texts are read from files")
    is_plain = format_of(path) == "lines"
    if labels is not None:
        if tables.columns or not is_plain:
            raise WarmstartError(
                f"{path}: a separate file of labels ({labels}) goes with plain lines, "
                "not with a table or columns"
            )
        rows = aligned_rows((path, labels), ("text", "label"), tables.encoding)
        return _collect(rows, str(path), f"{path}: one text per line, labels in {labels}")
    if is_plain:
        raise WarmstartError(
            f"{path}: plain lines hold no labels; give the file of labels that goes with it, "
            f"or a {TABLE_SUFFIXES} file with text and label"
        )
    table = open_table(path, tables, ("text", "label"), optional=("text2",))
    return _collect(((row, row) for row in table.rows()), str(path), table.describe())


def _collect(rows: Iterable[tuple[Row, Row]], file: str, description: str) -> LabelledTexts:
    """Keep the rows with text and label; count the others."""
    texts, labels, lines, seconds = [], [], [], []
    num_rows, is_pair = 0, False
    for row, label_row in rows:
        num_rows += 1
        is_pair = "text2" in row.values
        text, label = row.text("text"), _label(label_row)
        second = row.text("text2") if is_pair else text
        if text.strip() and second.strip() and label:
            texts.append(text)
            labels.append(label)
            lines.append(row.number)
            seconds.append(second)
    if not texts:
        reason = f"none of the {counted(num_rows, 'row')} has both" if num_rows else "no rows"
        raise WarmstartError(f"{file}: no rows with text and label ({reason}); {description}")
    return LabelledTexts(
        file,
        tuple(texts),
        tuple(labels),
        tuple(lines),
        tuple(seconds) if is_pair else None,
        num_rows - len(texts),
        description,
    )


def join_pair(text: str, second: str | None) -> str:
    """Return a pair as one text, for models that read single texts."""
    return text if second is None else f"{text}{_SEPARATOR}{second}"


def _label(row: Row) -> str:
    """Return a label as a string: true and 1 as in JSON, 1.0 as 1; empty where there is none."""
    value = row.values["label"]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))  # tools without a missing integer write integers as floats
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return row.text("label").strip()


class TextRow(NamedTuple):
    """One row of a table, or one line as such a row."""

    text: str
    text2: str | None  # None: a single text
    record: Mapping[str, Any]  # the whole row by column name

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no text, or one of a pair is missing."""
        return not self.text.strip() or (self.text2 is not None and not self.text2.strip())


def read_text_rows(
    source: Path | BinaryIO, tables: TableFormat, is_pair: bool
) -> Iterator[TextRow]:
    """Yield every row, including empty ones; in plain lines a tab separates the texts of a pair."""
    if not isinstance(source, Path) or format_of(source) == "lines":
        lines = read_lines(source, tables.encoding)
        name = str(source) if isinstance(source, Path) else "standard input"
        yield from _pair_lines(lines, name) if is_pair else _text_lines(lines)
        return
    table = open_table(source, tables, PAIR if is_pair else PAIR[:1])
    progress.say(table.describe())
    for row in table.rows():
        yield TextRow(row.text("text"), row.text("text2") if is_pair else None, row.record)


def _text_lines(lines: Iterable[str]) -> Iterator[TextRow]:
    for line in lines:
        yield TextRow(line, None, {"text": line})


def _pair_lines(lines: Iterable[str], name: str) -> Iterator[TextRow]:
    for number, line in enumerate(lines, 1):
        first, tab, second = line.partition("\t")
        if line and (not tab or "\t" in second):
            fields = counted(line.count("\t") + 1, "field")
            raise WarmstartError(
                f"{name} line {number}: {fields}, but 2 expected: a pair is two texts separated "
                "by a tab"
            )
        yield TextRow(first, second, {"text": first, "text2": second})
