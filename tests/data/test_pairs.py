"""Sentence pairs from every kind of file, and what is refused."""

import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warmstart.data.pairs import Pairs, read_aligned, read_pair_table
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat

SOURCES = ("a dog", "two cats", "no one, here")


TARGETS = ("ein Hund", "zwei Katzen", "niemand")


def _said(read: Callable[[], object]) -> str:
    with pytest.raises(WarmstartError) as caught:
        read()
    said = str(caught.value)
    assert "\n" not in said
    return said


def _aligned(folder: Path, source: bytes, target: bytes) -> tuple[Path, Path]:
    paths = folder / "train.en", folder / "train.de"
    for path, content in zip(paths, (source, target), strict=True):
        path.write_bytes(content)
    return paths


def _lines(texts: tuple[str, ...], end: str = "\n") -> bytes:
    return "".join(text + end for text in texts).encode()


def _check(pairs: Pairs) -> None:
    assert pairs.sources == SOURCES
    assert pairs.targets == TARGETS
    assert len(pairs) == 3


def test_two_files_are_read_line_by_line(tmp_path: Path) -> None:
    paths = _aligned(tmp_path, _lines(SOURCES), _lines(TARGETS))
    pairs = read_aligned(*paths)
    _check(pairs)
    assert pairs.files == tuple(map(str, paths))
    assert pairs.skipped == 0


def test_marks_at_the_start_and_windows_line_ends_are_no_text(tmp_path: Path) -> None:
    source = b"\xef\xbb\xbf" + _lines(SOURCES, "\r\n")
    _check(read_aligned(*_aligned(tmp_path, source, _lines(TARGETS).removesuffix(b"\n"))))


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    source = "one\u2028still one\x85and\x0bso\n".encode()
    pairs = read_aligned(*_aligned(tmp_path, source, b"eins\n"))
    assert len(pairs) == 1


def test_compressed_files(tmp_path: Path) -> None:
    source, target = tmp_path / "train.en.gz", tmp_path / "train.de.xz"
    source.write_bytes(gzip.compress(_lines(SOURCES)))
    target.write_bytes(lzma.compress(_lines(TARGETS)))
    _check(read_aligned(source, target))


def test_tables_of_every_kind(tmp_path: Path) -> None:
    rows = list(zip(SOURCES, TARGETS, strict=True))
    objects = [{"id": n, "source": s, "target": t} for n, (s, t) in enumerate(rows)]
    lines = {
        "pairs.tsv": [f"{s}\t{t}" for s, t in rows],
        "header.tsv": ["target\tsource", *(f"{t}\t{s}" for s, t in rows)],
        "pairs.csv": [f'"{s}","{t}"' for s, t in rows],
        "pairs.jsonl": [json.dumps(one) for one in objects],
    }
    for name, content in lines.items():
        (tmp_path / name).write_text("\n".join(content) + "\n")
    pq.write_table(pa.Table.from_pylist(objects), tmp_path / "pairs.parquet")
    for name in ("header.tsv", "pairs.jsonl", "pairs.parquet"):
        _check(read_pair_table(tmp_path / name))
    for name in ("pairs.tsv", "pairs.csv"):
        _check(read_pair_table(tmp_path / name, TableFormat(columns=("source", "target"))))
    with (
        (tmp_path / "pairs.jsonl").open("rb") as plain,
        gzip.open(tmp_path / "z.jsonl.gz", "wb") as z,
    ):
        shutil.copyfileobj(plain, z)
    _check(read_pair_table(tmp_path / "z.jsonl.gz"))


def test_columns_are_named_and_ordered(tmp_path: Path) -> None:
    rows = list(zip(SOURCES, TARGETS, strict=True))
    (tmp_path / "turned.tsv").write_text("".join(f"{t}\tx\t{s}\n" for s, t in rows))
    _check(read_pair_table(tmp_path / "turned.tsv", TableFormat(columns=("target", "_", "source"))))
    objects = [json.dumps({"en": s, "de": t}) for s, t in rows]
    (tmp_path / "named.jsonl").write_text("\n".join(objects))
    _check(
        read_pair_table(tmp_path / "named.jsonl", TableFormat(columns=("source=en", "target=de")))
    )


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_translation_objects(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"pairs.{kind}"
    rows = [{"translation": {"en": s, "de": t}} for s, t in zip(SOURCES, TARGETS, strict=True)]
    if kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    _check(read_pair_table(path, TableFormat(columns=("source=en", "target=de"))))
    turned = read_pair_table(path, TableFormat(columns=("source=de", "target=en")))
    assert turned.sources == TARGETS
    said = _said(lambda: read_pair_table(path))
    assert "no source (there: en, de)" in said
    assert "--columns source=NAME,target=NAME" in said
    assert f"{path} {'line' if kind == 'jsonl' else 'row'} 1" in said


def test_a_translation_object_that_lacks_a_language_says_where(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    whole, half = {"en": "a", "de": "b"}, {"en": "a"}
    path.write_text("\n".join(json.dumps({"translation": one}) for one in (whole, half)))
    said = _said(lambda: read_pair_table(path, TableFormat(columns=("source=en", "target=de"))))
    assert f"{path} line 2" in said
    assert "de" in said


def test_pairs_with_an_empty_side_are_counted(tmp_path: Path) -> None:
    source, target = b"a\n\n \nb\nc\n\n", b"A\n\n\t\nB\n\nD\n"
    pairs = read_aligned(*_aligned(tmp_path, source, target))
    assert pairs.sources == ("a", "b")
    assert pairs.skipped == 4
    (tmp_path / "pairs.tsv").write_text("source\ttarget\na\tA\nb\t\n")
    assert read_pair_table(tmp_path / "pairs.tsv").skipped == 1


def test_files_of_different_lengths_are_refused_with_both_numbers(tmp_path: Path) -> None:
    paths = _aligned(tmp_path, b"a\nb\nc\n", b"A\nB\n")
    said = _said(lambda: read_aligned(*paths))
    assert f"{paths[0]} has 3 lines but {paths[1]} has 2" in said


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_files_without_text_are_refused(tmp_path: Path, content: bytes) -> None:
    assert "no pairs with text" in _said(
        lambda: read_aligned(*_aligned(tmp_path, content, content))
    )


def test_binary_files_are_refused_with_their_line(tmp_path: Path) -> None:
    paths = _aligned(tmp_path, b"a\nb\0c\n", b"A\nB\n")
    assert f"{paths[0]} line 2: byte 2 is NUL" in _said(lambda: read_aligned(*paths))
    paths = _aligned(tmp_path, b"a\nb\n", b"A\n\xff\xfe\n")
    assert f"{paths[1]} line 2: byte 1 (0xFF) is not UTF-8" in _said(lambda: read_aligned(*paths))


def test_what_is_not_one_side_or_not_a_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tA\n")
    (tmp_path / "plain.txt").write_text("a\n")
    said = _said(lambda: read_aligned(tmp_path / "pairs.tsv", tmp_path / "plain.txt"))
    assert "pairs.tsv is a table" in said
    said = _said(lambda: read_pair_table(tmp_path / "plain.txt"))
    assert "--source and --target" in said
    assert "is a folder" in _said(lambda: read_pair_table(tmp_path))
    assert "is a folder" in _said(lambda: read_aligned(tmp_path, tmp_path / "plain.txt"))
    missing = tmp_path / "none.txt"
    assert str(missing) in _said(lambda: read_aligned(missing, tmp_path / "plain.txt"))


def test_a_table_of_labelled_texts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("label\ttext\npos\tfine\n")
    said = _said(lambda: read_pair_table(path))
    assert "[label | text]" in said
    assert "--columns source=label,target=text" in said


def test_a_side_that_is_no_string_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"source": "a", "target": 3}\n')
    assert "line 1: target is 3, not a string" in _said(lambda: read_pair_table(path))
    path.write_text('{"translation": {"source": "a", "target": ["b"]}}\n')
    assert "line 1: target is ['b'], not a string" in _said(lambda: read_pair_table(path))


def test_columns_must_name_both_sides(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tA\n")
    said = _said(lambda: read_pair_table(tmp_path / "pairs.tsv", TableFormat(columns=("source",))))
    assert "--columns source: target must be among them" in said


def test_a_table_without_the_columns_says_which_there_are(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('{"en": "a", "de": "A"}\n')
    said = _said(lambda: read_pair_table(path))
    assert "--columns source=en,target=de" in said


def test_blank_lines_among_translation_objects_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    one = json.dumps({"translation": {"source": "a", "target": "A"}})
    path.write_text(f"\n{one}\n\n{one}\n\n")
    pairs = read_pair_table(path)
    assert (len(pairs), pairs.skipped) == (2, 3)
    path.write_text(f'{one}\n{{"translation": "a"}}\n')
    assert "line 2: translation is 'a', not an object" in _said(lambda: read_pair_table(path))
