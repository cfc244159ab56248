"""Read texts with any number of labels each: in a cell, as a list, or as columns of 0 and 1."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from warmstart.data.columns import parse_columns
from warmstart.data.detection import list_names, normal
from warmstart.data.labelled import Dataset
from warmstart.data.table_files import show
from warmstart.data.tables import DEFAULT, Row, Table, find_unclear_label, open_table
from warmstart.data.tagged import parse_list
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import TABLE_SUFFIXES, format_of

DELIMITERS = (",", ";", "|")
SNIFFED_ROWS = 2_000
LEAST_SHARE = 0.02  # of rows with several labels, from which on a file is surely of this kind
LEAST_COLUMNS = 2  # of 0 and 1; one alone is a label with two classes
MARKS = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
LEAST_RECURRING = 0.8  # of the parts of cells that also occur in another cell


def label_sets_form(path: Path, tables: TableFormat = DEFAULT) -> str | None:
    """Say why the texts of a file can only have several labels; None: one may be enough."""
    if not path.is_file() or format_of(path) == "lines":
        return None
    try:
        if indicators := find_indicators(path, tables):
            return f"its columns {list_names(indicators.names)} hold 0 or 1"
        table = open_table(path, tables, ("text", "label"))
        cells = [_cell(row) for row in islice(table.rows(), SNIFFED_ROWS)]
    except WarmstartError:  # whoever reads the file gives the reason
        return None
    if any(_is_list(cell) for cell in cells):
        return "its labels are lists"
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    if (delimiter := _delimiter(texts)) and _recur(texts, delimiter):
        num_several = sum(delimiter in text for text in texts)
        if num_several >= LEAST_SHARE * len(texts):
            rows = f"{num_several:,} of its first {quantity(len(texts), 'row')}"
            return f"{rows} have several labels with '{delimiter}' between"
    return None


def _recur(cells: Sequence[str], delimiter: str) -> bool:
    """Tell whether parts of cells combine freely, unlike those of `Paris, France`."""
    cells_of = defaultdict(set)
    for cell in set(cells):
        for part in _parts(cell, delimiter):
            cells_of[part].add(cell)
    joined = {part for cell in cells if delimiter in cell for part in _parts(cell, delimiter)}
    num_recurring = sum(len(cells_of[part]) > 1 for part in joined)
    return bool(joined) and num_recurring >= LEAST_RECURRING * len(joined)


def _delimiter(cells: Sequence[str]) -> str | None:
    """Return the delimiter that most cells have; None: no cell has one."""
    counts = Counter({mark: sum(mark in cell for cell in cells) for mark in DELIMITERS})
    mark, count = counts.most_common(1)[0]
    return mark if count else None


def _parts(cell: str, delimiter: str | None) -> list[str]:
    parts = cell.split(delimiter) if delimiter else [cell]
    return [part.strip() for part in parts if part.strip()]


def written_labels(names: Sequence[str]) -> str:
    """Write the labels of a text so that they are read as the same ones: a list, if need be."""
    has_marks = any(mark in name for name in names for mark in DELIMITERS)
    return json.dumps(names, ensure_ascii=False) if has_marks else DELIMITERS[0].join(names)


def read_label_sets(path: Path, tables: TableFormat = DEFAULT) -> Dataset:
    """Read texts with their labels, each text's in alphabetical order.

    An empty cell is no label where other rows have several; elsewhere the label is missing.
    """
    if format_of(path) == "lines":
        raise WarmstartError(
            f"{path}: plain lines hold no labels; give a {TABLE_SUFFIXES} file with text and label"
        )
    if indicators := find_indicators(path, tables):
        return _read_indicators(path, indicators)
    table = open_table(path, tables, ("text", "label"), optional=("text2",))
    rows = list(table.rows())
    cells = [cell for row in rows if isinstance(cell := _cell(row), str)]
    delimiter = _delimiter(cells)
    labels = [_labels(row, delimiter) for row in rows]
    has_several = any(of_row and len(of_row) > 1 for of_row in labels)
    if has_several:
        labels = [of_row or () for of_row in labels]
    data = _collect(path, rows, labels)
    between = f", '{delimiter}' between labels" if delimiter else ""
    description = table.describe() + between
    if not data.texts:
        raise WarmstartError(f"{path}: no rows with text and label; {description}")
    return replace(data, description=description)


@dataclass(frozen=True)
class Indicators:
    """A table in which every label has a column that says whether a text has it."""

    table: Table
    names: tuple[str, ...]  # of these columns


def find_indicators(path: Path, tables: TableFormat = DEFAULT) -> Indicators | None:
    """Return the columns of 0 and 1, each for one label; None: one column has the labels.

    They are those that `--columns` names beside the text. Without it, they are all that hold 0 or
    1, where nothing else may be the label.
    """
    wanted = parse_columns(tables.columns, ("text",), ("text2",))
    named = [column.name for column in wanted.columns if column.role is None]
    is_given = bool(wanted.columns)
    has_label = any(column.role == "label" for column in wanted.columns)
    if has_label or (is_given and len(named) < LEAST_COLUMNS):
        return None
    unclear = None if is_given else find_unclear_label(path, tables)
    if not is_given and unclear is None:
        return None
    table = open_table(path, tables, wanted.roles, wanted.optional)
    roles = {table.layout.names[index] for index in table.layout.positions.values()}
    chosen = set(map(normal, named or table.layout.names))
    names = [n for n in table.layout.names if n not in roles and normal(n) in chosen]
    rows = [row.record for row in islice(table.rows(), SNIFFED_ROWS) if any(row.record.values())]
    held = {name: {_mark(row.get(name)) for row in rows} for name in names}
    marked = tuple(name for name in names if held[name] <= {"0", "1", ""} and held[name] != {""})
    if not table.layout.has_header or len(marked) < LEAST_COLUMNS:
        return None
    if unclear is None:
        return Indicators(table, tuple(names))
    others = {name for name in unclear.columns if held.get(name) != {""}}.difference(marked)
    return None if others else Indicators(table, marked)


def _mark(cell: Any) -> str | None:
    """Return 0 or 1, nothing where a cell is empty; None: it holds something else."""
    if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):
        return ""
    mark = MARKS.get(str(cell).strip().lower())
    return None if mark is None else str(int(mark))


def _read_indicators(path: Path, indicators: Indicators) -> Dataset:
    """Read texts whose labels are the columns that hold 1.

    If no cell holds 0, an empty one stands for it; else a row with an empty one has no label.
    """
    table, names = indicators.table, indicators.names
    rows = [row for row in table.rows() if row.record]
    marks = [_marks(row, names) for row in rows]
    has_zeros = any("0" in of_row for of_row in marks)
    labels = [
        None
        if has_zeros and "" in of_row
        else tuple(sorted(n for n, mark in zip(names, of_row, strict=True) if mark == "1"))
        for of_row in marks
    ]
    description = f"{table.describe()}, labels from columns of 0 and 1: {list_names(names)}"
    data = _collect(path, rows, labels)
    if not data.texts:
        raise WarmstartError(f"{path}: no rows with text and labels; {description}")
    return replace(data, description=description)


def _marks(row: Row, names: Sequence[str]) -> list[str]:
    marks = [_mark(row.record.get(name)) for name in names]
    if None in marks:
        name = names[marks.index(None)]
        raise WarmstartError(
            f"{row.name}: {name} is {show(row.record[name])}, but labels in columns of their own "
            "are 0 or 1; correct it, or name the columns of the labels with --columns"
        )
    return [mark for mark in marks if mark is not None]


def _collect(path: Path, rows: Sequence[Row], labels: Sequence[tuple[str, ...] | None]) -> Dataset:
    """Keep the rows with text and labels; count the others."""
    is_pair = bool(rows) and "text2" in rows[0].values
    sides = ("text", "text2") if is_pair else ("text",)
    has_text = [all(row.text(side).strip() for side in sides) for row in rows]
    pairs = list(zip(has_text, labels, strict=True))
    kept = [i for i, (is_text, of_row) in enumerate(pairs) if is_text and of_row is not None]
    return Dataset(
        str(path),
        tuple(rows[i].text("text") for i in kept),
        tuple(labels[i] for i in kept),
        tuple(rows[i].number for i in kept),
        tuple(rows[i].text("text2") for i in kept) if is_pair else None,
        files={path: len(kept)},
        skipped=len(rows) - sum(has_text),
        unlabelled=sum(is_text and of_row is None for is_text, of_row in pairs),
    )


def _is_list(cell: Any) -> bool:
    return isinstance(cell, (list, tuple)) or hasattr(cell, "tolist")


def _cell(row: Row) -> Any:
    """Return the labels of a row as the file has them; a list that is written as text as a list."""
    cell = row.values["label"]
    if isinstance(cell, str) and cell.strip().startswith("[") and cell.strip().endswith("]"):
        parsed = parse_list(cell)
        return parsed if isinstance(parsed, list) else cell
    return cell


def _labels(row: Row, delimiter: str | None) -> tuple[str, ...] | None:
    """Return the labels of a row, each once; None: an empty cell."""
    cell = _cell(row)
    if _is_list(cell):
        values = list(cell)
        for value in values:
            if isinstance(value, bool) or not isinstance(value, (str, int)):
                raise WarmstartError(f"{row.name}: the label {value!r} is neither text nor number")
        names = [str(value).strip() for value in values]
        if not all(names):
            raise WarmstartError(f"{row.name}: one of its labels is empty")
        return tuple(sorted(set(names)))
    if isinstance(cell, (int, float)) and cell == cell:
        return (f"{cell:g}",)
    return tuple(sorted(set(_parts(row.text("label"), delimiter)))) or None
