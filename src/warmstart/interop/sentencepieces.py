"""A SentencePiece model as a tokenizer.json: for libraries that read only that.

Reads the protocol buffer itself; knows nothing about folders.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from warmstart.errors import WarmstartError

SPACE = "▁"
UNIGRAM, BPE = 1, 2
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class PieceModel:
    """What a SentencePiece file says, as far as it changes how text is split."""

    pieces: tuple[Piece, ...]
    algorithm: int
    charsmap: bytes  # normalisation of characters
    has_prefix: bool  # a space before every text
    is_squeezed: bool  # spaces at the ends go, several become one
    is_plain: bool  # a space is written as U+2581 before its word

    @property
    def has_bytes(self) -> bool:
        """Tell whether unknown characters come out as bytes."""
        return any(piece.kind == BYTE for piece in self.pieces)

    @property
    def unk(self) -> int:
        """Return the id of the unknown piece."""
        return next(i for i, piece in enumerate(self.pieces) if piece.kind == UNKNOWN)


def parse_model(content: bytes) -> PieceModel:
    """Read a SentencePiece file, which a backend has found whole."""
    try:
        return _parsed(content)
    except (LookupError, ValueError, TypeError, AttributeError):  # fields of other kinds
        raise WarmstartError("not a SentencePiece model, or a truncated one") from None


def _parsed(content: bytes) -> PieceModel:
    pieces = []
    training: dict[int, Any] = {}
    normal: dict[int, Any] = {}
    for number, value in _fields(content):
        if number == 1:
            entry = dict(_fields(value))
            pieces.append(Piece(entry[1].decode(), entry.get(2, 0.0), entry.get(3, NORMAL)))
        elif number == 2:
            training = dict(_fields(value))
        elif number == 3:
            normal = dict(_fields(value))
    if not any(piece.kind == UNKNOWN for piece in pieces):
        raise ValueError
    return PieceModel(
        tuple(pieces),
        training.get(3, UNIGRAM),
        normal.get(2, b""),
        bool(normal.get(3, 1)),
        bool(normal.get(4, 1)),
        bool(normal.get(5, 1)) and not training.get(24, 0),
    )


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of every field of a protocol buffer."""
    position = 0
    while position < len(content):
        tag, position = _varint(content, position)
        kind = tag & 7
        if kind == 0:
            value, position = _varint(content, position)
            yield tag >> 3, value
        elif kind == 2:
            size, position = _varint(content, position)
            if position + size > len(content):
                raise ValueError
            yield tag >> 3, content[position : position + size]
            position += size
        elif kind == 5:
            if position + 4 > len(content):
                raise ValueError
            yield tag >> 3, struct.unpack("<f", content[position : position + 4])[0]
            position += 4
        else:
            raise ValueError


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position


def to_json(content: bytes, added: Sequence[str] = ()) -> bytes:
    """Return a tokenizer.json with the same ids; `added` are special tokens after its own."""
    model = parse_model(content)
    library = _library(model, [(piece.text, piece.score) for piece in model.pieces], model.unk)
    controls = [piece.text for piece in model.pieces if piece.kind in (CONTROL, UNKNOWN)]
    library.add_special_tokens([*controls, *added])
    return str(library.to_str()).encode()


def to_fairseq_json(content: bytes, model_type: str) -> bytes:
    """Return a tokenizer.json with the ids that RoBERTa's kin gives the pieces of a model."""
    model = parse_model(content)
    if model.algorithm != UNIGRAM:
        raise WarmstartError(f"a {model_type} model has a unigram vocabulary, this one has not")
    own = [(piece.text, piece.score) for piece in model.pieces]
    marks = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    if model_type == "camembert":
        marks = [("<s>NOTUSED", 0.0), ("<pad>", 0.0), ("</s>NOTUSED", 0.0), ("<unk>", 0.0)]
        vocab = [*marks, ("<unk>NOTUSED", -100.0), *own[1:], ("<mask>", 0.0)]
    else:
        vocab = [*marks, *own[3:], ("<mask>", 0.0)]
    library = _library(model, vocab, 3)
    library.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    library.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return str(library.to_str()).encode()


def _library(model: PieceModel, vocab: list[tuple[str, float]], unk: int) -> tokenizers.Tokenizer:
    if not model.is_plain:
        raise WarmstartError("a SentencePiece model that puts spaces after words is not converted")
    user = next((piece.text for piece in model.pieces if piece.kind == USER), None)
    if user is not None:
        raise WarmstartError(
            f"a SentencePiece model with symbols such as {user!r} is not converted"
        )
    if model.algorithm == UNIGRAM:
        library = tokenizers.Tokenizer(models.Unigram(vocab, unk, model.has_bytes))
    elif model.algorithm == BPE:
        ids = {text: index for index, (text, _) in enumerate(vocab)}
        library = tokenizers.Tokenizer(
            models.BPE(
                ids,
                _merges(model, ids),
                unk_token=vocab[unk][0],
                fuse_unk=True,
                byte_fallback=model.has_bytes,
            )
        )
    else:
        raise WarmstartError("a SentencePiece model of words or characters is not converted")
    library.normalizer = normalizers.Sequence(_normalizers(model))
    is_split = all(SPACE not in piece.text[1:] for piece in model.pieces if piece.kind == NORMAL)
    if is_split:  # no piece spans words, so that words can be looked at one by one
        library.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_next")
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    library.decoder = decoders.Sequence(
        [*steps, *([decoders.Strip(" ", 1, 0)] if model.has_prefix else [])]
    )
    return library


def _normalizers(model: PieceModel) -> list[Any]:
    steps: list[Any] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.is_squeezed:
        steps.append(normalizers.Replace(tokenizers.Regex(r"\A +| +\z"), ""))
        steps.append(normalizers.Replace(tokenizers.Regex(" {2,}"), " "))
    if model.has_prefix:
        steps.append(normalizers.Prepend(SPACE))
    return [*steps, normalizers.Replace(" ", SPACE)]


def _merges(model: PieceModel, ids: dict[str, int]) -> list[tuple[str, str]]:
    """Return every way to join two pieces into a third, the best third first."""
    found = []
    for piece in model.pieces:
        if piece.kind != NORMAL:
            continue
        cuts = ((piece.text[:cut], piece.text[cut:]) for cut in range(1, len(piece.text)))
        pairs = sorted(
            (ids[left], ids[right], left, right)
            for left, right in cuts
            if left in ids and right in ids
        )
        found += [(-piece.score, *pair) for pair in pairs]
    found.sort(key=lambda entry: entry[0])  # stable: pieces of one score keep their order
    return [(left, right) for _, _, _, left, right in found]
