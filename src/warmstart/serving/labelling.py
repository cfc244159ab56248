"""The table that people label on the page: read for the page, written again after every label."""

import io
import json
import re
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from anyio.to_thread import run_sync
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from warmstart.data.columns import label_name
from warmstart.data.detection import normal
from warmstart.data.outputs import quote_formula
from warmstart.data.table_files import Dialect
from warmstart.data.tables import DEFAULT, Table, open_table
from warmstart.errors import WarmstartError
from warmstart.files import write_whole
from warmstart.formats import visible
from warmstart.serving.commands import LABEL_FORMATS
from warmstart.serving.responses import Json, RefusedError
from warmstart.serving.routes import Strict, post_routes
from warmstart.serving.service import Service
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import format_of, is_compressed, sha256_of

MOST_ROWS = 10_000
MOST_BYTES = 1 << 23  # the whole file is written again after every label
_MOST_CHARS = 200  # of a label
_BLANKS = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class TextToLabel:
    """A row as the page shows it."""

    text: str
    text2: str | None
    label: str


@dataclass(frozen=True)
class LabelTable:
    """A whole table; the version is a checksum of the file it was read from."""

    version: str
    dialect: Dialect | None  # of .csv and .tsv
    parts: Sequence[str]  # of the file, as they are: the header, and every row
    rows: Sequence[int]  # the part that each text is in
    texts: Sequence[TextToLabel]
    column: str  # of the labels
    position: int  # of that column; the number of the other columns if it is new
    missing: Mapping[int, str]  # what parts without that column get in it

    def with_label(self, row: int, label: str) -> bytes:
        """Return the content of the file with a label; all else in it is as it was."""
        cells = {**self.missing, self.rows[row]: label}
        parts = (self._set(p, cells[n]) if n in cells else p for n, p in enumerate(self.parts))
        return "".join(parts).encode()

    def _set(self, part: str, cell: str) -> str:
        if self.dialect is None:
            return set_value(part, self.column, cell)
        return set_field(part, self.position, cell, self.dialect)


def set_field(row: str, position: int, cell: str, dialect: Dialect) -> str:
    """Return a row of a .csv or .tsv file with another cell, or with one more at its end."""
    body = row.removesuffix("\n").removesuffix("\r")
    plain = rf"[^{re.escape(dialect.delimiter)}]*"
    field = re.compile(rf'"(?:[^"]++|"")*+"|{plain}' if dialect.is_quoted else plain)
    fields, place = [], -1
    while place < len(body):
        found = field.match(body, place + 1)
        assert found is not None, body
        fields.append(found.group())
        place = found.end()
    is_usual = all(other.startswith('"') for other in fields)
    if dialect.is_quoted and (is_usual or dialect.delimiter in cell or '"' in cell):
        cell = '"{}"'.format(cell.replace('"', '""'))
    fields[position : position + 1] = [cell]
    return dialect.delimiter.join(fields) + row[len(body) :]


def set_value(line: str, name: str, value: str) -> str:
    """Return a JSON object with another value of a key, or with one more key at its end."""
    scan = json.JSONDecoder().raw_decode
    written, place = json.dumps(value, ensure_ascii=False), line.index("{")
    while line[place] != "}":
        key, end = scan(line, _next_place(line, place + 1))
        start = _next_place(line, _next_place(line, end) + 1)  # after the colon
        _, end = scan(line, start)
        if key == name:
            return line[:start] + written + line[end:]
        place = _next_place(line, end)
    return f"{line[:end]}, {json.dumps(name, ensure_ascii=False)}: {written}{line[end:]}"


def _next_place(line: str, place: int) -> int:
    """Return where the next character is that is no white space of JSON."""
    found = _BLANKS.match(line, place)
    assert found is not None
    return found.end()


def read_label_table(path: Path, tables: TableFormat = DEFAULT) -> LabelTable:
    """Read a table to be labelled; refuse one that could not be written again as it is."""
    if format_of(path) not in LABEL_FORMATS or is_compressed(path):
        raise WarmstartError(f"--label {path}: only .csv, .tsv and .jsonl files are labelled")
    if tables.encoding != "utf-8":
        raise WarmstartError(f"--label {path}: labels are written in UTF-8: save the file as UTF-8")
    version = sha256_of(path)
    if path.stat().st_size > MOST_BYTES:
        raise WarmstartError(f"--label {path} is larger than {MOST_BYTES >> 20} MiB: split it")
    of_texts = tuple(c for c in tables.columns if c.partition("=")[0].strip() != "label")
    table = open_table(path, replace(tables, columns=of_texts), ("text",), ("text2",))
    if not table.layout.has_header:
        raise WarmstartError(
            f"--label {path} has no header, so a column of labels cannot be added; name its "
            "columns in its first row"
        )
    every = list(table.rows())
    rows = [row for row in every if any(cell not in ("", None) for cell in row.record.values())]
    if not 0 < len(rows) <= MOST_ROWS:
        raise WarmstartError(f"--label {path} has {len(rows):,} rows: 1 to {MOST_ROWS:,} may be")
    names, header = table.layout.names, table.header_line()
    column = _label_column(table, label_name(tables.columns))
    starts = sorted({1, header or 1, *(row.number for row in every)})
    part_of = {number: part for part, number in enumerate(starts)}
    parts = _cut(path.read_bytes().removeprefix(BOM_UTF8), starts)
    missing = {  # a row of empty cells gets it, too, a blank line none
        part_of[row.number]: ""
        for row in every
        if column not in row.record and parts[part_of[row.number]].strip("\r\n")
    }
    if header and column not in names:
        missing[part_of[header]] = column
    return LabelTable(
        version,
        table.dialect,
        parts,
        [part_of[row.number] for row in rows],
        [
            TextToLabel(
                row.text("text"), _text(row.values.get("text2")), _label(row.record, column)
            )
            for row in rows
        ],
        column,
        names.index(column) if column in names else len(names),
        missing,
    )


def _cut(content: bytes, starts: Sequence[int]) -> list[str]:
    """Cut a file before each line, from 1, where a part of it begins."""
    lines = io.BytesIO(content).readlines()
    bounds = pairwise([*starts, len(lines) + 1])
    return [b"".join(lines[start - 1 : end - 1]).decode() for start, end in bounds]


def _label_column(table: Table, named: str) -> str:
    return next((name for name in table.layout.names if normal(name) == normal(named)), named)


def _label(record: Mapping[str, Any], column: str) -> str:
    return "" if record.get(column) is None else str(record[column]).strip()


def _text(cell: Any) -> str | None:
    return None if cell is None else str(cell)


def write_label(
    path: Path, row: int, label: str, version: str, tables: TableFormat = DEFAULT
) -> str:
    """Write a label into the file; return the new version. A file that changed is left alone."""
    table = read_label_table(path, tables)
    if table.version != version:
        raise RefusedError(409, f"{path.name} was changed since this page read it: reload the page")
    if row >= len(table.rows):
        raise RefusedError(422, f"row {row}: {path.name} has {len(table.rows):,} rows")
    is_plain = table.dialect is not None and not table.dialect.is_quoted
    if is_plain and '"' in label:  # which the reader might take for quoting
        raise RefusedError(422, f"the label {label!r} has quotes, which {path.name} has not")
    with path.open("rb") as stream:
        mark = BOM_UTF8 if stream.read(len(BOM_UTF8)) == BOM_UTF8 else b""  # of Excel
    write_whole(path, mark + table.with_label(row, label))
    return sha256_of(path)


class LabelRequest(Strict):
    """The label of one row."""

    version: Annotated[str, Field(max_length=64, description="as the file was last read")]
    row: Annotated[int, Field(ge=0, lt=MOST_ROWS)]
    label: Annotated[str, Field(max_length=_MOST_CHARS, description="empty: none")]


@dataclass(frozen=True)
class LabelAnswer:
    """The version of the file with the label."""

    version: str


async def save_label(service: Service, body: LabelRequest) -> LabelAnswer:
    """Write a label into the file of `serve --label`."""
    if service.config.label is None:
        raise RefusedError(404, "this server was started without --label")
    label = body.label.strip()
    is_line = visible(label) == label and "\t" not in label  # a NUL makes the file unreadable
    if not is_line or quote_formula(label) != label:
        what = "is not one line without control characters, or begins with = + - @"
        raise RefusedError(422, f"the label {label!r} {what}")
    path = Path(service.config.label)
    async with service.label_lock:
        cell = (path, body.row, label, body.version, service.config)
        version = await run_sync(_hide_folder, write_label, *cell)
    return LabelAnswer(version)


def _hide_folder(function: Any, path: Path, *arguments: Any) -> Any:
    """Call a function; clients do not learn from its errors where the file is."""
    try:
        return function(path, *arguments)
    except WarmstartError as error:
        raise RefusedError(409, str(error).replace(str(path), path.name)) from None


def label_routes(service: Service) -> list[Route]:
    """Return the routes that read the file and write labels into it."""

    async def labels(request: Request) -> Response:
        """Return the texts of the file of `serve --label` with their labels; no file without."""
        if service.config.label is None:
            return Json({"file": None, "version": "", "rows": []})
        path = Path(service.config.label)
        async with service.label_lock:
            table = await run_sync(_hide_folder, read_label_table, path, service.config)
        return Json({"file": path.name, "version": table.version, "rows": table.texts})

    return [Route("/labels", labels), *post_routes(service, {"/label": save_label})]
