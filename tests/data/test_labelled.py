import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warmstart.data.labelled import read_labelled
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat


def _write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.tsv", "bon\tpos\nnul\tneg\n", ("text", "label")),
        ("a.tsv", "label\ttext\npos\tbon\nneg\tnul\n", ()),
        ("a.tsv", "pos\tbon\nneg\tnul\n", ("label", "text")),
        ("a.csv", "stars,id,review\npos,1,bon\nneg,2,nul\n", ("label=stars", "text=review")),
        ("a.csv", "9,bon,pos\n8,nul,neg\n", ("_", "text", "label")),
        ("a.jsonl", '{"label":"pos","text":"bon"}\n{"text":"nul","label":"neg"}\n', ()),
    ],
)
def test_every_way_to_lay_out_a_table(
    tmp_path: Path, name: str, content: str, columns: tuple[str, ...]
) -> None:
    read = read_labelled(_write(tmp_path, name, content), TableFormat(columns=columns))
    assert (read.texts, read.labels) == (("bon", "nul"), ("pos", "neg"))
    assert read.file.endswith(name)
    assert len(read.lines) == len(read) == 2


def test_lines_point_into_the_file(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.csv", 'text,label\n"a\nb",1\nc,2\n')
    assert read_labelled(path).lines == (2, 4)


@pytest.mark.parametrize(
    ("value", "label"),
    [(1, "1"), (True, "true"), ("1", "1"), (" x ", "x"), (1.0, "1"), (4.5, "4.5"), (-2, "-2")],
)
def test_labels_are_strings(tmp_path: Path, value: object, label: str) -> None:
    record = {"text": "a", "label": value}
    path = _write(tmp_path, "a.jsonl", json.dumps(record))
    pq.write_table(pa.Table.from_pylist([record]), tmp_path / "a.parquet")
    assert read_labelled(path).labels == (label,)
    assert read_labelled(tmp_path / "a.parquet").labels == (label,)


@pytest.mark.parametrize("value", [None, "", " ", float("nan")])
@pytest.mark.parametrize("role", ["text", "text2", "label"])
def test_rows_without_text_or_label_are_skipped_and_counted(
    tmp_path: Path, role: str, value: object
) -> None:
    if role != "label" and isinstance(value, float):
        pytest.skip("a number is no text")
    whole = {"text": "a", "text2": "b", "label": "x"}
    records = [whole, whole | {role: value}, whole]
    path = _write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, records)) + "\n\n")
    read = read_labelled(path)
    assert (read.texts, read.seconds, read.labels) == (("a", "a"), ("b", "b"), ("x", "x"))
    num_empty, num_unlabelled = (1, 1) if role == "label" else (2, 0)  # one line has nothing
    assert read.lines == (1, 3)
    assert (read.skipped, read.unlabelled) == (num_empty, num_unlabelled)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": "a", "label": [1]}, r"line 1: label is \[1\], not a string"),
        ({"text": 3, "label": "x"}, r"line 1: text is 3, not a string"),
        ({"text": "a"}, "one column, but text and label are needed"),
        ({"text": "", "label": 1}, "no rows with text and label"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, record: dict[str, object], message: str) -> None:
    with pytest.raises(WarmstartError, match=message):
        read_labelled(_write(tmp_path, "a.jsonl", json.dumps(record)))


@pytest.mark.parametrize("content", ["a\t1\n\nb\t2\n", "a\t1\n\t\nb\t2\n", "a\t1\n\t2\nb\t2\n"])
def test_empty_rows_of_a_table_are_skipped(tmp_path: Path, content: str) -> None:
    read = read_labelled(_write(tmp_path, "a.tsv", content))
    assert (read.texts, read.skipped) == (("a", "b"), 1)


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match=r"a\.csv: no rows"):
        read_labelled(_write(tmp_path, "a.csv", "text,label\n"))


def test_aligned_files(tmp_path: Path) -> None:
    texts = _write(tmp_path, "train.review.spm", "▁bon ▁livre\n▁nul\n")
    read = read_labelled(texts, labels=_write(tmp_path, "train.label", "1\n0\n"))
    assert (read.texts, read.labels, read.lines) == (("▁bon ▁livre", "▁nul"), ("1", "0"), (1, 2))


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("a\nb\nc\n", "1\n0\n", r"a\.txt has 3 lines but a\.label has 2"),
        ("\nb\n", "1\n\n", r"a\.txt: no rows with text and label \(none of the 2 rows"),
        ("", "", r"a\.txt: no rows"),
    ],
)
def test_aligned_files_must_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: str, labels: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _write(tmp_path, "a.txt", texts)
    _write(tmp_path, "a.label", labels)
    with pytest.raises(WarmstartError, match=message):
        read_labelled(Path("a.txt"), labels=Path("a.label"))


def test_label_file_goes_with_plain_lines_only(tmp_path: Path) -> None:
    table = _write(tmp_path, "a.csv", "a,1\n")
    plain = _write(tmp_path, "a.txt", "a\n")
    with pytest.raises(WarmstartError, match="goes with plain lines"):
        read_labelled(table, labels=plain)
    with pytest.raises(WarmstartError, match=r"a\.txt: plain lines hold no labels"):
        read_labelled(plain)


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.tsv", "text\ttext2\tlabel\na\tb\tx\nc\td\ty\n", ()),
        ("a.tsv", "a\tb\tx\nc\td\ty\n", ("text", "text2", "label")),
        ("a.tsv", "x\ta\tb\ny\tc\td\n", ("label", "text", "text2")),
        ("a.csv", "id,Label,Text2,Text\n1,x,b,a\n2,y,d,c\n", ()),
        ("a.csv", "p,h,l\na,b,x\nc,d,y\n", ("text=p", "text2=h", "label=l")),
        (
            "a.jsonl",
            '{"text":"a","text2":"b","label":"x"}\n{"text":"c","text2":"d","label":"y"}\n',
            (),
        ),
    ],
)
def test_pairs(tmp_path: Path, name: str, content: str, columns: tuple[str, ...]) -> None:
    read = read_labelled(_write(tmp_path, name, content), TableFormat(columns=columns))
    assert (read.texts, read.seconds, read.labels) == (("a", "c"), ("b", "d"), ("x", "y"))


def test_pairs_in_parquet(tmp_path: Path) -> None:
    pq.write_table(
        pa.Table.from_pylist([{"text": "a", "text2": "b", "label": 1}]), tmp_path / "a.parquet"
    )
    assert read_labelled(tmp_path / "a.parquet").seconds == ("b",)


def test_single_texts_have_no_second(tmp_path: Path) -> None:
    assert read_labelled(_write(tmp_path, "a.tsv", "a\t1\nb\t2\n")).seconds is None
    named = _write(tmp_path, "b.tsv", "text\ttext2\tlabel\na\tb\tx\n")
    assert read_labelled(named, TableFormat(columns=("text", "label"))).seconds is None


def test_three_fields_without_a_header_are_not_taken_for_pairs(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match=r"not clear; it begins with .a . b . 1. .* --columns"):
        read_labelled(_write(tmp_path, "a.tsv", "a\tb\t1\nc\td\t2\n"))
