import bz2
import contextlib
import gzip
import io
import lzma
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart import textfiles as files
from warmstart.data.corpus import read_texts
from warmstart.errors import WarmstartError
from warmstart.textfiles import (
    describe_missing,
    expand,
    format_of,
    read_bytes,
    read_lines,
    sha256_of,
)


def _zst(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": _zst,
}


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compression_does_not_change_lines(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(COMPRESS[suffix]("un\r\ndeux été\n\nquatre".encode()))
    assert list(read_lines(path)) == ["un", "deux été", "", "quatre"]
    assert format_of(path) == "lines"


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zst"])
def test_truncated_compression_names_file_and_line(tmp_path: Path, suffix: str) -> None:
    data = b"".join(
        sha256(bytes([i % 256, i // 256])).hexdigest().encode() + b"\n" for i in range(9999)
    )
    packed = COMPRESS[suffix](data)
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(WarmstartError, match=rf"a\.txt{suffix} line \d+: .*truncated"):
        list(read_lines(path))
    with pytest.raises(WarmstartError, match="truncated"):
        read_bytes(path)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2", ".zst"])
def test_false_compression_is_one_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"these bytes are not compressed at all")
    with pytest.raises(WarmstartError, match=rf"a\.txt{suffix} line 1: cannot be read"):
        list(read_lines(path))


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_only_newlines_end_lines(lines: list[str], end: str) -> None:
    data = "".join(line + end for line in lines).encode()
    if data.startswith(b"\xef\xbb\xbf"):
        return
    assert list(read_lines(io.BytesIO(data))) == lines
    assert list(read_lines(io.BytesIO(b"\xef\xbb\xbf" + data))) == (lines or [""])


def test_very_long_line() -> None:
    assert [len(line) for line in read_lines(io.BytesIO(b"x" * 5_000_000 + b"\ny"))] == [
        5_000_000,
        1,
    ]


def test_broken_utf8_names_file_line_byte(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("bien\nété\n".encode("latin-1"))
    with pytest.raises(WarmstartError, match=r"latin\.txt line 2: byte 1 \(0xE9\) is not UTF-8"):
        list(read_lines(path))
    with pytest.raises(WarmstartError, match="standard input line 1: byte 1"):
        list(read_lines(io.BytesIO(b"\xff")))


def test_nul_means_binary(tmp_path: Path) -> None:
    path = tmp_path / "binary.txt"
    path.write_bytes(b"ok\nab\0c\n")
    with pytest.raises(WarmstartError, match=r"binary\.txt line 2: byte 3 is NUL"):
        list(read_lines(path))


def test_missing_file_is_named(tmp_path: Path) -> None:
    for call in (lambda p: list(read_lines(p)), sha256_of, lambda p: expand([str(p)])):
        with pytest.raises(WarmstartError, match="absent"):
            call(tmp_path / "absent.txt")


def test_sha256_is_of_the_stored_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"text"))
    assert sha256_of(path) == sha256(path.read_bytes()).hexdigest()


def test_expand_files_folders_globs(tmp_path: Path) -> None:
    for name in ("b.txt", "a.csv.gz", "deep/c.jsonl", "deep/notes.md", "odd.spm"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = expand([str(tmp_path / "odd.spm"), str(tmp_path), str(tmp_path / "*.txt")])
    names = [path.relative_to(tmp_path).as_posix() for path in found]
    assert names == ["odd.spm", "a.csv.gz", "b.txt", "deep/c.jsonl"]
    with pytest.raises(WarmstartError, match=r"\*\.nothing: no file matches"):
        expand([str(tmp_path / "*.nothing")])
    (tmp_path / "bare").mkdir()
    with pytest.raises(WarmstartError, match="bare: no file in this folder"):
        expand([str(tmp_path / "bare")])


def test_a_name_with_brackets_is_a_file_first(tmp_path: Path) -> None:
    path = tmp_path / "part[1].txt"
    path.write_text("x")
    assert expand([str(path)]) == (path,)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("x.CSV", "csv"), ("x.tsv.zst", "tsv"), ("train.review.spm", "lines"), ("train.fr", "lines")],
)
def test_format_by_name(name: str, expected: str) -> None:
    assert format_of(Path(name)) == expected


def test_a_line_of_fifty_megabytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"word " * 10_000_000 + b"\nshort\n")
    sizes = [len(line) for line in read_lines(path)]
    assert sizes == [50_000_000, 5]


def test_a_line_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 1000)
    path = tmp_path / "long.txt.gz"
    path.write_bytes(gzip.compress(b"short\n" + b"x" * 1_000_000))
    with pytest.raises(WarmstartError, match=r"long\.txt\.gz line 2 is longer than 1,000 bytes"):
        list(read_lines(path))


@pytest.mark.parametrize(
    "name", ["bomb.txt.gz", "bomb.txt.xz", "bomb.txt.bz2", "bomb.txt.zst", "bomb.parquet.gz"]
)
def test_a_bomb_is_refused_before_it_goes_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(files, "SAFE_BYTES", 100_000)
    path = tmp_path / name
    path.write_bytes(COMPRESS[path.suffix](b"x\n" * 2_000_000))
    with pytest.raises(WarmstartError, match=r"bomb.*250 times its size"):
        list(read_texts(path))


@pytest.mark.parametrize("suffix", list(filter(None, COMPRESS)))
def test_a_file_of_several_streams_is_read_to_its_end_or_refused(
    tmp_path: Path, suffix: str
) -> None:
    first, second = COMPRESS[suffix](b"one\n" * 50_000), COMPRESS[suffix](b"two\n")
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(first + second)
    assert list(read_lines(path)) == ["one"] * 50_000 + ["two"]
    path.write_bytes(first + b"?" + second[1:])
    with pytest.raises(WarmstartError, match="cannot be read"):
        list(read_lines(path))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_file_that_is_read_whole_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(files, "LARGEST_WHOLE", 1000)
    path = tmp_path / f"tokenizer.json{suffix}"
    path.write_bytes(COMPRESS[suffix](b"x" * 1000))
    assert len(read_bytes(path)) == 1000
    path.write_bytes(COMPRESS[suffix](b"x" * 1_000_000))
    with pytest.raises(WarmstartError, match=r"more than 1,000 bytes"):
        read_bytes(path)


def test_text_that_compresses_well_is_no_bomb(tmp_path: Path) -> None:
    path = tmp_path / "same.txt.gz"
    path.write_bytes(gzip.compress(b"the same line again\n" * 200_000))
    assert sum(1 for _ in read_lines(path)) == 200_000


def test_a_pipe_is_refused_where_files_are_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WarmstartError, match=r"pipe is a pipe or a device"):
        expand([str(tmp_path / "pipe")])
    with pytest.raises(WarmstartError, match=r"pipe is not a file"):
        sha256_of(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("reviws.csv", "does not exist; did you mean reviews.csv?"),
        ("Reviews.CSV", "does not exist; did you mean reviews.csv?"),
        ("data/trian.tsv", "does not exist; did you mean data/train.tsv?"),
        ("my file.tx", "does not exist; did you mean 'my file.txt'?"),
        ("dta/train.tsv", "does not exist: there is no folder dta"),
    ],
)
def test_a_missing_file_is_answered_with_names_like_it(
    path: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    for name in ("reviews.csv", "data/train.tsv", "my file.txt", "other.bin"):
        (tmp_path / name).touch()
    with contextlib.chdir(tmp_path):
        assert describe_missing(Path(path)) == said
        with pytest.raises(WarmstartError, match="does not exist"):
            expand([path])


def test_without_names_like_it_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.bin").touch()
    said = f"does not exist: there is nothing like it in {tmp_path}"
    assert describe_missing(tmp_path / "reviews.csv") == said
