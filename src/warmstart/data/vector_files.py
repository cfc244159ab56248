"""Write vectors to .npy, .npz, .jsonl or .parquet files, as a stream, whole or not at all.

No format uses pickle.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError
from warmstart.files import whole_file
from warmstart.jsonfiles import to_json

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
        return to_json(record)


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
    writer = {".npy": _arrays, ".npz": _arrays, ".jsonl": _jsonl, ".parquet": _parquet}
    with whole_file(path) as file, writer[path.suffix.lower()](file, width, is_tokens) as add:
        yield add


@contextmanager
def _arrays(stream: BinaryIO, width: int, is_tokens: bool) -> Iterator[Add]:
    """Write one array of vectors, or the arrays `vectors`, `ids` and `offsets` of all tokens.

    The tokens of text i are offsets[i] to offsets[i + 1].
    """
    num_tokens = [0]  # of each text
    with TemporaryFile() as vectors, TemporaryFile() as ids:

        def add(texts: Sequence[TextVectors]) -> None:
            for text in texts:
                vectors.write(text.vectors.astype("<f4").tobytes())
                ids.write(np.array(text.ids or (), "<i8").tobytes())
                num_tokens.append(len(text.ids or ()))

        yield add
        array = _mapped(vectors, "<f4").reshape(-1, width)
        if is_tokens:
            np.savez(stream, vectors=array, ids=_mapped(ids, "<i8"), offsets=np.cumsum(num_tokens))
        else:
            np.save(stream, array)


def _mapped(file: IO[bytes], dtype: str) -> NDArray[Any]:
    file.flush()
    return np.memmap(file, dtype, "r") if file.tell() else np.empty(0, dtype)


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
