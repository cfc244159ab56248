"""Several labels for a text: awkward files, each with its sentence."""

import json
from pathlib import Path
from typing import Any

import pandas
import pytest

from warmstart.data.label_sets import label_sets_form, read_label_sets
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat


def _write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content) + "\n")
    return path


NO_ROWS = "no rows with text and label"
AWKWARD: dict[str, tuple[Any, str]] = {
    "null.jsonl": ({"text": "a b", "label": ["x", None]}, "line 1: the label None is neither"),
    "blank.jsonl": ({"text": "a b", "label": ["x", " "]}, "line 1: one of its labels is empty"),
    "truth.jsonl": ({"text": "a b", "label": ["x", True]}, "the label True is neither text nor"),
    "nested.jsonl": ({"text": "a b", "label": [["x"]]}, "the label ['x'] is neither text nor"),
    "fraction.jsonl": ({"text": "a b", "label": [1.5]}, "the label 1.5 is neither text nor number"),
    "object.jsonl": ({"text": "a b", "label": {"x": 1}}, "label is {'x': 1}, not a string"),
    "no label.jsonl": ({"text": "a b"}, "one column, but text and label are needed"),
    "no text.jsonl": ({"text": "", "label": ["x", "y"]}, NO_ROWS),
    "no cell.tsv": ("label\ttext\n\ta text\n\tb text\n", NO_ROWS),
    "only commas.tsv": ("label\ttext\n,,\ta text\n,\tb text\n", NO_ROWS),
    "header.tsv": ("label\ttext\n", NO_ROWS),
    "empty.tsv": ("", NO_ROWS),
    "plain.txt": ("a text\n", "plain lines hold no labels; give a"),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_files_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    content, complaint = AWKWARD[name]
    with pytest.raises(WarmstartError) as caught:
        read_label_sets(_write(tmp_path / name, content))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cell", ['"[""a"", ""b, c""]"', "\"['a', 'b, c']\""])
def test_a_list_that_is_written_as_text_is_a_list(cell: str, tmp_path: Path) -> None:
    file = _write(tmp_path / "a.csv", f"label,text\n{cell},some text\n")
    assert list(read_label_sets(file).labels) == [("a", "b, c")]
    assert label_sets_form(file) == "its labels are lists"


TEXTS = (
    "the tram was late",
    "a red cat slept all day",
    "nothing new in this town",
    "what a fine day",
)
MARKS = ([1, 0, 1], [0, 0, 1], [0, 0, 0], [1, 0, 0])  # of price, place, mood
SETS = [("mood", "price"), ("mood",), (), ("price",)]


def _table(path: Path, rows: Any = MARKS, names: str = "price,place,mood") -> Path:
    """Write texts with a column for every label, in the format that the path names."""
    columns = {
        "text": list(TEXTS),
        **dict(zip(names.split(","), zip(*rows, strict=True), strict=True)),
    }
    frame = pandas.DataFrame({name: list(column) for name, column in columns.items()})
    match path.suffix:
        case ".csv":
            frame.to_csv(path, index=False)
        case ".xlsx":
            frame.to_excel(path, index=False)
        case ".parquet":
            frame.to_parquet(path)
        case _:
            frame.to_json(path, orient="records", lines=True)
    return path


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet", "jsonl"])
def test_columns_of_zero_and_one_are_labels(ending: str, tmp_path: Path) -> None:
    file = _table(tmp_path / f"a.{ending}")
    assert label_sets_form(file) == "its columns price, place, mood hold 0 or 1"
    data = read_label_sets(file)
    assert list(data.texts) == list(TEXTS)
    assert list(data.labels) == SETS
    assert "labels from columns of 0 and 1: price, place, mood" in data.description


@pytest.mark.parametrize(
    "rows",
    [
        [[bool(mark) for mark in row] for row in MARKS],
        [[float(mark) for mark in row] for row in MARKS],
        [[str(bool(mark)) for mark in row] for row in MARKS],
        [[1 if mark else None for mark in row] for row in MARKS],  # no cell holds 0
    ],
    ids=["truth", "fractions", "words", "only ones"],
)
def test_marks_are_written_in_many_ways(rows: Any, tmp_path: Path) -> None:
    assert list(read_label_sets(_table(tmp_path / "a.csv", rows)).labels) == SETS


def test_a_missing_mark_beside_zeros_is_a_missing_label(tmp_path: Path) -> None:
    file = _table(tmp_path / "a.csv", [[1, 0, None], *MARKS[1:]])
    data = read_label_sets(file, TableFormat(columns=("text", "price", "place", "mood")))
    assert list(data.labels) == SETS[1:]
    assert data.unlabelled == 1


def test_columns_that_may_be_the_label_leave_a_doubt(tmp_path: Path) -> None:
    rows = [[*row, kind] for row, kind in zip(MARKS, "xyxy", strict=True)]
    file = _table(tmp_path / "a.csv", rows, "price,place,mood,kind")
    assert label_sets_form(file) is None
    with pytest.raises(WarmstartError, match="which column is the label is not clear"):
        read_label_sets(file)
    columns = ("text", "price", "place", "mood")
    assert list(read_label_sets(file, TableFormat(columns=columns)).labels) == SETS


def test_columns_of_labels_are_named(tmp_path: Path) -> None:
    file = _table(tmp_path / "a.csv")
    for columns in (("text", "price", "place"), ("price", "text=text", "place")):
        data = read_label_sets(file, TableFormat(columns=columns))
        assert list(data.labels) == [("price",), (), (), ("price",)]
    with pytest.raises(WarmstartError, match="no column smell"):
        read_label_sets(file, TableFormat(columns=("text", "price", "place", "smell")))
    bad = _table(tmp_path / "b.csv", [*MARKS[:3], [1, 0, 2]])
    with pytest.raises(
        WarmstartError, match=r"line 5: mood is '2', but labels in columns of their"
    ):
        read_label_sets(bad, TableFormat(columns=("text", "price", "place", "mood")))


@pytest.mark.parametrize(
    "names", ["label,place,mood", "sentiment,place,mood"], ids=["label", "alias"]
)
def test_a_column_that_is_the_label_has_all_labels(names: str, tmp_path: Path) -> None:
    file = _table(tmp_path / "a.csv", names=names)
    assert label_sets_form(file) is None
    assert list(read_label_sets(file).labels) == [("1",), ("0",), ("0",), ("1",)]


def test_one_column_of_zero_and_one_is_a_label_with_two_classes(tmp_path: Path) -> None:
    file = _table(tmp_path / "a.csv", [[mark] for mark, *_ in MARKS], "spam")
    assert label_sets_form(file) is None
