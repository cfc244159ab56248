import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data.corpus import Passage, RowCounts, read_passages, read_texts
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat

LIMIT = 1 << 16


def _write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8", newline="")
    return path


def _documents(passages: list[Passage]) -> list[list[str]]:
    documents: list[list[str]] = []
    for passage in passages:
        if passage.continues:
            documents[-1].extend(passage.rows)
        else:
            documents.append(list(passage.rows))
    return documents


@pytest.mark.parametrize(
    ("content", "document", "expected"),
    [
        ("a\nb\n\nc\n", "auto", [["a", "b"], ["c"]]),
        ("a\nb\n\nc\n", "line", [["a"], ["b"], ["c"]]),
        ("\n\na\nb\n\n\n", "auto", [["a"], ["b"]]),  # no blank line between rows
        ("\n\na\nb\n\n\n", "blank", [["a", "b"]]),
        ("a\r\n \r\nb\u2028c", "auto", [["a"], ["b\u2028c"]]),
    ],
)
def test_documents_in_plain_text(
    tmp_path: Path, content: str, document: str, expected: list[list[str]]
) -> None:
    path = _write(tmp_path, "a.txt", content)
    assert _documents(list(read_passages(path, document))) == expected


def test_unknown_extension_is_plain_lines(tmp_path: Path) -> None:
    path = _write(tmp_path, "train.fr", "un\ndeux\n")
    assert [p.rows for p in read_passages(path)] == [("un",), ("deux",)]


def test_table_rows_are_documents_of_paragraphs(tmp_path: Path) -> None:
    texts = ["a\nb\r\n\nc\u2028d", "", "e"]
    path = _write(tmp_path, "a.jsonl", "".join(json.dumps({"text": t}) + "\n" for t in texts))
    counts = RowCounts()
    passages = list(read_passages(path, counts=counts))
    assert [p.rows for p in passages] == [("a", "b", "c\u2028d"), ("e",)]
    assert counts == RowCounts(rows=3, skipped=1)


def test_columns_are_passed_on(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.tsv", "1\tbon\n0\tnul\n")
    passages = read_passages(path, tables=TableFormat(columns=("label", "text")))
    assert [p.rows for p in passages] == [("bon",), ("nul",)]


def test_skipped_lines_are_counted_over_files(tmp_path: Path) -> None:
    counts = RowCounts()
    list(read_passages(_write(tmp_path, "a.txt", "a\n\n \nb\n"), "line", counts=counts))
    assert counts == RowCounts(rows=4, skipped=2)
    list(read_passages(_write(tmp_path, "b.txt", "a\n\n\nb\nc\n"), "blank", counts=counts))
    assert counts == RowCounts(rows=7, skipped=2)


@given(
    st.lists(st.lists(st.integers(1, 2 * LIMIT), min_size=1, max_size=5), min_size=1, max_size=4)
)
def test_long_documents_come_in_bounded_passages(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[list[int]]
) -> None:
    documents = [[("mot " * (size // 4 + 1))[:size].strip() for size in doc] for doc in sizes]
    content = "\n\n".join("\n".join(rows) for rows in documents)
    path = _write(tmp_path_factory.mktemp("long"), "a.txt", content)
    passages = list(read_passages(path, "blank"))
    assert all(0 < sum(map(len, p.rows)) <= LIMIT for p in passages)
    assert all(row.strip() for p in passages for row in p.rows)
    words = [" ".join(rows).split() for rows in _documents(passages)]
    assert words == [" ".join(rows).split() for rows in documents]


def test_a_long_row_without_spaces_is_cut_exactly(tmp_path: Path) -> None:
    text = "".join(chr(0x4E00 + i % 9000) for i in range(150_000))
    passages = list(read_passages(_write(tmp_path, "a.txt", text)))
    assert "".join(row for p in passages for row in p.rows) == text
    assert [p.continues for p in passages] == [False, True, True]


@pytest.mark.parametrize(
    ("name", "content"), [("a.txt", ""), ("a.txt", "\n \n"), ("a.csv", "text,label\n")]
)
def test_a_file_without_text_is_refused(tmp_path: Path, name: str, content: str) -> None:
    with pytest.raises(WarmstartError, match=rf"{name}: no rows with text"):
        list(read_passages(_write(tmp_path, name, content)))


def test_unknown_document_rule(tmp_path: Path) -> None:
    with pytest.raises(WarmstartError, match="document=page must be auto, blank or line"):
        list(read_passages(_write(tmp_path, "a.txt", "a"), "page"))


def test_text_that_is_no_string_names_the_line(tmp_path: Path) -> None:
    path = _write(tmp_path, "a.jsonl", '{"text": "a"}\n{"text": 5}\n')
    for read in (read_passages, read_texts):
        with pytest.raises(WarmstartError, match=r"a\.jsonl line 2: text is 5, not a string"):
            list(read(path))


def test_texts_to_predict_keep_their_places(tmp_path: Path) -> None:
    assert list(read_texts(io.BytesIO(b"a\n\nb"))) == ["a", "", "b"]
    assert list(read_texts(io.BytesIO(b""))) == []
    assert list(read_texts(_write(tmp_path, "a.txt", "a\r\n\r\nb\r\n"))) == ["a", "", "b"]
    path = _write(tmp_path, "a.csv", 'id,text\n1,"x\ny"\n2,\n')
    assert list(read_texts(path)) == ["x\ny", ""]
