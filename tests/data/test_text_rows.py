import io
import json
from pathlib import Path
from typing import Any

import pytest

from warmstart.data.labelled import TextRow, read_text_rows
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat


def _write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def _rows(source: Any, *columns: str, is_pair: bool = False) -> list[TextRow]:
    return list(read_text_rows(source, TableFormat(columns=columns), is_pair))


def test_pairs_come_from_tables_or_tabs(tmp_path: Path) -> None:
    table = _write(tmp_path, "a.csv", "text2,text\nb,a\n")
    pairs = [row[:2] for row in _rows(table, "text", "text2", is_pair=True)]
    assert pairs == [("a", "b")]
    lines = _rows(io.BytesIO(b"a\tb\r\n\t\n\n"), is_pair=True)
    assert [row[:2] for row in lines] == [("a", "b"), ("", ""), ("", "")]
    assert [row.is_empty for row in lines] == [False, True, True]
    with pytest.raises(WarmstartError, match="line 2: 1 field, but 2 expected"):
        _rows(_write(tmp_path, "a.txt", "a\tb\nc\n"), is_pair=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id,body,note\n7,fine,\n8,,x\n"),
        ("a.tsv", "id\tbody\tnote\n7\tfine\t\n8\t\tx\n"),
        ("a.jsonl", '{"id":"7","body":"fine","note":""}\n{"id":"8","body":"","note":"x"}\n'),
    ],
)
def test_the_columns_of_training_read_a_table_without_labels(
    tmp_path: Path, name: str, content: str
) -> None:
    first, second = _rows(_write(tmp_path, name, content), "text=body", "label=stars")
    assert first == ("fine", None, {"id": "7", "body": "fine", "note": ""})
    assert second.is_empty
    assert second.record["note"] == "x"


def test_a_repeated_name_loses_no_column(tmp_path: Path) -> None:
    (row,) = _rows(_write(tmp_path, "a.csv", "text,x,x\na,1,2\n"))
    assert list(row.record.values()) == ["a", "1", "2"]


def test_null_is_an_empty_text(tmp_path: Path) -> None:
    (row,) = _rows(_write(tmp_path, "a.jsonl", json.dumps({"text": None})))
    assert row.is_empty
