"""Encode text to ids and decode ids to text.

No special token is added, and no text can produce one.
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
    """One vocabulary, independent of the library behind it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.kind = backend.kind  # "bpe", "unigram", "pieces", "sentencepiece", "wordpiece"
        self.vocab_size = backend.vocab_size
        self.bos = backend.specials.bos
        self.eos = backend.specials.eos
        self.pad = backend.specials.pad
        self.unk = backend.specials.unk  # None: the vocabulary covers every text
        self.mask = backend.specials.mask  # None: no masked pretraining
        self._specials = {self.bos, self.eos, self.pad, self.mask} - {None}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of every text, without special tokens."""
        return [self._without_specials(ids) for ids in self._backend.encode(texts)]

    def _without_specials(self, ids: list[int]) -> list[int]:
        """Replace special ids that a text spells out: some vocabularies have the piece `</s>`."""
        if self._specials.isdisjoint(ids):
            return ids
        safe = [self.unk if index in self._specials else index for index in ids]
        return [index for index in safe if index is not None]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids without the special ones."""
        return self._backend.decode([i for i in ids if i not in self._specials and i != self.unk])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return every id, special ones included, as a piece with U+2581 for a space."""
        return [self._backend.piece(index) for index in ids]

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces for display: bytes that form no character as <E3>."""
        return [self._backend.label(index) for index in ids]

    def with_mask(self) -> "Tokenizer":
        """Return this tokenizer, with a mask token at the end of its vocabulary if it has none."""
        if self.mask is not None:
            return self
        return Tokenizer(self._backend.with_mask())

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, or tokenizer.model for SentencePiece, whole or not at all.

        Names of special tokens that were given explicitly are written to a file beside it.
        """
        if self.names:
            write_json(folder / specials.FILE_NAME, specials.to_entries(self.names))
        write_whole(folder / self._backend.file_name, self._backend.content)

    @property
    def names(self) -> Names:
        """Return the names of special tokens, by role, that were given explicitly."""
        return self._backend.names

    def suppressed_ids(self, num_rows: int) -> list[int]:
        """Return the ids that generated text never contains.

        These are the special ids except eos, and the rows of a model beyond the vocabulary.
        """
        specials = (self.bos, self.pad, self.unk, self.mask)
        special_ids = [i for i in specials if i is not None and i != self.eos]
        return [*special_ids, *range(self.vocab_size, num_rows)]

    @property
    def definition(self) -> tuple[str, bytes]:
        """Return the name and the content of the file that defines this tokenizer."""
        return self._backend.file_name, self._backend.content

    @property
    def own_size(self) -> int:
        """Return the number of entries in that file; special tokens may follow them."""
        return self._backend.own_size

    def fingerprint(self) -> str:
        """Return the SHA-256 of what defines this tokenizer."""
        names = json.dumps(dict(self.names), sort_keys=True).encode() if self.names else b""
        return hashlib.sha256(self._backend.content + names).hexdigest()


def train_tokenizer(texts: Iterable[str], kind: str = "bpe", vocab_size: int = 16000) -> Tokenizer:
    """Train on all of `texts`; report when too little text gives a smaller vocabulary."""
    tokenizer = Tokenizer(LibraryBackend(train_json(texts, kind, vocab_size).encode()))
    if tokenizer.vocab_size < vocab_size:
        num = tokenizer.vocab_size
        say(f"The text gives only {num:,} pieces, fewer than the {vocab_size:,} requested.")
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer: a folder, a tokenizer.json, a SentencePiece model or a list of pieces."""
    names: Names = {}
    if path.is_dir():
        names = _read_names(path / specials.FILE_NAME)
        path = _definition_file(path)
    match base_suffix(path):
        case ".json":
            return _load(path, LibraryBackend, names)
        case ".model":
            return _load(path, SentencePieceBackend, names)
        case ".txt":
            return Tokenizer(LibraryBackend(pieces_json(read_lines(path), str(path)).encode()))
    raise WarmstartError(
        f"{path}: not a tokenizer by its name; give a folder, a tokenizer.json, a SentencePiece "
        ".model or a .txt of pieces"
    )


def _definition_file(folder: Path) -> Path:
    for name in (LibraryBackend.file_name, SentencePieceBackend.file_name):
        if (folder / name).is_file():
            return folder / name
    raise WarmstartError(f"{folder}: neither tokenizer.json nor tokenizer.model in this folder")


def _read_names(file: Path) -> dict[str, str]:
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
