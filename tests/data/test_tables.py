import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from command_line import little_memory
from warmstart.data.columns import parse_columns
from warmstart.data.table_files import read_parquet
from warmstart.data.tables import Row, open_table
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat

LABELLED = ("text", "label")


def _rows(path: Path, *columns: str) -> list[Row]:
    return list(open_table(path, TableFormat(columns=columns), LABELLED).rows())


def _values(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    return [(row.values["text"], row.values["label"]) for row in _rows(path, *columns)]


def test_all_formats_give_the_same_rows(tmp_path: Path) -> None:
    rows = [("un, «deux»", "a"), ("trois\u2028quatre", "b")]
    records = [{"label": label, "extra": 1, "text": text} for text, label in rows]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "x.parquet")
    (tmp_path / "x.parquet.gz").write_bytes(gzip.compress((tmp_path / "x.parquet").read_bytes()))
    lines = ["label\textra\ttext", *(f"{label}\t1\t{text}" for text, label in rows)]
    (tmp_path / "x.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8-sig")
    with (tmp_path / "x.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("Text", "Label"), *rows])
    for path in tmp_path.iterdir():
        assert _values(path) == rows, path.name


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"])),
            st.just("x"),
        ),
        min_size=1,
    )
)
def test_csv_fields_may_hold_anything(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\n").writerows([("text", "label"), *rows])
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(stream.getvalue().encode())
    assert _values(path) == rows


def test_csv_lines_are_counted_through_quoted_newlines(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('text,label\n"a\nb\nc",1\nd,2\n')
    assert [(row.number, row.values["text"]) for row in _rows(path)] == [
        (2, "a\nb\nc"),
        (5, "d"),
    ]


def test_csv_takes_a_very_long_field(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{'x' * 300_000},1\n")
    assert len(_values(path)[0][0]) == 300_000


def test_tsv_has_no_quoting(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text('"open\t1\nsay "hi"\t2\n')
    assert _values(path) == [('"open', "1"), ('say "hi"', "2")]


def test_first_row_is_data_unless_it_names_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("points\tmot\nbon\tgood\n")
    assert _values(path, "label", "text") == [("mot", "points"), ("good", "bon")]
    assert _values(path, "text=mot", "label=points") == [("good", "bon")]
    path.write_text("7\tgood\tx\n")
    assert _values(path, "_", "text", "label") == [("good", "x")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.tsv",
            "text\tlabel\na\t1\nc\n",
            r"a\.tsv line 3: 1 field, but 2 expected, as in the first row",
        ),
        ("a.csv", "text,label,x\na,b\n", r"a\.csv line 2: 2 fields, but 3 expected"),
        ("a.csv", "a\nb\n", r"a\.csv: one column, but text and label .* --delimiter"),
        ("a.csv", 'a,b\n"c,d\n', r"a\.csv line 2: this row is not valid CSV"),
        ("a.csv", "text,text,label\n", r"a\.csv: the header names the column text more than once"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text"\n', r"a\.jsonl line 2: not valid JSON"),
        ("a.jsonl", "[1]\n", r"a\.jsonl line 1: \[1\] is not a JSON object"),
        (
            "a.jsonl",
            '{"text": "a", "label": 1}\n{"text": "a"}\n',
            r"line 2: no column label \(there",
        ),
        ("a.xlsx", "no workbook", r"a\.xlsx: not a whole workbook"),
        ("a.jsonl", "[" * 100_000 + "\n", r"a\.jsonl line 1: not valid JSON"),
        ("a.parquet", "no parquet", r"a\.parquet: not a whole Parquet file"),
    ],
)
def test_bad_tables_get_one_sentence(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(WarmstartError, match=message) as caught:
        _rows(path)
    assert "\n" not in str(caught.value)


def test_parquet_without_the_column(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["x"]}), path)
    with pytest.raises(WarmstartError, match=r"no column text \(there: body\)"):
        open_table(path, TableFormat(columns=("text",)))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(WarmstartError, match="not a whole Parquet file"):
        open_table(path, TableFormat(columns=("text=body",)))


def test_blank_lines_are_rows_of_empty_values(tmp_path: Path) -> None:
    for name, content in (
        ("a.csv", "\ntext,label\n\na,1\n"),
        ("a.tsv", "\ntext\tlabel\n\na\t1\n"),
        ("a.jsonl", '\n\n{"text": "a", "label": "1"}\n'),
    ):
        (tmp_path / name).write_text(content)
        assert _values(tmp_path / name) == [("", ""), ("", ""), ("a", "1")], name


@pytest.mark.parametrize(
    ("value", "shown"), [(True, "True"), (3, "3"), (["a"], "'a'"), ("x\ud800", "surrogate")]
)
def test_text_must_be_a_string(value: object, shown: str) -> None:
    with pytest.raises(WarmstartError, match=rf"a\.jsonl line 7: .*{shown}"):
        Row(Path("a.jsonl"), 7, {"text": value}).text("text")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("labl=stars", "text"), "'labl=stars' is neither"),
        (("text=", "label"), "'text=' is neither"),
        (("text", "text"), "text occurs more than once"),
        (("text",), "label must be among them"),
    ],
)
def test_bad_columns(columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(WarmstartError, match=message):
        parse_columns(columns, ("text", "label"))


def test_parquet_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["caf!", "b"], "label": ["x", "y"]})
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
    path.write_bytes(path.read_bytes().replace(b"caf!", b"caf\xe9"))
    with pytest.raises(WarmstartError, match=r"a\.parquet, in row 1 .* not UTF-8"):
        _rows(path)


@pytest.mark.parametrize(
    ("text", "num", "is_refused"),
    [("good", 10_000, True), ("x" * 1000, 200, True), ("a", 500, False)],
)
def test_a_small_parquet_file_of_many_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, num: int, is_refused: bool
) -> None:
    monkeypatch.setattr("warmstart.textfiles.SAFE_BYTES", 100_000)
    monkeypatch.setattr("warmstart.textfiles.MAX_EXPANSION", 2)
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"text": [text] * num, "label": ["x"] * num}), path)
    if is_refused:
        with pytest.raises(
            WarmstartError, match=r"bomb\.parquet decompresses to more than 2 times"
        ):
            _rows(path)
    else:
        assert len(_rows(path)) == num


def test_a_parquet_file_whose_rows_all_have_one_long_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gigabyte in a file of a few kilobytes is never in memory, and no more than the limit."""
    monkeypatch.setattr("warmstart.textfiles.SAFE_BYTES", 1 << 24)
    lengths: list[int] = []
    path = tmp_path / "bomb.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 1024), pa.array(["x" * 10**6, "y"]))
    pq.write_table(pa.table({"text": text, "label": [0, 1] * 512}), path)
    with little_memory(1 << 28), pytest.raises(WarmstartError, match="decompresses to more than"):
        lengths.extend(len(record["text"]) for _, record in read_parquet(path))
    assert sum(lengths) <= 1 << 24


def test_a_key_or_a_column_that_stands_there_twice(tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": "a", "label": "x"}\n{"text": "b", "text": "c", "label": "x"}\n')
    with pytest.raises(WarmstartError, match=r"a\.jsonl line 2: .*'text' occurs more than"):
        _rows(lines)


def test_a_repeated_key_among_many_is_found_in_one_pass(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    keys = ", ".join(f'"k{n}": 1' for n in range(150_000))
    path.write_text(f'{{{keys}, "k149999": 2}}\n')
    with pytest.raises(WarmstartError, match=r"line 1: .*the key 'k149999' occurs more than once"):
        _rows(path)


def test_quotes_that_are_doubled_without_end(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"' + '""' * 200_000 + "x\ta\nb\tc\n")
    assert [label for _, label in _values(path)] == ["a", "c"]
