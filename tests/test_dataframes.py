"""Tables of a Python program: in as files, out as tables."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warmstart.data.table_files import read_parquet
from warmstart.dataframes import Tabular, write_table
from warmstart.errors import WarmstartError

RECORDS = [{"text": "fine", "label": "pos"}, {"text": None, "label": "neg"}]
COLUMNS = {name: [record[name] for record in RECORDS] for name in ("text", "label")}
TABLES: dict[str, Callable[[], Any]] = {
    "records": lambda: RECORDS,
    "columns": lambda: COLUMNS,
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, sorted": lambda: pd.DataFrame(COLUMNS, index=[7, 3]),
    "pandas, NaN": lambda: pd.DataFrame({**COLUMNS, "text": ["fine", float("nan")]}),
    "pandas, categories": lambda: pd.DataFrame(
        {**COLUMNS, "label": pd.Categorical(["pos", "neg"])}
    ),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars, categories": lambda: pl.DataFrame(COLUMNS, schema_overrides={"label": pl.Categorical}),
    "arrow": lambda: pa.table(COLUMNS),
    "arrow, in chunks": lambda: pa.concat_tables([pa.table(COLUMNS)[:1], pa.table(COLUMNS)[1:]]),
}
TEXTS: dict[str, Callable[[], Any]] = {
    "list": lambda: ["fine", None],
    "pandas": lambda: pd.Series(["fine", None], name="text", index=[7, 3]),
    "polars": lambda: pl.Series("text", ["fine", None]),
    "arrow": lambda: pa.chunked_array([["fine"], [None]]),
    "numpy": lambda: np.array(["fine", None], dtype=object),
}


def records(table: Any, folder: Path) -> list[Mapping[str, Any]]:
    return [record for _, record in read_parquet(write_table(table, "train", "train (X)", folder))]


@pytest.mark.parametrize("kind", TABLES)
def test_every_table_is_the_same_rows(kind: str, tmp_path: Path) -> None:
    assert records(TABLES[kind](), tmp_path) == RECORDS


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_alone_are_a_column(kind: str, tmp_path: Path) -> None:
    assert records(TEXTS[kind](), tmp_path) == [{"text": "fine"}, {"text": None}]


def test_numbers_lists_and_truth_stay_what_they_are(tmp_path: Path) -> None:
    columns = {"label": [1, 2], "tokens": [["a"], ["b", "c"]], "is": [True, False], "x": [0.5, 1.0]}
    for table in (pd.DataFrame(columns), pl.DataFrame(columns), columns):
        assert pd.DataFrame(records(table, tmp_path)).to_dict("list") == columns


def test_a_column_of_mixed_types_is_read_as_in_csv(tmp_path: Path) -> None:
    table = pd.DataFrame({"text": ["a", "b", "c"], "stars": [1, "two", None]})
    assert [record["stars"] for record in records(table, tmp_path)] == ["1", "two", None]


def test_rows_may_lack_columns(tmp_path: Path) -> None:
    assert records([{"a": 1}, {"b": 2}], tmp_path) == [{"a": 1, "b": None}, {"a": None, "b": 2}]


def test_the_same_rows_have_the_same_path(tmp_path: Path) -> None:
    first, again = (write_table(pd.DataFrame(COLUMNS), "a", "a", tmp_path) for _ in range(2))
    other = write_table(pd.DataFrame(COLUMNS)[:1], "a", "a", tmp_path)
    assert first == again != other


def test_a_stream_of_batches_is_a_table(tmp_path: Path) -> None:
    assert records(pa.table(COLUMNS).to_reader(), tmp_path) == RECORDS


@pytest.mark.parametrize("is_file", [False, True])
def test_numbered_classes_of_hugging_face_have_their_names(is_file: bool, tmp_path: Path) -> None:
    """A dataset keeps the names beside its numbers, and so do the Parquet files of the hub."""
    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["pos", "neg"], "_type": "ClassLabel"},
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"text": ["a", "b", "c", "d"], "label": [1, 0, -1, None]})
    table = table.replace_schema_metadata(metadata)
    if is_file:
        pq.write_table(table, tmp_path / "a.parquet")
        rows = [record for _, record in read_parquet(tmp_path / "a.parquet")]
    else:
        rows = list(records(table, tmp_path))
    assert [row["label"] for row in rows] == ["neg", "pos", None, None]


@pytest.mark.parametrize("content", ["{", "[]", '{"info": {"features": {"label": 3}}}'])
def test_other_notes_in_a_schema_are_left_alone(content: str, tmp_path: Path) -> None:
    table = pa.table({"label": [1]}).replace_schema_metadata({"huggingface": content})
    assert records(table, tmp_path) == [{"label": 1}]


def test_a_dataset_is_read_as_it_is_sorted(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"text": ["a", "b"], "label": ["pos", "neg"]})
    shuffled = rows.class_encode_column("label").select([1, 0])
    expected = [{"text": "b", "label": "neg"}, {"text": "a", "label": "pos"}]
    assert records(shuffled, tmp_path) == expected


class Split:
    """A dataset, of which another library keeps several in a dict."""

    column_names = ("text",)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (5, "int has no rows"),
        (pl.DataFrame(COLUMNS).lazy(), r"LazyFrame has no rows yet: add \.collect\(\);"),
        (iter(RECORDS), "has no rows yet: give list"),
        ([("fine", "pos")], r"its first row is \('fine', 'pos'\), whose columns have no names"),
        ([{"text": "a"}, "b"], "row 2 is 'b', not a dict"),
        ({"text": ["a", "b"], "label": ["c"]}, "label expected length 2 but got length 1"),
        (pd.DataFrame([["a", "b"]], columns=["x", "x"]), "X.: the column 'x' occurs more than"),
        (np.array([["a", "b"]]), r"its first row is array\(\['a', 'b'\], .*no names"),
        ((["a" * 500], ["b"]), r"its first row is \['a+\.\.\.a+'\], "),
        (pd.DataFrame(COLUMNS).groupby("label"), "its first row is .{10,80} whose columns"),
        ({"train": Split(), "test": Split()}, r"give one of them: \['train'\] or \['test'\]"),
    ],
)
def test_what_is_no_table_is_refused(table: Any, problem: str, tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match=problem):
        write_table(table, "train", "train (X)", tmp_path)


def test_a_result_becomes_a_frame_of_any_library() -> None:
    class Result(Tabular):
        def records(self) -> list[dict[str, Any]]:
            return RECORDS

    for frame in (Result().to_pandas(), pd.DataFrame.from_arrow(Result())):
        assert frame["label"].tolist() == COLUMNS["label"]
    assert pl.DataFrame(Result()).to_dicts() == pa.table(Result()).to_pylist() == RECORDS
