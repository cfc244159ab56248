import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warmstart.data.labelled import read_labelled
from warmstart.errors import WarmstartError


def _write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.tsv", "bon\tpos\nnul\tneg\n", ()),
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
    read = read_labelled(_write(tmp_path, name, content), columns)
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


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": "a", "label": None}, "line 1: the label is null"),
        ({"text": "a", "label": " "}, "line 1: the label is empty"),
        ({"text": "a", "label": [1]}, r"line 1: label is \[1\], not a string"),
        ({"text": "a", "label": float("nan")}, "line 1: label is nan"),
        ({"text": "", "label": 1}, "line 1: the text is empty"),
        ({"text": None, "label": 1}, "line 1: text is null, not a string"),
        ({"text": "a"}, "line 1: no column label"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, record: dict[str, object], message: str) -> None:
    with pytest.raises(WarmstartError, match=message):
        read_labelled(_write(tmp_path, "a.jsonl", json.dumps(record)))


def test_blank_line_in_a_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match=r"a\.tsv line 2: the text is empty"):
        read_labelled(_write(tmp_path, "a.tsv", "a\t1\n\nb\t2\n"))


def test_no_rows(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match=r"a\.csv: no rows"):
        read_labelled(_write(tmp_path, "a.csv", "text,label\n"))


def test_exchanged_columns_are_noticed(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.tsv", "".join(f"{i % 2}\ttext {i}\n" for i in range(20)))
    with pytest.raises(WarmstartError, match=r"20 different labels .* --columns label,text"):
        read_labelled(path)
    assert set(read_labelled(path, ("label", "text")).labels) == {"0", "1"}


def test_aligned_files(tmp_path: Path) -> None:
    texts = _write(tmp_path, "train.review.spm", "▁bon ▁livre\n▁nul\n")
    read = read_labelled(texts, labels=_write(tmp_path, "train.label", "1\n0\n"))
    assert (read.texts, read.labels, read.lines) == (("▁bon ▁livre", "▁nul"), ("1", "0"), (1, 2))


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ("a\nb\nc\n", "1\n0\n", r"a\.txt has 3 lines but a\.label has 2"),
        ("a\n\n", "1\n0\n", r"a\.txt line 2: the text is empty"),
        ("a\nb\n", "1\n\n", r"a\.label line 2: the label is empty"),
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
    read = read_labelled(_write(tmp_path, name, content), columns)
    assert (read.texts, read.seconds, read.labels) == (("a", "c"), ("b", "d"), ("x", "y"))


def test_pairs_in_parquet(tmp_path: Path) -> None:
    pq.write_table(
        pa.Table.from_pylist([{"text": "a", "text2": "b", "label": 1}]), tmp_path / "a.parquet"
    )
    assert read_labelled(tmp_path / "a.parquet").seconds == ("b",)


def test_single_texts_have_no_second(tmp_path: Path) -> None:
    assert read_labelled(_write(tmp_path, "a.tsv", "a\tx\nb\ty\n")).seconds is None
    named = _write(tmp_path, "b.tsv", "text\ttext2\tlabel\na\tb\tx\n")
    assert read_labelled(named, ("text", "label")).seconds is None


def test_an_empty_second_text_is_refused_with_its_line(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.tsv", "text\ttext2\tlabel\na\tb\tx\nc\t \ty\n")
    with pytest.raises(WarmstartError, match="line 3: the text2 is empty"):
        read_labelled(path)


def test_three_fields_without_a_header_are_not_taken_for_pairs(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match="3 fields, but 2 expected"):
        read_labelled(_write(tmp_path, "a.tsv", "a\tb\tx\nc\td\ty\n"))
