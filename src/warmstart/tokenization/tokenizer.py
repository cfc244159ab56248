"""Encode text to ids and decode ids to text, by any vocabulary.

No special token is added, and no text can produce one. backends.py has the two kinds of tokenizer.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.jsonfiles import show

Names = Mapping[str, str]  # of special tokens, by role: bos, eos, pad, unk, mask
SPACE_MARK = "▁"  # how a piece writes a space
SPECIALS_FILE = "special_tokens_map.json"
START_KEY = "add_bos_token"
# The likeliest name comes first; it is also the name of a token that has to be added.
USUAL = {
    "bos": ("<s>", "[CLS]", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("</s>", "[SEP]", "<|end_of_text|>", "<eos>", "<|endoftext|>"),
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|finetune_right_pad_id|>"),
    "unk": ("<unk>", "[UNK]"),
    "mask": ("<mask>", "[MASK]"),
}
# `cls` and `sep` take precedence over bos and eos where a vocabulary has both.
_KEYS = {
    "bos": ("cls_token", "bos_token"),
    "eos": ("sep_token", "eos_token"),
    "pad": ("pad_token",),
    "unk": ("unk_token",),
    "mask": ("mask_token",),
}


class Tokenizer(ABC):
    """One vocabulary, and the file that defines it."""

    file_name: ClassVar[str]  # of the file that defines the vocabulary
    content: bytes  # of that file
    kind: str  # "bpe", "unigram", "pieces", "sentencepiece", "wordpiece"
    vocab_size: int
    own_size: int  # entries in the file; special tokens may follow them
    bos: int
    eos: int
    pad: int
    unk: int | None  # None: the vocabulary covers every text
    mask: int | None  # None: no masked pretraining

    def __init__(self, content: bytes, names: Names | None = None, has_start: bool = True) -> None:
        self.content = content
        self.has_start = has_start  # False: no token begins what a model reads
        self.names: Names = dict(names or {})  # of special tokens that were named explicitly

    def __reduce__(self) -> tuple[type[Self], tuple[bytes, Names, bool]]:
        """Send what defines this tokenizer to another process: libraries forget settings."""
        return type(self), (self.content, self.names, self.has_start)

    @property
    def start(self) -> list[int]:
        """Return the ids that begin what a model reads: bos, or nothing."""
        return [self.bos] if self.has_start else []

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of every text, without special tokens."""
        specials = {self.bos, self.eos, self.pad, self.mask}
        encoded = self._encode(list(texts))
        for row, ids in enumerate(encoded):
            if not specials.isdisjoint(ids):  # some vocabularies have the piece `</s>`
                safe = (self.unk if index in specials else index for index in ids)
                encoded[row] = [index for index in safe if index is not None]
        return encoded

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids without the special ones."""
        specials = {self.bos, self.eos, self.pad, self.mask, self.unk}
        return self._decode([index for index in ids if index not in specials])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return every id, special ones included, as a piece with U+2581 for a space."""
        return [self._piece(index) for index in ids]

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces for display: bytes that form no character as <E3>."""
        return [self._label(index) for index in ids]

    def with_mask(self) -> Self:
        """Return this tokenizer, with a mask token at the end of its vocabulary if it has none."""
        return self if self.mask is not None else self._add_mask(USUAL["mask"][0])

    def suppressed_ids(self, num_rows: int) -> list[int]:
        """Return the ids that generated text never contains.

        These are the special ids except eos, and the rows of a model beyond the vocabulary.
        """
        ids = (self.bos, self.pad, self.unk, self.mask)
        special_ids = [i for i in ids if i is not None and i != self.eos]
        return [*special_ids, *range(self.vocab_size, num_rows)]

    def save(self, folder: Path) -> None:
        """Write tokenizer.json, or tokenizer.model for SentencePiece, whole or not at all.

        Explicit names of special tokens are written to a file beside it.
        """
        if self.names:
            entries = to_entries(self.names, self.has_start)
            write_json(folder / SPECIALS_FILE, entries)
        write_whole(folder / self.file_name, self.content)

    def fingerprint(self) -> str:
        """Return the SHA-256 of what defines this tokenizer."""
        entries = dict(self.names) if self.has_start else {**self.names, "start": ""}
        names = json.dumps(entries, sort_keys=True).encode() if self.names else b""
        return hashlib.sha256(self.content + names).hexdigest()

    @abstractmethod
    def _encode(self, texts: list[str]) -> list[list[int]]: ...

    @abstractmethod
    def _decode(self, ids: list[int]) -> str: ...

    @abstractmethod
    def _piece(self, index: int) -> str: ...

    def _label(self, index: int) -> str:
        return self._piece(index)

    @abstractmethod
    def _add_mask(self, name: str) -> Self: ...


def join_pieces(text: str) -> str:
    """Return the text that a line of pieces was split from."""
    return "".join(text.split()).replace(SPACE_MARK, " ").strip()


def text_reader(tokenizer: Tokenizer, is_split: bool, name: str) -> Callable[[str], str]:
    """Return the function that prepares a text, perhaps already split, for the tokenizer.

    `name` is the run or the file that an error refers to.
    """
    if tokenizer.kind != "pieces":
        return join_pieces if is_split else str
    if not is_split:
        raise WarmstartError(
            f"{name}: the tokenizer is a vocabulary of pieces, which cannot split text; "
            "add --pieces if the text is already split"
        )
    return str


def parse_names(entries: Mapping[str, Any], file: object) -> dict[str, str]:
    """Return the names by role; an entry is a name or an object that contains one."""
    names = {}
    for role, keys in _KEYS.items():
        for key in keys:
            entry = entries.get(key)
            name = entry.get("content") if isinstance(entry, dict) else entry
            if name is None:
                continue
            if not isinstance(name, str) or not name:
                raise WarmstartError(f"{file}: {key}={show(entry)} must be a token")
            names[role] = name
            break
    return names


def parse_start(entries: Mapping[str, Any]) -> bool:
    """Tell whether a token begins what a model reads."""
    return entries.get(START_KEY) is not False


def to_entries(names: Mapping[str, str], has_start: bool) -> dict[str, str | bool]:
    """Return names in the form that `parse_names` and `parse_start` read."""
    entries: dict[str, str | bool] = {f"{role}_token": name for role, name in names.items()}
    return entries if has_start else {**entries, START_KEY: False}


def find_usual(role: str, has_token: Callable[[str], bool]) -> str | None:
    """Return the first usual name of a role that a vocabulary has."""
    return next((name for name in USUAL[role] if has_token(name)), None)
