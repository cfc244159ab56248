"""Stream the rows of .csv, .tsv, .jsonl and .parquet files, with the requested columns.

`--columns` lists roles in file order, `_` to skip a field, `role=name` to rename a column.
"""

import csv
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, cast

from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.textfiles import (
    UNREADABLE,
    bomb_error,
    explain,
    format_of,
    is_compressed,
    max_bytes,
    open_binary,
    read_lines,
)

ROLES = ("text", "text2", "label", "source", "target")
SKIP = "_"
_LONGEST_FIELD = 2**31 - 1  # the csv module's own limit refuses long texts


@dataclass(frozen=True)
class Columns:
    """The columns of a table in file order, with their names in a header."""

    roles: tuple[str, ...]  # "_" for a field that is skipped
    names: tuple[str, ...]  # the same length

    def named(self) -> dict[str, str]:
        pairs = zip(self.roles, self.names, strict=True)
        return {role: name for role, name in pairs if role != SKIP}


def parse_columns(columns: Sequence[str], required: Sequence[str]) -> Columns:
    """Parse a column specification, which must contain every required role."""
    parsed = [_parse_column(column) for column in columns]
    roles = tuple(role for role, _ in parsed)
    for role in ROLES:
        if roles.count(role) > 1:
            raise WarmstartError(f"--columns {','.join(columns)}: {role} occurs more than once")
    missing = [role for role in required if role not in roles]
    if missing:
        raise WarmstartError(
            f"--columns {','.join(columns)}: {' and '.join(missing)} must be among them"
        )
    return Columns(roles, tuple(name for _, name in parsed))


def _parse_column(column: str) -> tuple[str, str]:
    role, equals, name = (part.strip() for part in column.partition("="))
    if role not in (*ROLES, SKIP) or (equals and not name):
        raise WarmstartError(
            f"--columns: {column!r} is neither one of {' '.join(ROLES)} nor _ (skip); "
            "write ROLE=NAME for a column with another name"
        )
    return role, name or role


class Row(NamedTuple):
    """One row of a table."""

    path: Path
    number: int  # of the line where it begins; in Parquet, of the row
    values: dict[str, Any]  # by role; "" for every role on a blank line
    record: Mapping[str, Any] = MappingProxyType({})  # the whole row by column name

    @property
    def name(self) -> str:
        return f"{self.path} {'row' if format_of(self.path) == 'parquet' else 'line'} {self.number}"

    def text(self, role: str) -> str:
        """Return a value that must be a string, and valid as UTF-8."""
        value = self.values[role]
        if not isinstance(value, str):
            raise WarmstartError(f"{self.name}: {role} is {_show(value)}, not a string")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise WarmstartError(
                f"{self.name}: character {error.start + 1} of {role} "
                f"(\\u{ord(value[error.start]):x}) is half of a surrogate pair, which is no "
                "character"
            ) from None
        return value


def read_rows(path: Path, columns: Columns, is_whole: bool = False) -> Iterator[Row]:
    """Yield every row of a table, without the header; whole rows have their record too."""
    match format_of(path):
        case "csv":
            return _by_position(path, columns, _csv_fields(path))
        case "tsv":
            lines = enumerate(read_lines(path), 1)
            fields = ((number, line.split("\t") if line else []) for number, line in lines)
            return _by_position(path, columns, fields)
        case "jsonl":
            return _read_jsonl(path, columns)
        case "parquet":
            return _read_parquet(path, columns, is_whole)
        case "lines":
            raise ValueError(f"{path} is not a table")


def first_row(path: Path, columns: Columns) -> Row | None:
    """Return the first row that is not blank; None if there is none or columns are missing."""
    blank = dict.fromkeys(columns.named(), "")
    try:
        return next((row for row in read_rows(path, columns) if row.values != blank), None)
    except WarmstartError:
        return None


def aligned_rows(paths: tuple[Path, Path], roles: tuple[str, str]) -> Iterator[tuple[Row, Row]]:
    """Yield the lines of two files, which must have the same number of them."""
    first, second = (list(read_lines(path)) for path in paths)
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


def _show(value: object) -> str:
    shown = "null" if value is None else repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def _csv_fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader((f"{line}\n" for line in read_lines(path)), strict=True)
    start = 1
    try:
        for fields in reader:
            yield start, fields
            start = reader.line_num + 1
    except csv.Error as error:
        raise WarmstartError(
            f"{path} line {start}: this row is not valid CSV ({error}); put a field that contains "
            'commas, quotes or line breaks in "quotes" and double the quotes inside'
        ) from None


def _by_position(
    path: Path, columns: Columns, rows: Iterable[tuple[int, list[str]]]
) -> Iterator[Row]:
    positions: dict[str, int] = {}
    names: list[str] = []
    width = 0
    for number, fields in rows:
        if not fields:
            blank = dict.fromkeys(columns.named(), "")
            yield Row(path, number, blank, dict.fromkeys(names, ""))
            continue
        if not positions:
            positions, width, has_header = _find_columns(path, columns, fields)
            names = _distinct(fields if has_header else columns.names)
            if has_header:
                continue
        if len(fields) != width:
            raise WarmstartError(_wrong_width(path, number, len(fields), width, columns))
        values = {role: fields[i] for role, i in positions.items()}
        yield Row(path, number, values, dict(zip(names, fields, strict=True)))


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names of columns in which a repeated one has its number added."""
    return [
        f"{name} {number}" if name in names[: number - 1] else name
        for number, name in enumerate(names, 1)
    ]


def _find_columns(
    path: Path, columns: Columns, first: list[str]
) -> tuple[dict[str, int], int, bool]:
    """Return each role's position, the number of fields, and whether `first` is a header."""
    header = [field.strip().casefold() for field in first]
    named = {role: name.casefold() for role, name in columns.named().items()}
    if not set(named.values()) <= set(header):
        positions = {role: i for i, role in enumerate(columns.roles) if role != SKIP}
        return positions, len(columns.roles), False
    for name in named.values():
        if header.count(name) > 1:
            raise WarmstartError(f"{path}: the header names the column {name} more than once")
    return {role: header.index(name) for role, name in named.items()}, len(first), True


def _wrong_width(path: Path, number: int, num_fields: int, width: int, columns: Columns) -> str:
    message = f"{path} line {number}: {counted(num_fields, 'field')}, but {width} expected"
    if width != len(columns.roles):
        return f"{message}, as in the header"
    names = ", ".join(columns.names)
    return f"{message} ({names}); name them in order with --columns, or start with a header line"


def _read_jsonl(path: Path, columns: Columns) -> Iterator[Row]:
    named = columns.named()
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            yield Row(path, number, dict.fromkeys(named, ""))
            continue
        where = f"{path} line {number}"
        try:
            record = json.loads(line, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            raise WarmstartError(f"{where}: not valid JSON ({error})") from None
        if not isinstance(record, dict):
            raise WarmstartError(f"{where}: {_show(record)} is not a JSON object")
        for name in named.values():
            if name not in record:
                raise WarmstartError(_no_column(where, name, record))
        yield Row(path, number, {role: record[name] for role, name in named.items()}, record)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; refuse a repeated key, of which one value would be lost."""
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {_show(repeated)} occurs more than once")
    return record


def _no_column(where: str, name: str, present: Iterable[str]) -> str:
    listed = ", ".join(present) or "none"
    return f"{where}: no column {name} (there: {listed}); use --columns ROLE=NAME for another name"


def _read_parquet(path: Path, columns: Columns, is_whole: bool) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    named = columns.named()
    number = 0
    with _seekable(path) as stream:
        try:
            table = pq.ParquetFile(stream)
            names = table.schema_arrow.names
            for name in named.values():
                if name not in names:
                    raise WarmstartError(_no_column(str(path), name, names))
                if names.count(name) > 1:
                    raise WarmstartError(f"{path}: the column {name} occurs more than once")
            read = names if is_whole else list(named.values())
            for batch in table.iter_batches(batch_size=1024, columns=read):
                for record in batch.to_pylist():
                    number += 1
                    values = {role: record[name] for role, name in named.items()}
                    yield Row(path, number, values, record)
        except UnicodeDecodeError as error:
            where = f"{path}, in row {number + 1} or soon after it"
            raise WarmstartError(f"{where}: text that is not UTF-8 ({error.reason})") from None
        except (pa.ArrowException, ValueError, OverflowError, *UNREADABLE) as error:
            reason = str(error).strip().split("\n")[0]
            raise WarmstartError(f"{path}: not a whole Parquet file ({reason})") from None


def _seekable(path: Path) -> BinaryIO:
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
