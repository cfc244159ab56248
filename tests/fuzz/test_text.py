"""Whatever stands in a file of text, only a `WarmstartError` comes out."""

import bz2
import contextlib
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from broken import damaged, fuzzed, scraps
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data.columns import parse_columns
from warmstart.data.corpus import read_passages, read_texts
from warmstart.data.labelled import read_labelled
from warmstart.data.pairs import read_aligned, read_pair_table
from warmstart.data.workbooks import read_workbook
from warmstart.errors import WarmstartError
from warmstart.textfiles import expand, read_lines

Place = Callable[[str, bytes], Path]
ROWS = b'text,label\n"a, ""b""",1\nc,2\n'
LINES = b'{"text": "a", "label": 1}\n{"text": "b", "label": null}\n'
PLAIN = "une ligne\n\nété\r\nlast".encode()


def _parquet() -> bytes:
    stream = io.BytesIO()
    table = pa.table({"text": ["one", "two", None], "label": [1, 0, 1]})
    pq.write_table(table, stream)
    return stream.getvalue()


def _xlsx() -> bytes:
    stream = io.BytesIO()
    with xlsxwriter.Workbook(stream) as book:
        sheet = book.add_worksheet()
        for n, row in enumerate((("text", "label"), ("one", 1), (None, 2.5), ("two", True))):
            sheet.write_row(n, 0, row)
    return stream.getvalue()


def _zst(content: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(content, asbytes=True))


PARQUET = _parquet()
XLSX = _xlsx()
PACKED = {
    ".gz": gzip.compress(PLAIN * 9, mtime=0),
    ".xz": lzma.compress(PLAIN * 9),
    ".bz2": bz2.compress(PLAIN * 9),
    ".zst": _zst(PLAIN * 9),
}


def _read_all(path: Path) -> None:
    """Read a file in every way there is."""
    for document in ("auto", "line", "blank"):
        with contextlib.suppress(WarmstartError):
            list(read_passages(path, document))
    with contextlib.suppress(WarmstartError):
        list(read_texts(path))
    with contextlib.suppress(WarmstartError):
        read_labelled(path)


@fuzzed
@given(scraps(PLAIN) | damaged(PLAIN))
def test_plain_lines(place: Place, content: bytes) -> None:
    _read_all(place("a.txt", content))


@fuzzed
@given(scraps(b"text,label\n", b'"a"', b"a,b\n") | damaged(ROWS))
def test_csv(place: Place, content: bytes) -> None:
    _read_all(place("a.csv", content))


@fuzzed
@given(scraps(b"text\tlabel\n", b"a\tb\n") | damaged(ROWS.replace(b",", b"\t")))
def test_tsv(place: Place, content: bytes) -> None:
    _read_all(place("a.tsv", content))


@fuzzed
@given(scraps(b'{"text": ', b'"label": ', LINES) | damaged(LINES))
def test_jsonl(place: Place, content: bytes) -> None:
    _read_all(place("a.jsonl", content))


@fuzzed
@given(damaged(PARQUET) | scraps(b"PAR1", PARQUET))
def test_parquet(place: Place, content: bytes) -> None:
    _read_all(place("a.parquet", content))


@fuzzed
@given(damaged(XLSX) | scraps(b"PK", XLSX))
def test_xlsx(place: Place, content: bytes) -> None:
    with contextlib.suppress(WarmstartError):  # once: it takes a process
        list(read_workbook(place("a.xlsx", content)))


@pytest.mark.parametrize("ending", PACKED)
@fuzzed
@given(st.data())
def test_compressed(place: Place, ending: str, data: st.DataObject) -> None:
    whole = PACKED[ending]
    path = place(f"a.txt{ending}", data.draw(damaged(whole) | scraps(whole)))
    with contextlib.suppress(WarmstartError):
        list(read_lines(path))
    with contextlib.suppress(WarmstartError):
        list(read_texts(path.rename(path.with_name(f"a.parquet{ending}"))))


@fuzzed
@given(st.lists(st.text(max_size=12) | st.sampled_from(["text", "label=x", "_", "text=", "="])))
def test_columns(columns: list[str]) -> None:
    with contextlib.suppress(WarmstartError):
        parse_columns(columns, ("text", "label"))


@fuzzed
@given(st.text(max_size=20).filter(lambda name: name.strip("./*") != ""))
def test_file_names(place: Place, name: str) -> None:
    folder = place("x", b"").parent
    with contextlib.suppress(WarmstartError):
        expand([str(folder / "deep" / name.replace("..", ""))])


PAIRS = b'{"translation": {"en": "a", "fr": "b"}}\n{"source": "a", "target": "b"}\n'


@fuzzed
@given(scraps(PAIRS, b'{"translation": ', b'{"source": "a", "target": ') | damaged(PAIRS))
def test_pairs(place: Place, content: bytes) -> None:
    for name in ("p.jsonl", "p.csv", "p.tsv"):
        with contextlib.suppress(WarmstartError):
            read_pair_table(place(name, content))
    with contextlib.suppress(WarmstartError):
        read_aligned(place("p.src", content), place("p.tgt", content[::-1]))
