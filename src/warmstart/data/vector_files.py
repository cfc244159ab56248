"""Write vectors to .npy, .npz, .jsonl or .parquet files, as a stream, whole or not at all.

No format uses pickle.
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import header_data_from_array_1_0, write_array_header_1_0
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
    tokens: tuple[str, ...] | None = None  # the readable tokens

    def to_json(self) -> str:
        """Return one line of JSON; nine digits represent a float32 exactly."""
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
    """Refuse a file name whose format cannot hold these vectors."""
    allowed = TOKEN_FORMATS if is_tokens else TEXT_FORMATS
    if path.suffix.lower() not in allowed:
        vectors = "token vectors are" if is_tokens else "one vector per text is"
        raise WarmstartError(f"-o {path}: {vectors} written to {' '.join(allowed)} files")
    if path.is_dir():
        raise WarmstartError(f"-o {path} is a folder; name a file")


@contextmanager
def writing(path: Path, width: int, is_tokens: bool) -> Iterator[Add]:
    """Yield a function that adds vectors; the file appears when all are written."""
    check_name(path, is_tokens)
    writer = {".npy": _npy, ".npz": _npz, ".jsonl": _jsonl, ".parquet": _parquet}
    with whole_file(path) as file, writer[path.suffix.lower()](file, width, is_tokens) as add:
        yield add


class _GrowingArray:
    """A .npy file that grows; numpy leaves room in the header for the final number of rows."""

    def __init__(self, stream: BinaryIO, empty: NDArray[Any]) -> None:
        self.stream, self.dtype, self.num_rows = stream, empty.dtype, 0
        self.header = header_data_from_array_1_0(empty)
        write_array_header_1_0(stream, self.header)

    def add(self, values: NDArray[Any]) -> None:
        self.stream.write(np.ascontiguousarray(values, self.dtype).tobytes())
        self.num_rows += len(values)

    def close(self) -> None:
        self.stream.seek(0)
        shape = (self.num_rows, *self.header["shape"][1:])
        write_array_header_1_0(self.stream, {**self.header, "shape": shape})


@contextmanager
def _npy(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    array = _GrowingArray(stream, np.empty((0, width), "<f4"))
    yield lambda texts: array.add(np.array([text.vectors for text in texts]).reshape(-1, width))
    array.close()


@contextmanager
def _npz(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    """Write `vectors` and `ids` of all tokens; those of text i are offsets[i] to offsets[i + 1]."""
    empty = {
        "vectors": np.empty((0, width), "<f4"),
        "ids": np.empty(0, "<i8"),
        "offsets": np.empty(0, "<i8"),
    }
    with TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.npy" for name in empty}
        with ExitStack() as files:
            vectors, ids, offsets = (
                _GrowingArray(files.enter_context(paths[name].open("wb")), array)
                for name, array in empty.items()
            )
            offsets.add(np.zeros(1))

            def add(texts: Sequence[TextVectors]) -> None:
                for text in texts:
                    vectors.add(text.vectors)
                    ids.add(np.array(text.ids))
                    offsets.add(np.array([ids.num_rows]))

            yield add
            for array in (vectors, ids, offsets):
                array.close()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            for path in paths.values():
                archive.write(path, path.name)


@contextmanager
def _jsonl(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    yield lambda texts: stream.writelines(f"{text.to_json()}\n".encode() for text in texts)


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

        def add(texts: Sequence[TextVectors]) -> None:
            nonlocal num_texts
            flat = np.concatenate([text.vectors.ravel() for text in texts])
            columns: list[Any] = [pa.FixedSizeListArray.from_arrays(pa.array(flat), width)]
            if is_tokens:
                sizes = [len(text.tokens or ()) for text in texts]
                rows = np.repeat(np.arange(num_texts, num_texts + len(texts)), sizes)
                tokens = [token for text in texts for token in text.tokens or ()]
                columns = [pa.array(rows), pa.array(tokens, pa.string()), *columns]
            else:
                columns = [pa.array([text.text for text in texts], pa.string()), *columns]
            num_texts += len(texts)
            file.write_table(pa.Table.from_arrays(columns, schema=schema))

        yield add
