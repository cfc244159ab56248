"""Stream rows to be labelled: a text or a pair of texts, with the rest of the row."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from warmstart.data.labelled import PAIR
from warmstart.data.tables import SKIP, Row, parse_columns, read_rows
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.textfiles import format_of, read_lines


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
    source: Path | BinaryIO, columns: Sequence[str], is_pair: bool
) -> Iterator[TextRow]:
    """Yield every row, including empty ones; in plain lines a tab separates the texts of a pair."""
    if not isinstance(source, Path) or format_of(source) == "lines":
        yield from _pair_lines(source) if is_pair else _text_lines(source)
        return
    parsed = parse_columns(_without_label(columns), PAIR if is_pair else PAIR[:1])
    for row in read_rows(source, parsed, is_whole=True):
        text2 = _text(row, "text2") if is_pair else None
        yield TextRow(_text(row, "text"), text2, row.record)


def _text_lines(source: Path | BinaryIO) -> Iterator[TextRow]:
    for line in read_lines(source):
        yield TextRow(line, None, {"text": line})


def _pair_lines(source: Path | BinaryIO) -> Iterator[TextRow]:
    for number, line in enumerate(read_lines(source), 1):
        first, tab, second = line.partition("\t")
        if line and (not tab or "\t" in second):
            where = source if isinstance(source, Path) else "standard input"
            fields = counted(line.count("\t") + 1, "field")
            raise WarmstartError(
                f"{where} line {number}: {fields}, but 2 expected: a pair is two texts separated "
                "by a tab"
            )
        yield TextRow(first, second, {"text": first, "text2": second})


def _without_label(columns: Sequence[str]) -> list[str]:
    """Return the columns that training takes, for a table that may lack the labels."""
    return [SKIP if column.partition("=")[0].strip() == "label" else column for column in columns]


def _text(row: Row, role: str) -> str:
    return "" if row.values[role] is None else row.text(role)
