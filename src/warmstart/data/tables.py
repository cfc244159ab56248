"""Stream the rows of .csv, .tsv, .jsonl and .parquet files, with the requested columns."""

import csv
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from warmstart.data.columns import SKIP, Columns
from warmstart.errors import WarmstartError
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

_LONGEST_FIELD = 2**31 - 1  # the csv module's own limit refuses long texts


class Row(NamedTuple):
    """One row of a table."""

    number: int  # of the line where it begins; in Parquet, of the row
    values: dict[str, Any]  # by role; "" for every role on a blank line


def row_name(path: Path, number: int) -> str:
    """Return the name of a row for a message."""
    return f"{path} {'row' if format_of(path) == 'parquet' else 'line'} {number}"


def read_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """Yield every row of a table, without the header."""
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
            return _read_parquet(path, columns)
        case "lines":
            raise ValueError(f"{path} is not a table")


def first_row(path: Path, columns: Columns) -> Row | None:
    """Return the first row that is not blank; None if there is none or columns are missing."""
    try:
        rows = read_rows(path, columns)
        return next(
            (row for row in rows if any(value != "" for value in row.values.values())), None
        )
    except WarmstartError:
        return None


def as_text(value: object, path: Path, number: int, role: str) -> str:
    """Return a value that must be a string, and valid as UTF-8."""
    if not isinstance(value, str):
        raise WarmstartError(f"{row_name(path, number)}: {role} is {_show(value)}, not a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise WarmstartError(
            f"{row_name(path, number)}: character {error.start + 1} of {role} "
            f"(\\u{ord(value[error.start]):x}) is half of a surrogate pair, which is no character"
        ) from None
    return value


def _show(value: object) -> str:
    if value is None:
        return "null"
    shown = repr(value)
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
    width = 0
    for number, fields in rows:
        if not fields:
            yield Row(number, dict.fromkeys(columns.named(), ""))
            continue
        if not positions:
            positions, width, has_header = _find_columns(path, columns, fields)
            if has_header:
                continue
        if len(fields) != width:
            raise WarmstartError(_wrong_width(path, number, len(fields), width, columns))
        yield Row(number, {role: fields[i] for role, i in positions.items()})


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
    fields = f"{num_fields} field{'s' * (num_fields != 1)}"
    message = f"{path} line {number}: {fields}, but {width} expected"
    if width != len(columns.roles):
        return f"{message}, as in the header"
    names = ", ".join(columns.names)
    return f"{message} ({names}); name them in order with --columns, or start with a header line"


def _read_jsonl(path: Path, columns: Columns) -> Iterator[Row]:
    named = columns.named()
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            yield Row(number, dict.fromkeys(named, ""))
            continue
        record = _parse_json(path, number, line)
        for name in named.values():
            if name not in record:
                raise WarmstartError(_no_column(row_name(path, number), name, record))
        yield Row(number, {role: record[name] for role, name in named.items()})


def _parse_json(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        record = json.loads(line, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise WarmstartError(f"{row_name(path, number)}: not valid JSON ({error})") from None
    if not isinstance(record, dict):
        raise WarmstartError(f"{row_name(path, number)}: {_show(record)} is not a JSON object")
    return record


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


def _read_parquet(path: Path, columns: Columns) -> Iterator[Row]:
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
            for batch in table.iter_batches(batch_size=1024, columns=list(named.values())):
                for record in batch.to_pylist():
                    number += 1
                    yield Row(number, {role: record[name] for role, name in named.items()})
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
