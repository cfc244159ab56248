"""Tables that are written."""

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data import outputs
from warmstart.data.outputs import CHUNK, write_table
from warmstart.data.workbooks import read_workbook
from warmstart.errors import WarmstartError

ROWS: list[dict[str, Any]] = [
    {"id": "1", "text": 'He said: "fine",\nthen left.\tSo.', "share": 0.5, "tags": None},
    {"id": "2", "text": "", "share": None, "tags": None},
]


def _read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="," if path.suffix == ".csv" else "\t"))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_what_is_written_can_be_read(name: str, tmp_path: Path) -> None:
    read = _read(write_table(tmp_path / name, ROWS))
    as_text = name[2:] in ("csv", "tsv")
    wanted = [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in ROWS
    ]
    assert read == (wanted if as_text else ROWS)


def _sheet(path: Path) -> list[list[str]]:
    return [cells for _, cells in read_workbook(path)]


def test_a_workbook_holds_texts_and_numbers(tmp_path: Path) -> None:
    texts = [
        "=1+1",
        "https://a.org",
        "0123",
        "_x0041_",
        "two\nlines",
        "\x07",
        "😀 ok",
        "+49 30",
        "",
    ]
    rows = [{"n": n / 4, "text": text, "id": 2**60 + n} for n, text in enumerate(texts)]
    path = write_table(tmp_path / "a.xlsx", rows)
    wanted = [[f"{n / 4:g}", text, str(2**60 + n)] for n, text in enumerate(texts)]
    assert _sheet(path) == [["n", "text", "id"], *wanted]
    with zipfile.ZipFile(path) as archive:
        sheet = archive.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert "hyperlink" not in sheet
    assert '<c r="A3"><v>0.25</v>' in sheet


def test_a_cell_that_excel_cannot_hold_is_cut_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(outputs, "say", said.append)
    rows = [{"text": text} for text in ("a" * 32_767, "b" * 32_768, "é" + "😀" * 20_000)]
    _, *cells = _sheet(write_table(tmp_path / "a.xlsx", rows))
    assert [len(text) for (text,) in cells] == [32_767, 32_767, 1 + 16_383]
    (line,) = said
    assert line.startswith("2 cells cut to 32,767 characters, the most in Excel")


def test_a_sheet_that_is_too_long_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "MOST_ROWS", 5)
    assert len(_sheet(write_table(tmp_path / "a.xlsx", [{"n": n} for n in range(4)]))) == 5
    with pytest.raises(WarmstartError, match="more than 4 rows, the most of an Excel sheet"):
        write_table(tmp_path / "b.xlsx", [{"n": n} for n in range(5)])
    with pytest.raises(WarmstartError, match=r"16,385 columns, but an Excel sheet has 16,384"):
        write_table(tmp_path / "b.xlsx", [{str(n): n for n in range(16_385)}])
    assert [path.name for path in tmp_path.iterdir()] == ["a.xlsx"]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_any_text_survives_a_csv(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    rows = [{"n": str(n), "text": text} for n, text in enumerate(texts)]
    write_table(path, rows, raw_cells=True)
    assert [row["text"] for row in _read(path)] == texts


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_a_character_that_makes_a_file_binary_is_left_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(outputs, "say", said.append)
    path = write_table(tmp_path / name, [{"text": "a\0b", "label": "x"}] * 2)
    assert _read(path) == [{"text": "ab", "label": "x"}] * 2
    assert said == ["2 cells lost NUL characters, which no text file may have"]


def test_rows_may_have_different_columns(tmp_path: Path) -> None:
    rows = [{"a": 1}, {"a": 2.5, "b": True}, {"b": False, "c": [1]}]
    assert _read(write_table(tmp_path / "a.csv", rows))[1] == {"a": "2.5", "b": "true", "c": ""}
    assert _read(write_table(tmp_path / "a.jsonl", rows)) == rows
    assert _read(write_table(tmp_path / "a.parquet", rows))[2] == {"a": None, "b": False, "c": [1]}


def test_a_column_that_comes_late(tmp_path: Path) -> None:
    rows = [{"a": 1}] * CHUNK + [{"a": 2, "late": 3}]
    with pytest.raises(WarmstartError, match="'late'"):
        write_table(tmp_path / "a.csv", rows)
    assert not list(tmp_path.iterdir())
    assert _read(write_table(tmp_path / "a.parquet", rows))[-1] == {"a": 2, "late": 3}


def test_a_parquet_column_has_one_type(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match="several types"):
        write_table(tmp_path / "a.parquet", [{"a": 1}, {"a": "x"}])
    assert not list(tmp_path.iterdir())


def test_numbers_that_json_lacks_are_null(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.jsonl", [{"a": float("nan")}])
    assert path.read_text() == '{"a": null}\n'


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_no_rows_are_an_empty_table(name: str, tmp_path: Path) -> None:
    assert _read(write_table(tmp_path / name, [])) == []


FORMULAS = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    "-",
    "- a",
]
PLAIN = ["a=b", "'=1", "", " =1", "-1", "+2.5", "-1,5", "-3.2E-05", "text"]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_cells_that_a_spreadsheet_would_run_get_an_apostrophe(name: str, tmp_path: Path) -> None:
    rows = [{"=name": cell, "number": -0.5} for cell in (*FORMULAS, *PLAIN)]
    read = _read(write_table(tmp_path / name, rows))
    cells = [f"'{cell}" for cell in FORMULAS] + PLAIN
    assert read == [{"'=name": cell, "number": "-0.5"} for cell in cells]
    read = _read(write_table(tmp_path / name, rows, raw_cells=True))
    assert [row["=name"] for row in read] == [*FORMULAS, *PLAIN]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_cells_of_other_formats_stay_as_they_are(name: str, tmp_path: Path) -> None:
    rows = [{"text": cell} for cell in FORMULAS]
    assert _read(write_table(tmp_path / name, rows)) == rows
