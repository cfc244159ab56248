"""Tables that a Python program holds: written as files that every reader knows, and given back.

A table is anything that speaks Arrow (a pandas or polars DataFrame, an Arrow table, a dataset), a
list of dicts, a dict of columns, or texts alone.
"""

import hashlib
import io
import json
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from warmstart.errors import WarmstartError
from warmstart.files import write_whole
from warmstart.remotefiles import cache_folder

_INDEX = re.compile(r"__index_level_\d+__")  # the rows' labels in pandas, not a column
_FORMS = (
    'a DataFrame, an Arrow table, a list of dicts such as [{"text": "…", "label": "…"}], or a dict '
    'of columns such as {"text": [...], "label": [...]}'
)


class ArrowStream(Protocol):
    """What DataFrames, Arrow tables and datasets have in common."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Table = ArrowStream | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
"""Rows in memory; for type checkers."""


class Tabular:
    """A result that becomes a DataFrame: `to_pandas()`, `polars.DataFrame(result.to_arrow())`."""

    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows, each by the names of its columns."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """Return an Arrow table."""
        return _arrow_table(_columns_of_records(self.records()))

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def tables_folder() -> Path:
    """Return the folder of the tables that runs were trained on."""
    return cache_folder() / "tables"


def write_table(value: Any, name: str, title: str, folder: Path) -> Path:
    """Write a table as Parquet; the same rows have the same path, by which a run finds them.

    `name` is that of the file, and `title` is for messages.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    try:
        pq.write_table(_arrow_table(_columns(value, title)), stream)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise WarmstartError(f"{title} is no table: {reason}; give {_FORMS}") from None
    content = stream.getvalue()
    path = folder / hashlib.sha256(content).hexdigest()[:16] / f"{name}.parquet"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # what is in them is for this user
        write_whole(path, content)
    return path


def _columns(value: Any, title: str) -> dict[str, Any]:
    """Return the columns of a table by name."""
    import pyarrow as pa

    if isinstance(value, Mapping) or hasattr(value, "itertuples"):  # pandas, whose cells may be any
        pairs = list(value.items())
        if any(hasattr(column, "column_names") for _, column in pairs):
            splits = " or ".join(f"[{name!r}]" for name, _ in pairs)
            raise WarmstartError(f"{title} holds several tables; give one of them: {splits}")
        return _distinct([str(name) for name, _ in pairs], [column for _, column in pairs], title)
    if hasattr(value, "with_format"):  # a dataset of Hugging Face, whose rows may be chosen ones
        value = value.with_format("arrow")[:] if hasattr(value, "__len__") else value
    if hasattr(value, "__arrow_c_stream__"):
        with suppress(pa.ArrowInvalid):  # raised by a single column
            table = pa.table(value)
            classes = class_names(table.schema)
            columns = zip(table.column_names, table.columns, strict=True)
            named = [
                name_classes(c.to_pylist(), classes[n]) if n in classes else c for n, c in columns
            ]
            return _distinct(table.column_names, named, title)
    if not hasattr(value, "__len__"):  # neither rows nor columns
        raise TypeError(f"{type(value).__name__} has no rows{_rows_of(value)}")
    first = next(iter(value), None)
    if isinstance(first, list | tuple) or getattr(value, "ndim", 1) > 1:
        raise TypeError(f"its first row is {reprlib.repr(first)}, whose columns have no names")
    if isinstance(first, Mapping):
        return _columns_of_records(list(value))
    return {str(getattr(value, "name", None) or "text"): value}


def _rows_of(value: Any) -> str:
    """Say how to get the rows of what has not computed or read them yet."""
    if hasattr(value, "collect"):  # a lazy frame of polars
        return " yet: add .collect()"
    return " yet: give list(…) of it" if isinstance(value, Iterable) else ""


def class_names(schema: Any) -> dict[str, Sequence[str]]:
    """Return the names of the classes of each column that a dataset of Hugging Face numbers."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        labels = {name: of for name, of in features.items() if of.get("_type") == "ClassLabel"}
        return {name: list(map(str, of["names"])) for name, of in labels.items()}
    except (TypeError, KeyError, ValueError, AttributeError):  # there are none
        return {}


def name_classes(numbers: Iterable[Any], names: Sequence[str]) -> list[Any]:
    """Return the names of classes; a text without a label has the number -1."""
    known = {-1: None, **dict(enumerate(names))}
    return [known.get(number, number) for number in numbers]


def _distinct(names: Sequence[str], columns: Sequence[Any], title: str) -> dict[str, Any]:
    for name in names:
        if names.count(name) > 1:
            raise WarmstartError(
                f"{title}: the column {name!r} occurs more than once; give each a name of its own"
            )
    pairs = zip(names, columns, strict=True)
    return {name: column for name, column in pairs if not _INDEX.fullmatch(name)}


def _columns_of_records(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of rows that need not all have the same ones."""
    for number, record in enumerate(records, 1):
        if not isinstance(record, Mapping):
            raise TypeError(f"row {number} is {record!r}, not a dict")
    names = dict.fromkeys(name for record in records for name in record)
    return {str(name): [record.get(name) for record in records] for name in names}


def _arrow_table(columns: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    return pa.table({name: _arrow_column(column) for name, column in columns.items()})


def _arrow_column(values: Any) -> Any:
    """Return a column in one piece; NaN is missing, and mixed types are strings, as in CSV."""
    import pyarrow as pa

    if not isinstance(values, pa.ChunkedArray):
        try:
            values = pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            values = pa.array([None if _is_missing(v) else str(v) for v in values])
    is_dictionary = pa.types.is_dictionary(values.type)  # of which Parquet knows some kinds only
    column = pa.array(values.to_pylist()) if is_dictionary else values
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _is_missing(value: Any) -> bool:
    return value is None or value != value  # NaN differs from itself
