"""The two libraries behind a tokenizer: `tokenizers` and `sentencepiece`.

Each wraps one vocabulary and finds its special ids. Knows nothing about where the vocabulary came
from, and adds no special token to a text.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tokenizers
from tokenizers import decoders

from warmstart.errors import WarmstartError

# Usual names, the likeliest first; the first is also the name of one that has to be added.
BOS = ("<s>", "[CLS]", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "<|endoftext|>")
EOS = ("</s>", "[SEP]", "<|end_of_text|>", "<eos>", "<|endoftext|>")
PAD = ("<pad>", "[PAD]", "<|pad|>", "<|finetune_right_pad_id|>")
UNK = ("<unk>", "[UNK]")
MASK = ("<mask>", "[MASK]")

_KINDS = {"BPE": "bpe", "Unigram": "unigram", "WordLevel": "pieces", "WordPiece": "wordpiece"}


@dataclass(frozen=True)
class Specials:
    """The ids that stand for no text."""

    bos: int
    eos: int
    pad: int
    unk: int | None
    mask: int | None


class Backend(Protocol):
    """What a tokenizer needs of a library."""

    kind: str
    vocab_size: int
    specials: Specials
    file_name: str  # what a folder calls the file that defines it
    content: bytes  # that file

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of every text."""

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids that are not special."""

    def piece(self, index: int) -> str:
        """Return one piece, with a space written as U+2581."""


class LibraryBackend:
    """A tokenizer.json, made by us or by anyone."""

    file_name = "tokenizer.json"

    def __init__(self, content: bytes) -> None:
        try:
            library = tokenizers.Tokenizer.from_buffer(content)
        except Exception as error:  # the library raises nothing narrower
            raise WarmstartError(f"not a tokenizer.json ({error})") from None
        has_added = _add_missing(library)
        self.content = library.to_str().encode() if has_added else content
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True  # a text may spell out "</s>"
        self._library = library
        self.kind = _KINDS.get(type(library.model).__name__, type(library.model).__name__.lower())
        self.vocab_size = 1 + max(library.get_vocab().values())
        self.specials = Specials(
            bos=_known(_find(library, BOS)),
            eos=_known(_find(library, EOS)),
            pad=_known(_find(library, PAD)),
            unk=_find(library, UNK),
            mask=_find(library, MASK),
        )
        self._added = set(library.get_added_tokens_decoder())
        self._is_byte_level = "ByteLevel" in json.dumps(json.loads(library.to_str())["decoder"])

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of every text."""
        encoded = self._library.encode_batch_fast(list(texts), add_special_tokens=False)
        return [one.ids for one in encoded]

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids that are not special."""
        return str(self._library.decode(ids, skip_special_tokens=True))

    def piece(self, index: int) -> str:
        """Return one piece, with a space written as U+2581."""
        token = str(self._library.id_to_token(index))
        if self._is_byte_level and index not in self._added:
            token = decoders.ByteLevel().decode([token])
        return token.replace(" ", "▁")

    def with_mask(self) -> "LibraryBackend":
        """Return the same vocabulary with a mask token at its end."""
        library = tokenizers.Tokenizer.from_buffer(self.content)
        library.add_special_tokens([MASK[0]])
        return LibraryBackend(library.to_str().encode())


def _add_missing(library: tokenizers.Tokenizer) -> bool:
    missing = [names[0] for names in (BOS, EOS, PAD) if _find(library, names) is None]
    library.add_special_tokens(missing)
    return bool(missing)


def _find(library: tokenizers.Tokenizer, names: Sequence[str]) -> int | None:
    found = (library.token_to_id(name) for name in names)
    return next((index for index in found if index is not None), None)


def _known(index: int | None) -> int:
    assert index is not None
    return index


class SentencePieceBackend:
    """A SentencePiece model; the special ids it lacks come after its own vocabulary."""

    kind = "sentencepiece"
    file_name = "tokenizer.model"

    def __init__(self, content: bytes) -> None:
        import sentencepiece

        if not _is_whole_model(content):
            raise WarmstartError("not a SentencePiece model, or a truncated one")
        try:
            self._model: Any = sentencepiece.SentencePieceProcessor(model_proto=content)
        except (RuntimeError, OSError):
            raise WarmstartError("not a SentencePiece model, or a truncated one") from None
        self.content = content
        self._added: list[str] = []
        self.specials = Specials(
            bos=self._own_or_added(self._model.bos_id(), BOS),
            eos=self._own_or_added(self._model.eos_id(), EOS),
            pad=self._own_or_added(self._model.pad_id(), PAD),
            unk=self._model.unk_id(),
            mask=self._own_or_added(-1, MASK),
        )
        self.vocab_size = len(self._model) + len(self._added)

    def _own_or_added(self, declared: int, names: Sequence[str]) -> int:
        if declared >= 0:
            return declared
        for name in names:
            if (index := self._model.piece_to_id(name)) != self._model.unk_id():
                return int(index)
        self._added.append(names[0])
        return len(self._model) + len(self._added) - 1

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of every text."""
        encoded: list[list[int]] = self._model.encode(list(texts))
        return encoded

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids that are not special."""
        return str(self._model.decode(ids))

    def piece(self, index: int) -> str:
        """Return one piece, with a space written as U+2581."""
        own = len(self._model)
        return self._added[index - own] if index >= own else str(self._model.id_to_piece(index))


def _is_whole_model(content: bytes) -> bool:
    """Walk the protocol buffer to its end; the library takes a file cut between two pieces."""
    seen = set()
    position = 0
    while position < len(content):
        tag, position = _varint(content, position)
        size, position = _varint(content, position)
        if tag & 7 != 2 or position + size > len(content):  # 2: a field with a length
            return False
        seen.add(tag >> 3)
        position += size
    return {1, 2, 3} <= seen  # pieces, training settings, normalisation


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
