"""Convert a SentencePiece model to a tokenizer.json with the same ids."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import tokenizers
from google.protobuf.message import DecodeError
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers

from warmstart.errors import WarmstartError
from warmstart.tokenization.backends import library_errors

SPACE = "▁"
UNIGRAM, BPE = 1, 2  # TrainerSpec.model_type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # SentencePiece.type


def parse_model(content: bytes) -> Any:
    """Return a SentencePiece file as its `ModelProto`; refuse one without an unknown piece."""
    model = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        model.Clear()
    is_text = all(isinstance(piece.piece, str) for piece in model.pieces)  # bytes: not UTF-8
    if not is_text or all(piece.type != UNKNOWN for piece in model.pieces):
        raise WarmstartError("not a SentencePiece model, or a truncated one")
    return model


def to_json(content: bytes, added: Sequence[str] = ()) -> bytes:
    """Return a tokenizer.json with the same ids; `added` are special tokens after the others."""
    model = parse_model(content)
    unk = next(i for i, piece in enumerate(model.pieces) if piece.type == UNKNOWN)
    library = _convert(model, [(piece.piece, piece.score) for piece in model.pieces], unk)
    controls = [piece.piece for piece in model.pieces if piece.type in (CONTROL, UNKNOWN)]
    library.add_special_tokens([*controls, *added])
    return str(library.to_str()).encode()


def to_fairseq_json(content: bytes, model_type: str) -> bytes:
    """Return a tokenizer.json with the ids that CamemBERT or XLM-RoBERTa gives the pieces."""
    model = parse_model(content)
    if model.trainer_spec.model_type != UNIGRAM:
        raise WarmstartError(f"a {model_type} model needs a unigram vocabulary; this is another")
    pieces = [(piece.piece, piece.score) for piece in model.pieces]
    if model_type == "camembert":
        names = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>"]
        pieces = [("<unk>NOTUSED", -100.0), *pieces[1:]]
    else:
        names = ["<s>", "<pad>", "</s>", "<unk>"]
        pieces = pieces[3:]
    vocab = [*((name, 0.0) for name in names), *pieces, ("<mask>", 0.0)]
    library = _convert(model, vocab, names.index("<unk>"))
    library.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    library.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return str(library.to_str()).encode()


def _convert(model: Any, vocab: list[tuple[str, float]], unk: int) -> tokenizers.Tokenizer:
    normalizer, trainer = model.normalizer_spec, model.trainer_spec
    if not normalizer.escape_whitespaces or trainer.treat_whitespace_as_suffix:
        raise WarmstartError("a SentencePiece model that puts spaces after words is not converted")
    if any(piece.type == UNUSED for piece in model.pieces):
        raise WarmstartError("a SentencePiece model with unused pieces is not converted")
    symbol = next((piece.piece for piece in model.pieces if piece.type == USER_DEFINED), None)
    if symbol is not None:
        raise WarmstartError(
            f"a SentencePiece model with symbols such as {symbol!r} is not converted"
        )
    library = tokenizers.Tokenizer(_build_model(model, vocab, unk))
    library.normalizer = normalizers.Sequence(_normalizers(normalizer))
    spans_words = any(SPACE in p.piece[1:] for p in model.pieces if p.type == NORMAL)
    if not spans_words:  # then words can be split one by one
        library.pre_tokenizer = pre_tokenizers.Split(SPACE, "merged_with_next")
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if normalizer.add_dummy_prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    library.decoder = decoders.Sequence(steps)
    return library


def _build_model(model: Any, vocab: list[tuple[str, float]], unk: int) -> Any:
    has_bytes = any(piece.type == BYTE for piece in model.pieces)
    if model.trainer_spec.model_type == UNIGRAM:
        return models.Unigram(vocab, unk, has_bytes)
    if model.trainer_spec.model_type != BPE:
        raise WarmstartError("a SentencePiece model of words or characters is not converted")
    ids = {piece: index for index, (piece, _) in enumerate(vocab)}
    merges: list[tuple[str, str]] = []  # every way to join two pieces, the best result first
    normal = (piece for piece in model.pieces if piece.type == NORMAL)
    for piece in sorted(normal, key=lambda piece: -piece.score):  # stable for equal scores
        text = piece.piece
        pairs = [(text[:cut], text[cut:]) for cut in range(1, len(text))]
        known = [(left, right) for left, right in pairs if left in ids and right in ids]
        merges += sorted(known, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    return models.BPE(ids, merges, unk_token=vocab[unk][0], fuse_unk=True, byte_fallback=has_bytes)


def _normalizers(spec: Any) -> list[Any]:
    steps: list[Any] = []
    if spec.precompiled_charsmap:
        with library_errors("a damaged SentencePiece model"):
            steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        steps.append(normalizers.Replace(tokenizers.Regex(r"\A +| +\z"), ""))
        steps.append(normalizers.Replace(tokenizers.Regex(" {2,}"), " "))
    if spec.add_dummy_prefix:
        steps.append(normalizers.Prepend(SPACE))
    return [*steps, normalizers.Replace(" ", SPACE)]
