"""Turn text into ids and back; own the special ids.

Adds no special token to a text, and never lets a text forge one. Knows nothing about documents,
lengths or batches.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.progress import say
from warmstart.textfiles import base_suffix, read_bytes, read_lines
from warmstart.tokenization import specials
from warmstart.tokenization.backends import Backend, LibraryBackend, Names, SentencePieceBackend
from warmstart.tokenization.vocabularies import pieces_json, train_json


class Tokenizer:
    """One vocabulary, whichever library runs it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.kind = backend.kind  # "bpe", "unigram", "pieces", "sentencepiece", "wordpiece"
        self.vocab_size = backend.vocab_size
        self.bos = backend.specials.bos
        self.eos = backend.specials.eos
        self.pad = backend.specials.pad
        self.unk = backend.specials.unk  # None: every text has pieces
        self.mask = backend.specials.mask  # None: not for masked pretraining
        marks = (self.bos, self.eos, self.pad, self.mask)
        self._marks = {mark for mark in marks if mark is not None}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of every text, without special tokens."""
        return [self._unforged(ids) for ids in self._backend.encode(texts)]

    def _unforged(self, ids: list[int]) -> list[int]:
        """Replace marks that a text spells out: some vocabularies hold `</s>` as a piece."""
        if self._marks.isdisjoint(ids):
            return ids
        safe = [self.unk if index in self._marks else index for index in ids]
        return [index for index in safe if index is not None]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, leaving out special ones."""
        return self._backend.decode([i for i in ids if i not in self._marks and i != self.unk])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return every id as a readable piece, special ones too; U+2581 stands for a space."""
        return [self._backend.piece(index) for index in ids]

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return the same to be shown: bytes that make up no character as <E3>."""
        return [self._backend.label(index) for index in ids]

    def with_mask(self) -> "Tokenizer":
        """Return this tokenizer, with a mask token at the end of its vocabulary if it has none."""
        if self.mask is not None:
            return self
        return Tokenizer(self._backend.with_mask())

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, or tokenizer.model for SentencePiece, whole or not at all.

        What its special tokens are called stands beside it, where that was told rather than found.
        """
        if self.names:
            write_json(folder / specials.FILE_NAME, specials.to_entries(self.names))
        write_whole(folder / self._backend.file_name, self._backend.content)

    @property
    def names(self) -> Names:
        """Return what special tokens are called, by role, where that was told."""
        return self._backend.names

    def suppressed_ids(self, num_rows: int) -> list[int]:
        """Return what no text has: marks but the end, and the rows a model has to spare."""
        marks = [mark for mark in (self.bos, self.pad, self.unk, self.mask) if mark is not None]
        return [mark for mark in marks if mark != self.eos] + list(range(self.vocab_size, num_rows))

    @property
    def definition(self) -> tuple[str, bytes]:
        """Return the file that defines this tokenizer: its name and its content."""
        return self._backend.file_name, self._backend.content

    @property
    def own_size(self) -> int:
        """Return how many entries stand in that file; special tokens may come after them."""
        return self._backend.own_size

    def fingerprint(self) -> str:
        """Return the SHA-256 of what defines this tokenizer."""
        told = json.dumps(dict(self.names), sort_keys=True).encode() if self.names else b""
        return hashlib.sha256(self._backend.content + told).hexdigest()


def train_tokenizer(texts: Iterable[str], kind: str = "bpe", vocab_size: int = 16000) -> Tokenizer:
    """Train on all of `texts`; too little text gives a smaller vocabulary, and says so."""
    made = Tokenizer(LibraryBackend(train_json(texts, kind, vocab_size).encode()))
    if made.vocab_size < vocab_size:
        say(f"The text gives {made.vocab_size:,} pieces only, fewer than the {vocab_size:,} asked.")
    return made


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a folder's tokenizer, a tokenizer.json, a SentencePiece model or a list of pieces."""
    names: Names = {}
    if path.is_dir():
        names = _told_names(path / specials.FILE_NAME)
        path = _inside(path)
    match base_suffix(path):
        case ".json":
            return _load(path, LibraryBackend, names)
        case ".model":
            return _load(path, SentencePieceBackend, names)
        case ".txt":
            return Tokenizer(LibraryBackend(pieces_json(read_lines(path), str(path)).encode()))
    raise WarmstartError(
        f"{path}: not a tokenizer by its name; a folder, a tokenizer.json, a SentencePiece .model "
        "or a .txt of pieces is"
    )


def _inside(folder: Path) -> Path:
    for name in (LibraryBackend.file_name, SentencePieceBackend.file_name):
        if (folder / name).is_file():
            return folder / name
    raise WarmstartError(f"{folder}: neither tokenizer.json nor tokenizer.model in this folder")


def _told_names(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    try:
        entries = json.loads(read_bytes(file))
    except (ValueError, RecursionError) as error:
        raise WarmstartError(f"{file}: not valid JSON ({error})") from None
    if not isinstance(entries, dict):
        raise WarmstartError(f"{file}: must hold a JSON object")
    return specials.parse_names(entries, file)


def _load(path: Path, backend: Callable[[bytes, Names], Backend], names: Names) -> Tokenizer:
    content = read_bytes(path)
    try:
        return Tokenizer(backend(content, names))
    except WarmstartError as error:
        raise WarmstartError(f"{path}: {error}") from None
