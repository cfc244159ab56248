"""Stream the rows of tables in files of any format, with the requested columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from warmstart.data.columns import ColumnLayout, find_layout, parse_columns
from warmstart.data.detection import (
    Sample,
    UnclearLabel,
    is_surely_header,
    list_names,
    unclear_label,
)
from warmstart.data.table_files import (
    Dialect,
    QuotingError,
    find_dialect,
    read_fields,
    read_jsonl,
    read_parquet,
    show,
)
from warmstart.data.workbooks import Cells, read_workbook
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import format_of, read_lines, refuse_pipe

T = TypeVar("T")
DEFAULT = TableFormat()
_SAMPLE_ROWS = 1000  # from which columns are found
_SAMPLE_CHARS = 1 << 22


class Row(NamedTuple):
    """One row of a table."""

    path: Path
    number: int  # of the line where it begins; in Parquet and workbooks, of the row
    values: dict[str, Any]  # by role; "" for every role on a blank line
    record: Mapping[str, Any] = MappingProxyType({})  # every cell by the name of its column

    @property
    def name(self) -> str:
        is_line = format_of(self.path) not in ("parquet", "workbook")
        return f"{self.path} {'line' if is_line else 'row'} {self.number}"

    def text(self, role: str) -> str:
        """Return a value that must be a string and valid as UTF-8; null is an empty one."""
        value = self.values[role]
        if value is None:
            return ""
        if not isinstance(value, str):
            raise WarmstartError(f"{self.name}: {role} is {show(value)}, not a string")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise WarmstartError(
                f"{self.name}: character {error.start + 1} of {role} "
                f"(\\u{ord(value[error.start]):x}) is half of a surrogate pair, which is no "
                "character"
            ) from None
        return value


@dataclass(frozen=True)
class Table:
    """A table whose columns are found, to be read from its beginning."""

    path: Path
    tables: TableFormat
    dialect: Dialect | None  # of .csv and .tsv
    layout: ColumnLayout

    def describe(self) -> str:
        """Say how the table is read, in one line."""
        parts = [self.dialect.describe()] if self.dialect else []
        if format_of(self.path) not in ("jsonl", "parquet"):
            parts.append("header" if self.layout.has_header else "no header")
        start = f"{', '.join(parts)}; " if parts else ""
        return f"{self.path}: {start}{self.layout.describe()}"

    def rows(self) -> Iterator[Row]:
        """Yield every row, without the header."""
        match format_of(self.path):
            case "jsonl":
                return self._rows_of_records(read_jsonl(self.path, self.tables.encoding))
            case "parquet":
                return self._rows_of_records(read_parquet(self.path))
            case _:
                return self._rows_of_cells(self._cells())

    def header_line(self) -> int | None:
        """Return the number of the line where the header begins; None: there is none."""
        if format_of(self.path) in ("jsonl", "parquet") or not self.layout.has_header:
            return None
        return next(number for number, cells in self._cells() if _has_content(cells))

    def _cells(self) -> Iterator[Cells]:
        if self.dialect is None:
            return read_workbook(self.path)
        lines = read_lines(self.path, self.tables.encoding)
        return read_fields(self.path, lines, self.dialect)

    def _rows_of_records(self, records: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[Row]:
        names = {role: self.layout.names[i] for role, i in self.layout.positions.items()}
        for number, record in records:
            for name in names.values() if record else ():
                if name not in record:
                    raise WarmstartError(
                        f"{self.path} line {number}: no column {name} (there: {list_names(record)})"
                    )
            values = {role: record.get(name, "") for role, name in names.items()}
            yield Row(self.path, number, values, record)

    def _rows_of_cells(self, rows: Iterator[Cells]) -> Iterator[Row]:
        names, positions = self.layout.names, self.layout.positions
        is_first = True
        for number, cells in rows:
            if is_first and _has_content(cells):
                is_first = False
                if self.layout.has_header:
                    continue
            filled = self._fill_row(number, cells)
            record = dict(zip(names, filled, strict=True))
            yield Row(self.path, number, {r: filled[i] for r, i in positions.items()}, record)

    def _fill_row(self, number: int, cells: list[Any]) -> list[Any]:
        """Return the cells of a row in full; a blank row and the end of a sheet's row are empty."""
        width = len(self.layout.names)
        if not cells or (self.dialect is None and len(cells) < width):
            return [*cells, *[""] * (width - len(cells))]
        if len(cells) != width:
            raise WarmstartError(
                f"{self.path} line {number}: {quantity(len(cells), 'field')}, but {width} "
                "expected, as in the first row; a field that contains the delimiter needs quotes "
                "around it"
            )
        return cells


def open_table(
    path: Path,
    tables: TableFormat = DEFAULT,
    roles: Sequence[str] = ("text",),
    optional: Sequence[str] = (),
) -> Table:
    """Find the columns of a table; `optional` roles are taken where a column has that name."""
    wanted = parse_columns(tables.columns, roles, optional)
    dialect, sample = _read_sample(path, tables)
    if not sample.rows:
        positions = {role: index for index, role in enumerate(roles)}
        return Table(path, tables, dialect, ColumnLayout(tuple(roles), positions, has_header=True))
    return Table(path, tables, dialect, find_layout(sample, wanted))


def find_unclear_label(path: Path, tables: TableFormat) -> UnclearLabel | None:
    """Return which columns of a table may be its label, where --columns must say which."""
    _, sample = _read_sample(path, tables)
    return unclear_label(sample) if sample.rows and not tables.columns else None


def column_names(path: Path, tables: TableFormat = DEFAULT) -> list[str]:
    """Return the names of a table's columns in lower case; none without a header."""
    _, sample = _read_sample(path, tables)
    if sample.names is None and sample.rows and is_surely_header(sample):
        sample = sample.with_header()
    return sample.normal_names if sample.names is not None else []


def delimiter_of(path: Path, tables: TableFormat = DEFAULT) -> str:
    """Return what separates the fields of a .csv or .tsv file."""
    dialect, _ = _read_sample(path, tables)
    assert dialect is not None, path
    return dialect.delimiter


def _read_sample(path: Path, tables: TableFormat) -> tuple[Dialect | None, Sample]:
    """Return the first rows that are not blank, and how the lines of a text file are split."""
    refuse_pipe(path)
    match format_of(path):
        case "csv" | "tsv":
            lines, is_whole = _first(filter(None, read_lines(path, tables.encoding)))
            dialect = find_dialect(path, lines, tables.delimiter)
            rows = _split(lines, dialect)
            return dialect, _sample_of_cells(path, rows, len(rows[0]) if rows else 0, is_whole)
        case "workbook":
            rows, is_whole = _first(cells for _, cells in read_workbook(path) if cells)
            return None, _sample_of_cells(path, rows, max(map(len, rows), default=0), is_whole)
        case "jsonl":
            return None, _sample_of_records(path, read_jsonl(path, tables.encoding))
        case "parquet":
            return None, _sample_of_records(path, read_parquet(path))
        case "lines":
            raise ValueError(f"{path} is not a table")


def _first(rows: Iterable[T]) -> tuple[list[T], bool]:
    """Return rows until there is enough to judge by, and whether these are all."""
    first: list[T] = []
    num_chars = 0
    for row in rows:
        if len(first) == _SAMPLE_ROWS or num_chars > _SAMPLE_CHARS:
            return first, False
        first.append(row)
        num_chars += len(str(row))
    return first, True


def _split(lines: Sequence[str], dialect: Dialect) -> list[list[str]]:
    rows: list[list[str]] = []
    with suppress(QuotingError):  # reading the rows gives the error, with its line
        rows += (cells for _, cells in dialect.split(lines) if _has_content(cells))
    return rows


def _sample_of_cells(
    path: Path, rows: Sequence[Sequence[Any]], width: int, is_whole: bool
) -> Sample:
    return Sample(path, None, [dict(enumerate(row)) for row in rows], width, is_whole)


def _sample_of_records(path: Path, records: Iterator[tuple[int, dict[str, Any]]]) -> Sample:
    first, is_whole = _first(record for _, record in records if record)
    names = tuple(dict.fromkeys(name for record in first for name in record))
    index_of = {name: index for index, name in enumerate(names)}
    rows = [{index_of[name]: cell for name, cell in record.items()} for record in first]
    return Sample(path, names, rows, len(names), is_whole)


def _has_content(cells: Sequence[str]) -> bool:
    return any(cell.strip() for cell in cells)


def aligned_rows(
    paths: tuple[Path, Path], roles: tuple[str, str], encoding: str = "utf-8"
) -> Iterator[tuple[Row, Row]]:
    """Yield the lines of two files, which must have the same number of them."""
    for path in paths:
        refuse_pipe(path)  # the file is read again for its checksum
    first, second = (list(read_lines(path, encoding)) for path in paths)
    if len(first) != len(second):
        raise WarmstartError(
            f"{paths[0]} has {len(first):,} lines but {paths[1]} has {len(second):,}; "
            "line-aligned files need the same number"
        )
    for number, lines in enumerate(zip(first, second, strict=True), 1):
        yield (
            Row(paths[0], number, {roles[0]: lines[0]}),
            Row(paths[1], number, {roles[1]: lines[1]}),
        )
