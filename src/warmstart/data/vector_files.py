"""Vectors -> .npy, .npz, .jsonl or .parquet, a few texts at a time, whole or not at all.

No format here needs a pickle. Knows nothing about models.
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError
from warmstart.files import whole_file

TEXT_FORMATS = (".npy", ".jsonl", ".parquet")
TOKEN_FORMATS = (".npz", ".jsonl", ".parquet")


@dataclass(frozen=True)
class TextVectors:
    """A text with its vector (D,), or with a vector for each of its tokens (T, D)."""

    text: str
    vectors: NDArray[np.float32]
    ids: tuple[int, ...] | None = None  # of the tokens; None: one vector for the text
    tokens: tuple[str, ...] | None = None  # the same, readable

    def to_json(self) -> str:
        """Return one line of JSON; nine digits hold all of a float32."""
        numbers = [float(f"{number:.9g}") for number in self.vectors.ravel().tolist()]
        if self.tokens is None:
            record: dict[str, Any] = {"text": self.text, "vector": numbers}
        else:
            width = self.vectors.shape[1]
            rows = [numbers[i : i + width] for i in range(0, len(numbers), width)]
            record = {"text": self.text, "tokens": self.tokens, "vectors": rows}
        return json.dumps(record, ensure_ascii=False)


Add = Callable[[Sequence[TextVectors]], None]


def check_name(path: Path, is_tokens: bool) -> None:
    """Refuse a name that says no format, or one that cannot hold these vectors."""
    allowed = TOKEN_FORMATS if is_tokens else TEXT_FORMATS
    if path.suffix.lower() not in allowed:
        what = "vectors of tokens" if is_tokens else "one vector a text"
        raise WarmstartError(f"-o {path}: {what} go into {' '.join(allowed)}, by the name's end")
    if path.is_dir():
        raise WarmstartError(f"-o {path} is a folder; name a file")


@contextmanager
def writing(path: Path, width: int, is_tokens: bool) -> Iterator[Add]:
    """Yield a function that takes vectors; the file appears when all are written."""
    check_name(path, is_tokens)
    writer = {".npy": _npy, ".npz": _npz, ".jsonl": _jsonl, ".parquet": _parquet}
    with whole_file(path) as file, writer[path.suffix.lower()](file, width, is_tokens) as add:
        yield add


_HEADER_BYTES = 128


class _Array:
    """A .npy file that grows: its header is written last, into room kept for it."""

    def __init__(self, stream: BinaryIO, dtype: str, width: int | None = None) -> None:
        self.stream, self.dtype, self.width, self.rows = stream, np.dtype(dtype), width, 0
        stream.write(bytes(_HEADER_BYTES))

    def add(self, values: NDArray[Any]) -> None:
        self.stream.write(np.ascontiguousarray(values, self.dtype).tobytes())
        self.rows += len(values)

    def close(self) -> None:
        shape = (self.rows,) if self.width is None else (self.rows, self.width)
        fields = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        prefix = b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
        padded = repr(fields).ljust(_HEADER_BYTES - len(prefix) - 1) + "\n"
        self.stream.seek(0)
        self.stream.write(prefix + padded.encode("latin-1"))


@contextmanager
def _npy(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    array = _Array(stream, "<f4", width)
    yield lambda found: array.add(np.array([one.vectors for one in found]).reshape(-1, width))
    array.close()


@contextmanager
def _npz(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    """Write `vectors` and `ids` of all tokens, and `offsets`: text i has those from i to i + 1."""
    with TemporaryDirectory() as folder, ExitStack() as opened:
        kinds: dict[str, tuple[str, int | None]] = {
            "vectors": ("<f4", width),
            "ids": ("<i8", None),
            "offsets": ("<i8", None),
        }
        arrays = {
            name: _Array(
                cast(BinaryIO, opened.enter_context((Path(folder) / f"{name}.npy").open("wb"))),
                *kind,
            )
            for name, kind in kinds.items()
        }
        arrays["offsets"].add(np.zeros(1, np.int64))

        def add(found: Sequence[TextVectors]) -> None:
            for one in found:
                arrays["vectors"].add(one.vectors)
                arrays["ids"].add(np.array(one.ids, np.int64))
                arrays["offsets"].add(np.array([arrays["ids"].rows], np.int64))

        yield add
        for array in arrays.values():
            array.close()
        opened.close()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            for name in kinds:
                archive.write(Path(folder) / f"{name}.npy", f"{name}.npy")


@contextmanager
def _jsonl(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    yield lambda found: stream.writelines(f"{one.to_json()}\n".encode() for one in found)


@contextmanager
def _parquet(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    """Write a row for each text (`text`, `vector`) or each token (`row`, `token`, `vector`)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    vector = pa.list_(pa.float32(), width)
    text_fields = [("text", pa.string()), ("vector", vector)]
    token_fields = [("row", pa.int64()), ("token", pa.string()), ("vector", vector)]
    schema = pa.schema(token_fields if is_tokens else text_fields)
    num_texts = 0
    with pq.ParquetWriter(stream, schema) as file:

        def add(found: Sequence[TextVectors]) -> None:
            nonlocal num_texts
            flat = np.concatenate([one.vectors.ravel() for one in found])
            columns: list[Any] = [pa.FixedSizeListArray.from_arrays(pa.array(flat), width)]
            if is_tokens:
                sizes = [len(one.tokens or ()) for one in found]
                rows = np.repeat(np.arange(num_texts, num_texts + len(found)), sizes)
                tokens = [token for one in found for token in one.tokens or ()]
                columns = [pa.array(rows), pa.array(tokens, pa.string()), *columns]
            else:
                columns = [pa.array([one.text for one in found], pa.string()), *columns]
            num_texts += len(found)
            file.write_table(pa.Table.from_arrays(columns, schema=schema))

        yield add
