"""Stream rows to be labelled: a text or a pair of texts, with the rest of the row."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from warmstart import progress
from warmstart.data.labelled import PAIR
from warmstart.data.tables import open_table
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.settings.shared import TableFormat
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
