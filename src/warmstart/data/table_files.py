"""Read the cells of .csv, .tsv, .jsonl and .parquet files, row by row."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.dataframes import class_names, name_classes
from warmstart.errors import WarmstartError
from warmstart.textfiles import (
    ROW_BYTES,
    UNREADABLE,
    bomb_error,
    format_of,
    most_expanded,
    open_seekable,
    read_lines,
)

NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_DECIMAL_COMMAS = re.compile(r"([^,]|(?<=\d),(?=\d))*")
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")  # or a whole one
_LONGEST_FIELD = 2**31 - 1  # the csv module's own limit refuses long texts

Fields = tuple[int, list[str]]  # number of the line where a row begins, and its fields
Record = tuple[int, dict[str, Any]]  # number of a line or row, and its cells by name


class QuotingError(ValueError):
    """Quotes that do not follow the rules of CSV, in the row that begins on a line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True)
class Dialect:
    """What separates fields, and whether fields may be quoted."""

    delimiter: str
    is_quoted: bool

    def describe(self) -> str:
        """Name the delimiter."""
        return f"{NAMES.get(self.delimiter, repr(self.delimiter))}-separated"

    def split(self, lines: Iterable[str]) -> Iterator[Fields]:
        """Yield the fields of every row, none for a blank line."""
        return self._split_quoted(lines) if self.is_quoted else self._split_plain(lines)

    def _split_plain(self, lines: Iterable[str]) -> Iterator[Fields]:
        for number, line in enumerate(lines, 1):
            yield number, line.split(self.delimiter) if line else []

    def _split_quoted(self, lines: Iterable[str]) -> Iterator[Fields]:
        csv.field_size_limit(_LONGEST_FIELD)
        ended = (f"{line}\n" for line in lines)
        reader = csv.reader(ended, delimiter=self.delimiter, strict=True)
        start = 1
        try:
            for fields in reader:
                yield start, fields
                start = reader.line_num + 1
        except csv.Error as error:
            raise QuotingError(start, str(error)) from None


def read_fields(path: Path, lines: Iterable[str], dialect: Dialect) -> Iterator[Fields]:
    """Yield the fields of every row; an error names the file and the line."""
    try:
        yield from dialect.split(lines)
    except QuotingError as error:
        if "new-line character" in str(error):
            raise WarmstartError(
                f"{path} line {error.line}: a carriage return (CR) is inside a row; lines end with "
                'LF or CR LF, and a field with a line break in it needs "quotes" around it'
            ) from None
        raise WarmstartError(
            f"{path} line {error.line}: this row is not valid CSV ({error}); put a field that "
            'contains delimiters, quotes or line breaks in "quotes" and double the quotes inside'
        ) from None


def find_dialect(path: Path, lines: Sequence[str], delimiter: str | None) -> Dialect:
    """Return how the first lines of a file are split into fields; a given delimiter is kept."""
    is_tsv = format_of(path) == "tsv"
    usual = ("\t", ",", ";", "|") if is_tsv else (",", ";", "\t", "|")
    delimiters = (delimiter,) if delimiter else usual
    is_plain = is_tsv and not _shows_quoting(lines)
    dialects = [
        Dialect(character, not (is_plain and character == "\t")) for character in delimiters
    ]
    # The first of the best: the delimiter of the file's extension wins a tie, but 3,50 is a number.
    return max(dialects, key=lambda d: (_regularity(lines, d), not _is_decimal(lines, d.delimiter)))


def _is_decimal(lines: Sequence[str], delimiter: str) -> bool:
    """Tell whether there are commas, but only between digits, below a header."""
    rows = lines[1:] or lines
    has_commas = delimiter == "," and any("," in row for row in rows)
    return has_commas and all(map(_DECIMAL_COMMAS.fullmatch, rows))


def _regularity(lines: Sequence[str], dialect: Dialect) -> float:
    """Return the share of rows with as many fields as the first one; 0 if that is one field."""
    widths: list[int] = []
    try:
        widths += (len(fields) for _, fields in dialect.split(lines) if fields)
    except QuotingError as error:
        widths += [0] * (len(lines) - error.line + 1)  # lines that could not be split
    if not widths or widths[0] < 2:
        return 0.0
    return widths.count(widths[0]) / len(widths)


def _shows_quoting(lines: Sequence[str]) -> bool:
    """Tell whether the fields of a .tsv file are quoted: some field must need its quotes."""
    plain, quoted = (_regularity(lines, Dialect("\t", is_quoted)) for is_quoted in (False, True))
    first = next((line for line in lines if line), "").split("\t")
    is_needed = (
        all(len(field) > 1 and field[0] == field[-1] == '"' for field in first)
        or any(_has_doubled(field) for line in lines for field in line.split("\t"))
        or plain < quoted
    )
    return is_needed and quoted > 0.99  # the last of these lines may end inside a field


def _has_doubled(field: str) -> bool:
    """Tell whether a field is quoted, with quotes inside that are doubled."""
    inner = field[1:-1]
    return field[:1] == field[-1:] == '"' and '""' in inner and '"' not in inner.replace('""', "")


def show(value: object) -> str:
    """Return a value as an error message shows it."""
    shown = "null" if value is None else repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def read_jsonl(path: Path, encoding: str) -> Iterator[Record]:
    """Yield one object per line, an empty one for a blank line."""
    for number, line in enumerate(read_lines(path, encoding), 1):
        if not line.strip():
            yield number, {}
            continue
        where = f"{path} line {number}"
        try:
            record = json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            raise WarmstartError(f"{where}: not valid JSON ({error})") from None
        if not isinstance(record, dict):
            raise WarmstartError(f"{where}: {show(record)} is not a JSON object")
        if _HALF_PAIR.search(line):
            _check_characters(record, where)
        yield number, record


def _check_characters(record: dict[str, Any], where: str) -> None:
    """Refuse a string with half of a surrogate pair, which no file could hold."""
    for name, value in record.items():
        try:
            json.dumps([name, value], ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):x}"
            raise WarmstartError(
                f"{where}: {show(name)} has half of a surrogate pair ({half}), which is no "
                "character: replace it"
            ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; refuse a repeated key, of which one value would be lost."""
    record = dict(pairs)
    if len(record) < len(pairs):
        repeated = _first_repeated(name for name, _ in pairs)
        raise ValueError(f"the key {show(repeated)} occurs more than once")
    return record


def _first_repeated(names: Iterable[str]) -> str | None:
    return next((name for name, number in Counter(names).items() if number > 1), None)


def read_parquet(path: Path) -> Iterator[Record]:
    """Yield the cells of every row by the name of their column."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    with open_seekable(path) as stream:
        most = most_expanded(stream.seek(0, 2))
        try:
            table = pq.ParquetFile(stream)
            names = table.schema_arrow.names
            if (repeated := _first_repeated(names)) is not None:
                raise WarmstartError(f"{path}: the column {repeated} occurs more than once")
            classes = class_names(table.schema_arrow)
            num_bytes = ROW_BYTES * table.metadata.num_rows
            for batch in table.iter_batches(batch_size=_rows_at_once(table.metadata, most)):
                cells_of = [_plain(column) for column in batch.columns]
                num_bytes += sum(column.nbytes + batch.num_rows for column in cells_of)
                if num_bytes > most:
                    raise bomb_error(str(path))
                columns = dict(zip(names, map(_values, cells_of), strict=True))
                for name in classes.keys() & columns.keys():
                    columns[name] = name_classes(columns[name], classes[name])
                for cells in zip(*columns.values(), strict=True):
                    number += 1
                    yield number, dict(zip(names, cells, strict=True))
        except UnicodeDecodeError as error:
            where = f"{path}, in row {number + 1} or soon after it"
            raise WarmstartError(f"{where}: text that is not UTF-8 ({error.reason})") from None
        except (pa.ArrowException, ValueError, OverflowError, *UNREADABLE) as error:
            reason = str(error).strip().split("\n")[0]
            raise WarmstartError(f"{path}: not a whole Parquet file ({reason})") from None


def _rows_at_once(metadata: Any, most: int) -> int:
    """Return how many rows to decode together; a value of a dictionary may be that of every row."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    largest = max((group.total_byte_size for group in groups), default=0)
    return min(1024, max(1, most // max(1, largest)))


def _plain(column: Any) -> Any:
    """Return a column with a value of its own for every row, which tells how much it holds."""
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def _values(column: Any) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        raise
    except ValueError:  # times in nanoseconds have no Python type
        values = column.cast("string").to_pylist()
    return values
