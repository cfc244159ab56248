"""The two libraries behind a tokenizer: `tokenizers` and `sentencepiece`.

A backend wraps one vocabulary and finds its special ids. It adds no special token to a text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import tokenizers
from tokenizers import decoders

from warmstart.errors import WarmstartError
from warmstart.tokenization.specials import USUAL, find_usual

Names = Mapping[str, str]  # of special tokens, by role: bos, eos, pad, unk, mask

_KINDS = {"BPE": "bpe", "Unigram": "unigram", "WordLevel": "pieces", "WordPiece": "wordpiece"}


@dataclass(frozen=True)
class Specials:
    """The ids of the special tokens, which represent no text."""

    bos: int
    eos: int
    pad: int
    unk: int | None
    mask: int | None


HALF = "\ufffd"  # what part of a character decodes to


@cache
def _byte_letters() -> dict[str, int]:
    """Return the letter that byte-level vocabularies write for each byte: itself if printable."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + n): b for n, b in enumerate(hidden)}


class Backend(Protocol):
    """The operations that a tokenizer needs from a library."""

    kind: str
    vocab_size: int
    own_size: int  # entries in the file; special tokens may follow them
    specials: Specials
    file_name: str  # of the file that defines the vocabulary
    content: bytes  # of that file
    names: Names  # of special tokens that were named explicitly

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of every text."""

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids that are not special."""

    def piece(self, index: int) -> str:
        """Return one piece, with a space written as U+2581."""

    def label(self, index: int) -> str:
        """Return one piece for display: bytes that form no character as <E3>."""

    def with_mask(self) -> "Backend":
        """Return the same vocabulary with a mask token at its end."""


class LibraryBackend:
    """A tokenizer.json, of any origin."""

    file_name = "tokenizer.json"

    def __init__(self, content: bytes, names: Names | None = None) -> None:
        library = _parsed(content)
        self.names: Names = dict(names or {})
        has_added = _add_missing(library, self.names)
        self.content = library.to_str().encode() if has_added else content
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True  # a text may spell out "</s>"
        self._library = library
        self.kind = _KINDS.get(type(library.model).__name__, type(library.model).__name__.lower())
        self.vocab_size = self.own_size = 1 + max(library.get_vocab().values())
        self.specials = _specials({role: _find(library, role, self.names) for role in USUAL})
        self._added = set(library.get_added_tokens_decoder())
        self._is_byte_level = "ByteLevel" in json.dumps(json.loads(library.to_str())["decoder"])

    @staticmethod
    def vocabulary(content: bytes) -> dict[str, int]:
        """Return every token of a tokenizer.json and its id."""
        return dict(_parsed(content).get_vocab())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        encoded = self._library.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encoded]

    def decode(self, ids: list[int]) -> str:
        return str(self._library.decode(ids, skip_special_tokens=True))

    def piece(self, index: int) -> str:
        token = self._library.id_to_token(index) or f"<{index}>"  # a model may have more rows
        if self._is_byte_level and index not in self._added:
            token = decoders.ByteLevel().decode([token])
        return token.replace(" ", "▁")

    def label(self, index: int) -> str:
        piece = self.piece(index)
        if HALF not in piece or not self._is_byte_level:
            return piece
        written = bytes(_byte_letters()[char] for char in self._library.id_to_token(index) or "")
        shown = written.decode("utf-8", "surrogateescape").replace(" ", "▁")
        return "".join(
            f"<{ord(c) - 0xDC00:02X}>" if "\udc80" <= c <= "\udcff" else c for c in shown
        )

    def with_mask(self) -> "LibraryBackend":
        library = tokenizers.Tokenizer.from_buffer(self.content)
        library.add_special_tokens([USUAL["mask"][0]])
        return LibraryBackend(library.to_str().encode(), self.names)


def _parsed(content: bytes) -> tokenizers.Tokenizer:
    try:
        library = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises no narrower class
        raise WarmstartError(f"not a tokenizer.json ({error})") from None
    if not library.get_vocab():
        raise WarmstartError("a tokenizer.json without a vocabulary")
    return library


def _specials(ids: Mapping[str, int | None]) -> Specials:
    bos, eos, pad, unk = ids["bos"], ids["eos"], ids["pad"], ids["unk"]
    assert bos is not None and eos is not None and pad is not None  # noqa: PT018
    # A token that has every role never results from text, so it is not the unknown token.
    return Specials(bos, eos, pad, None if unk in (bos, eos) else unk, ids["mask"])


def _add_missing(library: tokenizers.Tokenizer, names: Names) -> bool:
    needed = ("bos", "eos", "pad")
    missing = [USUAL[role][0] for role in needed if _find(library, role, names) is None]
    library.add_special_tokens(missing)
    return bool(missing)


def _find(library: tokenizers.Tokenizer, role: str, names: Names) -> int | None:
    if role in names:
        index: int | None = library.token_to_id(names[role])
        if index is None:
            raise WarmstartError(f"the vocabulary has no {names[role]!r}, its {role} token")
        return index
    usual = find_usual(role, lambda name: library.token_to_id(name) is not None)
    return None if usual is None else library.token_to_id(usual)


class SentencePieceBackend:
    """A SentencePiece model; missing special ids follow its own vocabulary.

    Where names are given, it has a mask token only if one is named.
    """

    kind = "sentencepiece"
    file_name = "tokenizer.model"

    def __init__(self, content: bytes, names: Names | None = None) -> None:
        import sentencepiece

        if not _is_whole_model(content):
            raise WarmstartError("not a SentencePiece model, or a truncated one")
        try:
            self._model: Any = sentencepiece.SentencePieceProcessor(model_proto=content)
        except (RuntimeError, OSError):
            raise WarmstartError("not a SentencePiece model, or a truncated one") from None
        self.content = content
        self.names: Names = dict(names or {})
        self._added: list[str] = []
        model = self._model
        self.own_size = len(model)
        self.specials = Specials(
            bos=self._own_or_added("bos", model.bos_id()),
            eos=self._own_or_added("eos", model.eos_id()),
            pad=self._own_or_added("pad", model.pad_id()),
            unk=model.unk_id(),
            mask=self._own_or_added("mask", -1) if not names or "mask" in names else None,
        )
        self.vocab_size = len(self._model) + len(self._added)

    def _own_or_added(self, role: str, declared: int) -> int:
        if role not in self.names and declared >= 0:
            return declared
        names = (self.names[role],) if role in self.names else USUAL[role]
        for name in names:
            index = int(self._model.piece_to_id(name))
            if self._model.id_to_piece(index) == name:  # not the unknown piece
                return index
        self._added.append(names[0])
        return len(self._model) + len(self._added) - 1

    def with_mask(self) -> "SentencePieceBackend":
        return SentencePieceBackend(self.content, {**self.names, "mask": USUAL["mask"][0]})

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        encoded: list[list[int]] = self._model.encode(list(texts))
        return encoded

    def decode(self, ids: list[int]) -> str:
        return str(self._model.decode([index for index in ids if index < self.own_size]))

    def piece(self, index: int) -> str:
        if index < self.own_size:
            return str(self._model.id_to_piece(index))
        # A model may have more rows than its vocabulary has entries.
        return f"<{index}>" if index >= self.vocab_size else self._added[index - self.own_size]

    def label(self, index: int) -> str:
        return self.piece(index)  # which writes bytes as <0xE3>


def _is_whole_model(content: bytes) -> bool:
    """Check the protocol buffer to its end; the library accepts a file cut between two pieces."""
    fields = set()
    position = 0
    while position < len(content):
        tag, position = _varint(content, position)
        size, position = _varint(content, position)
        if tag & 7 != 2 or position + size > len(content):  # 2: a field with a length
            return False
        fields.add(tag >> 3)
        position += size
    return {1, 2, 3} <= fields  # pieces, training settings, normalization


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(content):
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return value, position
