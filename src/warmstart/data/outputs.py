"""Files that commands write: tables with new columns, and vectors."""

import csv
import errno
import io
import json
import math
import operator
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from warmstart.data.corpus import cut_chunks
from warmstart.data.detection import MOST_COLUMNS
from warmstart.data.workbooks import MOST_ROWS
from warmstart.errors import WarmstartError
from warmstart.files import whole_file
from warmstart.formats import quantity
from warmstart.jsonfiles import to_json
from warmstart.progress import say
from warmstart.textfiles import format_of

CHUNK = 1024  # rows whose names are the columns of a .csv or .tsv
# What OWASP lists under CSV injection; East Asian versions of spreadsheets take the wide forms too.
_FORMULA_STARTS = frozenset("=+-@\t\r\n＝＋－＠")
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_MOST_CHARS = 32_767  # in a cell of Excel
_EXACT = 1 << 53  # above it, a number of Excel loses digits
TableRow = Mapping[str, Any]  # values by the name of the column
TEXT_FORMATS = (".npy", ".jsonl", ".parquet")
TOKEN_FORMATS = (".npz", ".jsonl", ".parquet")


def write_table(
    path: Path, rows: Iterable[TableRow], delimiter: str = ",", raw_cells: bool = False
) -> Path:
    """Write rows in the format that the file's name asks for.

    The first rows name the columns of a .csv, .tsv or .xlsx file; the delimiter is for .csv alone.
    Cells of text files that a spreadsheet would run as formulas get an apostrophe, unless they are
    raw.
    """
    with whole_file(path) as file:
        match format_of(path):
            case "csv":
                _write_fields(file, rows, delimiter, raw_cells)
            case "tsv":
                _write_fields(file, rows, "\t", raw_cells)
            case "jsonl":
                file.writelines(json_line(row) for row in rows)
            case "parquet":
                _write_parquet(file, rows)
            case "workbook":
                _write_workbook(file, rows)
            case "lines":
                raise ValueError(f"{path} is not a table that is written")
    return path


def _write_fields(
    file: BinaryIO, rows: Iterable[TableRow], delimiter: str, raw_cells: bool
) -> None:
    names: dict[str, str] = {}  # of the columns, and as they are written
    num_formulas = num_nuls = 0
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter)  # ends lines with \r\n, so \r is quoted
    for chunk in cut_chunks(rows, CHUNK):
        if not names:
            names = {name: name if raw_cells else quote_formula(name) for name in _names(chunk)}
            writer.writerow(names.values())
        for row in chunk:
            _check_known(row, names)
            cells = [row.get(name) for name in names]
            safe = cells if raw_cells else list(map(quote_formula, cells))
            num_formulas += sum(map(operator.is_not, cells, safe))
            fields = list(map(_field, safe))
            num_nuls += sum("\0" in field for field in fields)
            writer.writerow(field.replace("\0", "") for field in fields)
    text.detach()
    if num_nuls:
        say(f"{quantity(num_nuls, 'cell')} lost NUL characters, which no text file may have")
    if num_formulas:
        say(
            f"{quantity(num_formulas, 'cell')} that a spreadsheet would run as a formula (= + - @) "
            "got an apostrophe in front; --raw-cells leaves them as they are"
        )


def quote_formula(cell: Any) -> Any:
    """Return a cell with an apostrophe before a text that a spreadsheet would run as a formula."""
    if not isinstance(cell, str) or cell[:1] not in _FORMULA_STARTS or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def _names(rows: Iterable[TableRow]) -> list[str]:
    """Return every name in the rows, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _check_known(row: TableRow, names: Mapping[str, str]) -> None:
    for name in row:
        if name not in names:
            raise WarmstartError(
                f"the column {name!r} is not in the first {CHUNK:,} rows, which name the columns "
                "of a .csv, .tsv or .xlsx file; write a .jsonl file instead"
            )


def _field(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, (bool, dict, list)) else str(value)


def json_line(row: TableRow) -> bytes:
    """Write a row as a line of strict JSON."""
    values = {name: _finite(value) for name, value in row.items()}
    return f"{json.dumps(values, ensure_ascii=False, default=str)}\n".encode()


def _finite(value: Any) -> Any:
    """Return null for numbers that JSON cannot write."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_workbook(file: BinaryIO, rows: Iterable[TableRow]) -> None:
    """Write a sheet of texts and numbers; no text becomes a formula or a link."""
    from xlsxwriter.exceptions import FileCreateError

    with TemporaryFile() as book:  # a library that cannot write to a full disk tries it again
        try:
            _fill_workbook(book, rows)
        except FileCreateError as error:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), gettempdir()) from error
        book.seek(0)
        shutil.copyfileobj(book, file)


def _fill_workbook(file: IO[bytes], rows: Iterable[TableRow]) -> None:
    import xlsxwriter

    names: dict[str, str] = {}
    num_rows = num_cut = 0
    with xlsxwriter.Workbook(file, {"constant_memory": True}) as book:  # writes row by row
        sheet = book.add_worksheet()
        for chunk in cut_chunks(rows, CHUNK):
            if not names:
                names = _sheet_names(chunk)
                num_cut += _write_cells(sheet, 0, names.values())
            for row in chunk:
                num_rows += 1
                if num_rows == MOST_ROWS:
                    raise WarmstartError(
                        f"more than {MOST_ROWS - 1:,} rows, the most of an Excel sheet under its "
                        "header; write a .csv or .parquet file instead"
                    )
                _check_known(row, names)
                num_cut += _write_cells(sheet, num_rows, map(row.get, names))
    if num_cut:
        say(
            f"{quantity(num_cut, 'cell')} cut to {_MOST_CHARS:,} characters, the most in Excel; "
            "a .csv file keeps them whole"
        )


def _sheet_names(rows: Sequence[TableRow]) -> dict[str, str]:
    names = _names(rows)
    if len(names) > MOST_COLUMNS:
        raise WarmstartError(
            f"{len(names):,} columns, but an Excel sheet has {MOST_COLUMNS:,}; write a .csv or "
            ".parquet file instead"
        )
    return {name: name for name in names}


def _write_cells(sheet: Any, row: int, cells: Iterable[Any]) -> int:
    """Write one row of a sheet; return how many of its cells had to be cut."""
    num_cut = 0
    for column, cell in enumerate(cells):
        is_number = isinstance(cell, (int, float)) and not isinstance(cell, bool)
        if is_number and math.isfinite(cell) and abs(cell) <= _EXACT:
            sheet.write_number(row, column, cell)
        elif text := _field(cell):
            fitting = _fit_cell(text)
            num_cut += fitting is not text
            sheet.write_string(row, column, fitting)
    return num_cut


def _fit_cell(text: str) -> str:
    """Return the part of a text that fits a cell; Excel counts units of UTF-16."""
    if 2 * len(text) <= _MOST_CHARS:
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    is_whole = len(units) <= 2 * _MOST_CHARS
    return text if is_whole else units[: 2 * _MOST_CHARS].decode("utf-16-le", "ignore")


def _write_parquet(file: BinaryIO, rows: Iterable[TableRow]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = [pa.table({})]
    try:
        for chunk in cut_chunks(rows, CHUNK):
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


@dataclass(frozen=True)
class TextVectors:
    """A text with its vector (D,), or with a vector for each of its tokens (T, D)."""

    text: str
    vectors: NDArray[np.float32]
    ids: tuple[int, ...] | None = None  # of the tokens; None: one vector for the text
    tokens: tuple[str, ...] | None = None  # the readable tokens

    def to_json(self) -> str:
        """Return one line of JSON; nine digits represent a float32 exactly."""
        numbers = [float(f"{number:.9g}") for number in self.vectors.ravel().tolist()]
        if self.tokens is None:
            record: dict[str, Any] = {"text": self.text, "vector": numbers}
        else:
            width = self.vectors.shape[1]
            rows = [numbers[i : i + width] for i in range(0, len(numbers), width)]
            record = {"text": self.text, "tokens": self.tokens, "vectors": rows}
        return to_json(record)


Add = Callable[[Sequence[TextVectors]], None]


def check_name(path: Path, is_tokens: bool) -> None:
    """Refuse a file name whose format cannot hold these vectors."""
    allowed = TOKEN_FORMATS if is_tokens else TEXT_FORMATS
    if path.suffix.lower() not in allowed:
        vectors = "token vectors are" if is_tokens else "one vector per text is"
        raise WarmstartError(f"-o {path}: {vectors} written to {' '.join(allowed)} files")
    if path.is_dir():
        raise WarmstartError(f"-o {path} is a folder; name a file")


@contextmanager
def open_vectors(path: Path, width: int, is_tokens: bool) -> Iterator[Add]:
    """Yield a function that adds vectors; the file appears when all are written."""
    check_name(path, is_tokens)
    writer = {".npy": _arrays, ".npz": _arrays, ".jsonl": _jsonl, ".parquet": _parquet}
    with whole_file(path) as file, writer[path.suffix.lower()](file, width, is_tokens) as add:
        yield add


@contextmanager
def _arrays(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    """Write one array of vectors, or the arrays `vectors`, `ids` and `offsets` of all tokens.

    The tokens of text i are offsets[i] to offsets[i + 1].
    """
    num_tokens = [0]  # of each text
    with TemporaryFile() as vectors, TemporaryFile() as ids:

        def add(texts: Sequence[TextVectors]) -> None:
            for text in texts:
                vectors.write(text.vectors.astype("<f4").tobytes())
                ids.write(np.array(text.ids or (), "<i8").tobytes())
                num_tokens.append(len(text.ids or ()))

        yield add
        array = _map_file(vectors, "<f4").reshape(-1, width)
        if is_tokens:
            np.savez(
                stream, vectors=array, ids=_map_file(ids, "<i8"), offsets=np.cumsum(num_tokens)
            )
        else:
            np.save(stream, array)


def _map_file(file: IO[bytes], dtype: str) -> NDArray[Any]:
    file.flush()
    return np.memmap(file, dtype, "r") if file.tell() else np.empty(0, dtype)


@contextmanager
def _jsonl(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    yield lambda texts: stream.writelines(f"{text.to_json()}\n".encode() for text in texts)


@contextmanager
def _parquet(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    """Write a row for each text (`text`, `vector`) or each token (`row`, `token`, `vector`)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    vector = pa.list_(pa.float32(), width)
    text_fields = [("text", pa.string()), ("vector", vector)]
    token_fields = [("row", pa.int64()), ("token", pa.string()), ("vector", vector)]
    schema = pa.schema(token_fields if is_tokens else text_fields)
    num_texts = 0
    with pq.ParquetWriter(stream, schema) as file:

        def add(texts: Sequence[TextVectors]) -> None:
            nonlocal num_texts
            flat = np.concatenate([text.vectors.ravel() for text in texts])
            columns: list[Any] = [pa.FixedSizeListArray.from_arrays(pa.array(flat), width)]
            if is_tokens:
                sizes = [len(text.tokens or ()) for text in texts]
                rows = np.repeat(np.arange(num_texts, num_texts + len(texts)), sizes)
                tokens = [token for text in texts for token in text.tokens or ()]
                columns = [pa.array(rows), pa.array(tokens, pa.string()), *columns]
            else:
                columns = [pa.array([text.text for text in texts], pa.string()), *columns]
            num_texts += len(texts)
            file.write_table(pa.Table.from_arrays(columns, schema=schema))

        yield add
