"""Write rows to a .csv, .tsv, .jsonl or .parquet file, as a stream, whole or not at all."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from warmstart.data.chunks import chunked
from warmstart.errors import WarmstartError
from warmstart.files import whole_file
from warmstart.textfiles import format_of

CHUNK = 1024  # rows whose names are the columns of a .csv or .tsv

TableRow = Mapping[str, Any]  # values by the name of the column


def write_table(path: Path, rows: Iterable[TableRow], delimiter: str = ",") -> Path:
    """Write rows in the format that the file's name asks for; the first ones name the columns.

    The delimiter is that of a .csv file.
    """
    with whole_file(path) as file:
        match format_of(path):
            case "csv":
                _write_fields(file, rows, delimiter)
            case "tsv":
                _write_fields(file, rows, "\t")
            case "jsonl":
                file.writelines(_json_line(row) for row in rows)
            case "parquet":
                _write_parquet(file, rows)
            case "lines" | "xlsx":
                raise ValueError(f"{path} is not a table that is written")
    return path


def _write_fields(file: BinaryIO, rows: Iterable[TableRow], delimiter: str) -> None:
    names: list[str] = []
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter)  # ends lines with \r\n, so \r is quoted
    for chunk in chunked(rows, CHUNK):
        if not names:
            names = _names(chunk)
            writer.writerow(names)
        for row in chunk:
            _check_known(row, names)
            writer.writerow([_field(row.get(name)) for name in names])
    text.detach()


def _names(rows: Iterable[TableRow]) -> list[str]:
    """Return every name in the rows, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _check_known(row: TableRow, names: Sequence[str]) -> None:
    for name in row:
        if name not in names:
            raise WarmstartError(
                f"the column {name!r} is not in the first {CHUNK:,} rows, which name the columns "
                "of a .csv or .tsv file; write a .jsonl file instead"
            )


def _field(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, (bool, dict, list)) else str(value)


def _json_line(row: TableRow) -> bytes:
    values = {name: _finite(value) for name, value in row.items()}
    return f"{json.dumps(values, ensure_ascii=False, default=str)}\n".encode()


def _finite(value: Any) -> Any:
    """Return null for numbers that JSON cannot write."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_parquet(file: BinaryIO, rows: Iterable[TableRow]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [pa.table({})]
    try:
        for chunk in chunked(rows, CHUNK):
            columns = {name: [row.get(name) for row in chunk] for name in _names(chunk)}
            tables.append(pa.table(columns))
        # Whole numbers and fractions become fractions, nulls take the type of the rest.
        table = pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise WarmstartError(
            f"a column holds values of several types, which .parquet cannot ({error}); "
            "write a .csv or .jsonl file instead"
        ) from None
    pq.write_table(table, file)
