"""Count the instructions of every reader of files, at 1, 4 and 16 times the size.

A reader is linear: each further byte costs at most 1.2 times as much at the larger sizes. Every
count is that of a process of its own, without torch, by callgrind (Debian's package valgrind).
`python benchmarks/readers.py [NAME ...]` prints a table and fails if a reader is not linear.
"""

import argparse
import bz2
import gzip
import io
import json
import lzma
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from measuring import count_instructions

SIZES = (1, 4, 16)
MOST_GROWTH = 1.2  # of the cost of a byte
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Reader:
    """A reader, and files of any size for it."""

    suffix: str
    make: Callable[[int], bytes]  # a file of `SIZES` times its first size
    read: Callable[[Path], Any]


def main() -> None:
    """Measure the readers that are named, or all of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=", ".join(READERS))
    parser.add_argument("--read", metavar="FILE", help="read one file in this process")
    options = parser.parse_args()
    if options.read:
        read_file(READERS[options.names[0]], Path(options.read))
        return
    print(f"{'reader':22}{'bytes':>12}{'instructions per byte, 4 and 16 times':>40}{'growth':>9}")
    growths = [measure(name) for name in options.names or READERS]
    if max(growths) > MOST_GROWTH:
        sys.exit(f"a reader grows {max(growths):.2f} times linearly")


def measure(name: str) -> float:
    """Print and return how much more a byte costs at 16 times the size than at 4 times."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{size}{READERS[name].suffix}") for size in SIZES]
        for size, file in zip(SIZES, files, strict=True):
            file.write_bytes(READERS[name].make(size))
        sizes = [file.stat().st_size for file in files]
        counts = [count_instructions([__file__, name, "--read", str(file)]) for file in files]
    # Differences leave out what a process does before it reads.
    small = (counts[1] - counts[0]) / (SIZES[1] - SIZES[0])
    large = (counts[2] - counts[1]) / (SIZES[2] - SIZES[1])
    costs = [cost * SIZES[2] / sizes[2] for cost in (small, large)]
    print(
        f"{name:22}{sizes[2]:12,}{costs[0]:26,.1f}{costs[1]:14,.1f}{large / small:9.2f}", flush=True
    )
    return large / small


def read_file(reader: Reader, file: Path) -> None:
    """Read one file; a refusal is an end like any other."""
    from warmstart.errors import WarmstartError

    with suppress(WarmstartError):
        reader.read(file)
    assert "torch" not in sys.modules


def words(number: int, seed: int = 1) -> list[str]:
    """Return words that differ."""
    chosen = []
    for _ in range(number):
        seed = seed * 1103515245 + 12345 & 0x7FFFFFFF
        length = 2 + seed % 7
        chosen.append("".join(LETTERS[(seed >> shift) % 26] for shift in range(length)))
    return chosen


def texts(number: int) -> list[str]:
    """Return texts of a few words."""
    drawn = words(8 * number)
    return [" ".join(drawn[8 * n : 8 * n + 8]) for n in range(number)]


def lines(size: int) -> bytes:
    """Return plain text."""
    return "\n".join(texts(600 * size)).encode()


def fields(size: int, delimiter: str = ",") -> bytes:
    """Return a table of quoted texts and labels."""
    rows = (f'"{text} ""{n}"""{delimiter}{n % 2}' for n, text in enumerate(texts(1000 * size)))
    return "\n".join((f"text{delimiter}label", *rows)).encode()


def wide_fields(size: int) -> bytes:
    """Return a table of many columns."""
    names = [f"{word}{n}" for n, word in enumerate(words(900 * size))]
    return "\n".join(
        [",".join(["text", "label", *names]), ",".join("a" * (len(names) + 2))]
    ).encode()


def quotes(size: int) -> bytes:
    """Return a field of doubled quotes that does not end."""
    return b'text\tlabel\n"' + b'""' * 10_000 * size + b"x\ta\n"


def records(size: int) -> bytes:
    """Return JSON lines."""
    rows = ({"text": text, "label": n % 2} for n, text in enumerate(texts(1000 * size)))
    return "\n".join(map(json.dumps, rows)).encode()


def own_keys(size: int) -> bytes:
    """Return JSON lines whose keys differ from row to row."""
    rows = (
        {"text": "a b c", "label": n % 2, **{f"{n} {k}": 1 for k in range(30)}}
        for n in range(33 * size)
    )
    return "\n".join(map(json.dumps, rows)).encode()


def repeated_key(size: int) -> bytes:
    """Return a JSON object of many keys, one of them twice."""
    keys = ", ".join(f'"k{n}": 1' for n in range(1000 * size))
    return f'{{{keys}, "k{1000 * size - 1}": 2}}\n'.encode()


def parquet(size: int) -> bytes:
    """Return a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    drawn = texts(1000 * size)
    table = pa.table({"text": drawn, "label": [n % 2 for n in range(len(drawn))]})
    pq.write_table(table, stream, compression="none", use_dictionary=False)
    return stream.getvalue()


def wide_parquet(size: int) -> bytes:
    """Return a Parquet file of many columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(pa.table({f"{n}": ["a"] for n in range(150 * size)}), stream)
    return stream.getvalue()


def workbook(size: int) -> bytes:
    """Return a workbook."""
    import xlsxwriter

    stream = io.BytesIO()
    with xlsxwriter.Workbook(stream) as book:
        sheet = book.add_worksheet()
        for n, text in enumerate(texts(200 * size)):
            sheet.write_row(n, 0, (text, n % 2))
    return stream.getvalue()


def json_object(size: int) -> bytes:
    """Return a JSON file of many numbers."""
    return json.dumps({"values": list(range(1000 * size))}).encode()


def bpe(size: int) -> bytes:
    """Return a tokenizer.json with merges."""
    pairs = [(a, b) for a in map(chr, range(256, 456)) for b in map(chr, range(256, 456))][
        : 400 * size
    ]
    pieces = ["<s>", "</s>", "<pad>", *map(chr, range(256, 456)), *map("".join, pairs)]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    return json.dumps(
        {"version": "1.0", "model": {"type": "BPE", "vocab": vocab, "merges": pairs}}
    ).encode()


def sentencepiece(size: int) -> bytes:
    """Return a SentencePiece model."""
    model = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    model.pieces.add(piece="<unk>", score=0.0, type=2)
    for n, word in enumerate(words(400 * size)):
        model.pieces.add(piece=f"{word}{n}", score=-float(n), type=1)
    model.trainer_spec.vocab_size = len(model.pieces)
    model.normalizer_spec.name = "identity"
    content: bytes = model.SerializeToString()
    return content


def pieces(size: int) -> bytes:
    """Return a list of pieces."""
    return "\n".join(f"{word}{n}" for n, word in enumerate(words(400 * size))).encode()


def zst(content: bytes) -> bytes:
    """Compress with Zstandard."""
    import pyarrow as pa

    return bytes(pa.Codec("zstd").compress(content, asbytes=True))


def read_lines(path: Path, encoding: str = "utf-8") -> None:
    """Read lines."""
    from warmstart.textfiles import read_lines

    exhaust(read_lines(path, encoding))


def read_table(path: Path) -> None:
    """Read the rows of a table."""
    from warmstart.data.tables import open_table

    exhaust(open_table(path, roles=("text", "label")).rows())


def read_sheet(path: Path) -> None:
    """Read a workbook in this process, where its instructions are counted."""
    from warmstart.data import workbooks

    with path.open("rb") as stream:
        exhaust(workbooks._first_sheet(stream, 1 << 40))


def read_documents(path: Path) -> None:
    """Read plain text as documents."""
    from warmstart.data.corpus import read_passages

    exhaust(read_passages(path, "auto"))


def read_pairs(path: Path) -> None:
    """Read two aligned files, which are the same."""
    from warmstart.data.pairs import read_aligned

    read_aligned(path, path)


def read_json(path: Path) -> None:
    """Read a JSON object with its types."""
    from warmstart.jsonfiles import from_json, read_object

    from_json(dict[str, list[int]], read_object(path), path)


def read_tokenizer(path: Path) -> None:
    """Load a tokenizer."""
    from warmstart.tokenization.backends import load_tokenizer

    load_tokenizer(path)


def exhaust(rows: Iterable[object]) -> None:
    """Read to the end."""
    for _ in rows:
        pass


READERS = {
    "lines": Reader(".txt", lines, read_lines),
    "lines, one": Reader(".txt", lambda size: lines(8 * size).replace(b"\n", b" "), read_lines),
    "lines, UTF-16": Reader(
        ".txt",
        lambda size: lines(size).decode().encode("utf-16"),
        partial(read_lines, encoding="utf-16"),
    ),
    "lines, gzip": Reader(".txt.gz", lambda size: gzip.compress(lines(size)), read_lines),
    "lines, xz": Reader(".txt.xz", lambda size: lzma.compress(lines(size)), read_lines),
    "lines, bzip2": Reader(".txt.bz2", lambda size: bz2.compress(lines(size)), read_lines),
    "lines, zstd": Reader(".txt.zst", lambda size: zst(lines(8 * size)), read_lines),
    "documents": Reader(".txt", lines, read_documents),
    "aligned pairs": Reader(".txt", lines, read_pairs),
    "csv": Reader(".csv", fields, read_table),
    "csv, wide": Reader(".csv", wide_fields, read_table),
    "tsv": Reader(".tsv", partial(fields, delimiter="\t"), read_table),
    "tsv, quotes": Reader(".tsv", quotes, read_table),
    "jsonl": Reader(".jsonl", records, read_table),
    "jsonl, own keys": Reader(".jsonl", own_keys, read_table),
    "jsonl, repeated key": Reader(".jsonl", repeated_key, read_table),
    "parquet": Reader(".parquet", parquet, read_table),
    "parquet, wide": Reader(".parquet", wide_parquet, read_table),
    "workbook": Reader(".xlsx", workbook, read_sheet),
    "JSON object": Reader(".json", json_object, read_json),
    "tokenizer.json": Reader(".json", bpe, read_tokenizer),
    "SentencePiece": Reader(".model", sentencepiece, read_tokenizer),
    "list of pieces": Reader(".txt", pieces, read_tokenizer),
}


if __name__ == "__main__":
    main()
