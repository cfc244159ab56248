"""The table that is labelled over HTTP: one cell changes, and only while nobody else changed it."""

import csv
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command_line import refuse
from http_server import Server, serving
from warmstart.errors import WarmstartError
from warmstart.serving.labelling import MOST_BYTES, MOST_ROWS, read_label_table, write_label
from warmstart.serving.responses import RefusedError
from warmstart.settings.shared import TableFormat

TABLE = 'id;text;label;note\r\n1;"A fine; long book";;"\'=1"\r\n2;Dull.;;\r\n3;Meh;old;x\r\n'


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "to-label.csv"
    path.write_text(TABLE, newline="", encoding="utf-8")
    return path


@pytest.fixture
def labelling(warm: Path, table: Path) -> Iterator[Server]:
    with serving(f"{warm} --label {table}") as started:
        yield started


def _cells(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream, delimiter=";"))


def test_a_label_changes_one_cell(table: Path) -> None:
    before = _cells(table)
    version = write_label(table, 1, "bad", read_label_table(table).version)
    before[2][2] = "bad"
    assert _cells(table) == before
    assert read_label_table(table).version == version
    write_label(table, 1, "", version)
    assert table.read_bytes().count(b"\r\n") == TABLE.count("\r\n")
    assert _cells(table)[2][2] == ""


def test_a_column_of_labels_is_added(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one", "n": [1]}\n{"text": "two"}\n')
    write_label(path, 1, "x", read_label_table(path).version)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [{"text": "one", "n": [1], "label": ""}, {"text": "two", "label": "x"}]


def test_labels_that_other_rows_have_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n{"text": "two", "label": ["a", "b"]}\n')
    write_label(path, 0, "x", read_label_table(path).version)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows == [{"text": "one", "label": "x"}, {"text": "two", "label": ["a", "b"]}]


KEPT = {
    "a.csv": ("text,,note,note,label\r\none,1,2,3,{}\r\n", "good"),
    "b.csv": ("\ufefftext,label\r\ncafé,{}\r\n", "bon"),
    "c.tsv": ('text\tlabel\r\nsay "no"\t{}\r\n"so\rso"\told\r\n', "good"),
}


@pytest.mark.parametrize(("name", "content", "label"), [(n, *c) for n, c in KEPT.items()])
def test_everything_else_in_the_file_is_kept(
    tmp_path: Path, name: str, content: str, label: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.format("").encode())
    for _ in range(2):
        write_label(path, 0, label, read_label_table(path).version)
        assert path.read_bytes().decode() == content.format(label)


AS_WRITTEN = {
    "line-ends.csv": (
        'text,label\n"one,\r\ntwo",{}\n\n"thr""ee",old',
        "",
        'a "b", c',
        '"a ""b"", c"',
    ),
    "quotes.csv": ('\ufeff"text";"label";"n"\r\n"no";{};"1"\n\r\n"x";"";""\n', '"old"', "x", '"x"'),
    "numbers.jsonl": (
        '{{"text":"a","x": NaN,"label":{}, "y":1.10}}\r\n\n{{ "label":"é","text":"c"}}',
        *("null", 'a "b"', '"a \\"b\\""'),
    ),
}


@pytest.mark.parametrize("name", AS_WRITTEN)
def test_not_a_byte_changes_beside_the_label(tmp_path: Path, name: str) -> None:
    content, before, label, after = AS_WRITTEN[name]
    path = tmp_path / name
    path.write_bytes(content.format(before).encode())
    write_label(path, 0, label, read_label_table(path).version)
    assert path.read_bytes().decode() == content.format(after)
    assert read_label_table(path).texts[0].label == label


def test_a_new_column_of_labels_keeps_the_ends_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'text,"n,o"\n"a\r\nb",1\r\n\nc,2')
    write_label(path, 1, "x", read_label_table(path).version)
    assert path.read_bytes() == b'text,"n,o",label\n"a\r\nb",1,\r\n\nc,2,x'


def test_rows_of_empty_cells_stay_readable_when_a_column_is_added(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,note\nGood book,1\nDull,2\n,\n")
    version = write_label(path, 0, "good", read_label_table(path).version)
    assert path.read_bytes() == b"text,note,label\nGood book,1,good\nDull,2,\n,,\n"
    write_label(path, 1, "bad", version)
    assert b"Dull,2,bad\n" in path.read_bytes()


def test_labels_are_as_private_as_the_file_was(table: Path) -> None:
    table.chmod(0o600)
    write_label(table, 0, "good", read_label_table(table).version)
    assert table.stat().st_mode & 0o777 == 0o600


def test_quotes_in_a_label_do_not_make_a_tsv_file_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b'text\tlabel\n"one\t\n')
    with pytest.raises(RefusedError, match="has quotes"):
        write_label(path, 0, '"a""b"', read_label_table(path).version)


def test_labels_go_into_the_column_that_is_named(warm: Path, tmp_path: Path) -> None:
    path = tmp_path / "to-label.csv"
    path.write_text("comment,Mood,n\nA long book.,,1\nDull.,bad,2\n")
    columns = "--columns text=comment,label=mood"
    with serving(f"{warm} --label {path} {columns}") as server:
        answer = server.get("/labels").json
        assert [row["label"] for row in answer["rows"]] == ["", "bad"]
        body = {"version": answer["version"], "row": 0, "label": "good"}
        assert server.post("/label", body).status == 200
    assert path.read_text().splitlines()[:2] == ["comment,Mood,n", "A long book.,good,1"]
    assert "give --label too" in refuse(f"serve {warm} {columns} --port 0")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "one\ntwo\n", "only .csv, .tsv and .jsonl files are labelled"),
        ("a.csv.gz", "", "only .csv, .tsv and .jsonl files are labelled"),
        ("a.xlsx", "", "only .csv, .tsv and .jsonl files are labelled"),
        ("a.csv", "text,label\n", "has 0 rows"),
        ("a.csv", "text\n" + "a\n" * (MOST_ROWS + 1), "has 10,001 rows"),
        ("a.csv", "text\n" + "a" * MOST_BYTES, "is larger than 8 MiB"),
        (
            "a.csv",
            "".join(f"It was day {n} of a long trip.,1\n" for n in range(9)),
            "has no header",
        ),
    ],
)
def test_a_table_that_cannot_be_labelled(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(WarmstartError) as refusal:
        read_label_table(path)
    assert message in str(refusal.value)


def test_labels_are_written_in_utf_8_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\ncafé,\n".encode("cp1252"))
    with pytest.raises(WarmstartError, match="save the file as UTF-8"):
        read_label_table(path, TableFormat(encoding="cp1252"))


def test_serve_refuses_it_before_it_starts(warm: Path, tmp_path: Path) -> None:
    said = refuse(f"serve {warm} --label {tmp_path / 'absent.csv'} --port 0")
    assert "absent.csv" in said


def test_labels_are_read_and_saved(labelling: Server, table: Path) -> None:
    answer = labelling.get("/labels").json
    assert answer["file"] == table.name
    assert answer["rows"][2] == {"text": "Meh", "text2": None, "label": "old"}
    body = {"version": answer["version"], "row": 0, "label": "good"}
    saved = labelling.post("/label", body).json["version"]
    assert [row[2] for row in _cells(table)] == ["label", "good", "", "old"]
    assert labelling.get("/labels").json["version"] == saved
    stale = labelling.post("/label", body)
    assert (stale.status, "reload the page" in stale.message) == (409, True)
    table.write_bytes(table.read_bytes() + b"4;new;;\r\n")
    changed = table.read_bytes()
    assert labelling.post("/label", {**body, "version": saved}).status == 409
    assert table.read_bytes() == changed


def test_of_labels_at_the_same_time_one_is_saved(labelling: Server, table: Path) -> None:
    version = labelling.get("/labels").json["version"]
    bodies = [{"version": version, "row": row % 3, "label": f"l{row}"} for row in range(6)]
    with ThreadPoolExecutor(6) as pool:
        statuses = [reply.status for reply in pool.map(labelling.post, ["/label"] * 6, bodies)]
    assert sorted(statuses) == [200, *[409] * 5]
    assert len(_cells(table)) == 4


BAD: tuple[dict[str, object], ...] = (
    {"row": 3},
    {"row": -1},
    {"row": MOST_ROWS},
    {"label": "=HYPERLINK(1)"},
    {"label": "two\nlines"},
    {"label": "two\tcells"},
    {"label": "a\0b"},
    {"label": "good\u202edoog"},
    {"label": "x" * 201},
    {"path": "/etc/passwd"},
)


def test_a_bad_label_leaves_the_file_alone(labelling: Server, table: Path) -> None:
    version = labelling.get("/labels").json["version"]
    for change in BAD:
        reply = labelling.post("/label", {"version": version, "row": 0, "label": "a", **change})
        assert reply.status == 422, change
        assert str(table.parent) not in reply.message
    assert table.read_bytes().decode() == TABLE


def test_without_the_option_there_is_nothing_to_label(server: Server) -> None:
    assert server.get("/labels").json == {"file": None, "version": "", "rows": []}
    reply = server.post("/label", {"version": "", "row": 0, "label": "a"})
    assert (reply.status, "--label" in reply.message) == (404, True)
