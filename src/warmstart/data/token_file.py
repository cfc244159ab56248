"""Token files: encode passages, write their ids with an index, read them through memory maps."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO, Literal, Self

import numpy as np
from numpy.typing import NDArray

from warmstart.data.corpus import Passage, cut_chunks, map_ahead
from warmstart.data.sentences import SentenceFinder
from warmstart.errors import WarmstartError
from warmstart.jsonfiles import from_json, read_object
from warmstart.tokenization.tokenizer import Tokenizer

Ints = NDArray[np.int64]
CHUNK_CHARS = 1 << 20  # encoded together
Ids = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class EncodedPassage:
    """The tokens of a passage."""

    ids: list[int]
    document: int  # number of its document in the source, from 1
    num_bytes: int  # including line ends
    starts: Ints  # where its sentences start; empty without a sentence finder


def encode(
    passages: Iterable[Passage],
    tokenizer: Tokenizer,
    finder: SentenceFinder | None,
    document: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> Iterator[tuple[Passage, EncodedPassage]]:
    """Yield every passage with its tokens; `document` documents began before the first.

    `advance` is called with the bytes of text that were encoded.
    """
    chunks = cut_chunks(passages, CHUNK_CHARS, attrgetter("num_chars"))
    # The library encodes on all cores, and Python reads the next chunk meanwhile.
    for chunk, encoded in map_ahead(chunks, lambda c: encode_passages(c, tokenizer, finder)):
        sizes = [passage.num_bytes for passage in chunk]
        for passage, size, ids, starts in zip(chunk, sizes, *encoded, strict=True):
            document += not passage.continues
            yield passage, EncodedPassage(ids, document, size, starts)
        advance(sum(sizes))


def encode_passages(
    passages: Sequence[Passage], tokenizer: Tokenizer, finder: SentenceFinder | None
) -> tuple[list[list[int]], list[Ints]]:
    """Return the ids of passages, and where in each of them sentences start."""
    keeps_lines = finder is None or finder.keeps_lines
    texts = [("\n".join(p.rows),) if keeps_lines else p.rows for p in passages]
    encoded = tokenizer.encode(list(chain.from_iterable(texts)))
    if finder is None:
        return encoded, [np.empty(0, np.int64)] * len(passages)
    flat = np.fromiter(chain.from_iterable(encoded), np.int64)
    ends = finder.find(flat, [len(ids) for ids in encoded])
    remaining, starts, offset = iter(encoded), [], 0
    joined = [list(chain.from_iterable(islice(remaining, len(parts)))) for parts in texts]
    for ids in joined:
        inside = np.flatnonzero(ends[offset : offset + max(0, len(ids) - 1)]) + 1
        starts.append(np.append(0, inside)[: len(ids)])
        offset += len(ids)
    return joined, starts


class TokenWriter:
    """Appends ids to a new token file, which is complete once closed without an error."""

    def __init__(self, path: Path, vocab_size: int) -> None:
        self.path = path
        self.dtype = np.dtype(np.uint16 if vocab_size <= 2**16 else np.uint32)
        self.num_tokens = 0
        self.num_bytes = 0
        self._file = open(path, "xb", buffering=1 << 20)  # noqa: SIM115 (closed in __exit__)

    def write(self, ids: list[int], num_bytes: int = 0) -> None:
        """Append the ids of `num_bytes` bytes of text."""
        self._file.write(np.asarray(ids, dtype=self.dtype).tobytes())
        self.num_tokens += len(ids)
        self.num_bytes += num_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        _close(self._file, error)
        if error is None:
            _write_facts(self.path, self.dtype.name, self.num_tokens, self.num_bytes)


class DocumentWriter(TokenWriter):
    """Appends documents, each between its first and last special token, and indexes sentences."""

    def __init__(self, path: Path, tokenizer: Tokenizer, has_index: bool) -> None:
        super().__init__(path, tokenizer.vocab_size)
        self._bos, self._eos = tokenizer.bos, tokenizer.eos
        paths = _index_paths(path) if has_index else ()
        self._index = [path.open("xb", buffering=1 << 20) for path in paths]
        self._document: int | None = None  # number of the open document
        self._start = self._first_sentence = self._num_sentences = 0  # of the open document; in all

    def add(self, passage: EncodedPassage, continues: bool) -> None:
        """Append a passage to the open document, or open a new one."""
        if not continues or self._document is None:
            self.end_document()
            self.write([self._bos])
            self._document = passage.document
            self._start, self._first_sentence = self.num_tokens, self._num_sentences
        if self._index:
            self._index[0].write((self.num_tokens + passage.starts).tobytes())
            self._num_sentences += len(passage.starts)
        self.write(passage.ids, passage.num_bytes)

    def end_document(self) -> None:
        """End the open document, if there is one."""
        if self._document is None:
            return
        if self._num_sentences > self._first_sentence:
            sentences = (self._first_sentence, self._num_sentences)
            part = np.array([self._start, self.num_tokens, *sentences, self._document], np.int64)
            self._index[1].write(part.tobytes())
        self.write([self._eos])
        self._document = None

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.end_document()
        for file in self._index:
            _close(file, error)
        super().__exit__(error)


def join_token_files(parts: Sequence[Path], path: Path) -> None:
    """Write one token file with the documents of several, and one index if they have any."""
    facts = [_read_facts(part) for part in parts]
    with path.open("xb") as joined:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, joined, 1 << 20)
    _write_facts(path, facts[0].dtype, sum(f.tokens for f in facts), sum(f.bytes for f in facts))
    if _index_paths(parts[0])[0].exists():
        _join_indices(parts, [f.tokens for f in facts], path)


def _join_indices(parts: Sequence[Path], sizes: Sequence[int], path: Path) -> None:
    """Write one index: positions count the tokens and the sentences of all parts."""
    num_tokens = num_sentences = 0
    with ExitStack() as stack:
        starts, rows = (stack.enter_context(file.open("xb")) for file in _index_paths(path))
        for part, size in zip(parts, sizes, strict=True):
            own_starts, own_rows = (np.fromfile(file, np.int64) for file in _index_paths(part))
            starts.write((own_starts + num_tokens).tobytes())
            offsets = [num_tokens, num_tokens, num_sentences, num_sentences, 0]
            rows.write((own_rows.reshape(-1, 5) + np.array(offsets)).tobytes())
            num_tokens += size
            num_sentences += len(own_starts)


def _write_facts(path: Path, dtype: str, num_tokens: int, num_bytes: int) -> None:
    facts = {"dtype": dtype, "tokens": num_tokens, "bytes": num_bytes}
    with path.with_suffix(".json").open("x", encoding="utf-8") as file:
        json.dump(facts, file)


def _close(file: BinaryIO, error: type[BaseException] | None) -> None:
    """Close a file; a disk too full for its last bytes does not hide an error before it."""
    with suppress(*([OSError] if error else [])):
        file.close()


@dataclass(frozen=True, kw_only=True)
class _TokenFacts:
    dtype: Literal["uint16", "uint32"]
    tokens: int
    bytes: int


def _read_facts(path: Path) -> _TokenFacts:
    file = path.with_suffix(".json")
    return from_json(_TokenFacts, read_object(file), file)


class TokenFile:
    """A finished token file, mapped into memory."""

    def __init__(self, path: Path) -> None:
        facts = _read_facts(path)
        self.num_tokens, self.num_bytes = facts.tokens, facts.bytes
        dtype = np.dtype(facts.dtype)
        if path.stat().st_size != self.num_tokens * dtype.itemsize:
            raise WarmstartError(f"{path} does not hold the {self.num_tokens} tokens it should")
        self.ids: Ids = np.memmap(path, dtype, mode="r") if self.num_tokens else np.empty(0, dtype)


class SentenceFile:
    """The documents and sentences of a token file."""

    def __init__(self, tokens: Path) -> None:
        sentences, parts = _index_paths(tokens)
        is_empty = not sentences.stat().st_size
        # (S,) first token of every sentence
        self.starts: Ints = (
            np.empty(0, np.int64) if is_empty else np.memmap(sentences, np.int64, "r")
        )
        rows = np.fromfile(parts, np.int64).reshape(-1, 5)
        if len(rows) and rows[-1, 3] != len(self.starts):
            raise WarmstartError(f"{sentences} does not hold the sentences that {parts} lists")
        columns = rows.T.copy()  # (5, P), contiguous
        self.part_starts, self.part_ends = columns[:2]  # tokens of every part, without bos and eos
        self.first_sentences, self.stop_sentences = columns[2:4]
        self.documents = columns[4]  # number of every part's document

    @property
    def num_documents(self) -> int:
        """Return the number of documents, not of their parts."""
        return len(np.unique(self.documents))

    @property
    def has_pairs(self) -> bool:
        """Tell whether positive and negative next-sentence pairs can be drawn."""
        return self.num_documents > 1 and self.has_positive_pairs

    @property
    def has_positive_pairs(self) -> bool:
        """Tell whether any part has two sentences."""
        return bool((self.stop_sentences - self.first_sentences > 1).any())


def _index_paths(tokens: Path) -> tuple[Path, Path]:
    return tokens.with_suffix(".sentences"), tokens.with_suffix(".documents")
