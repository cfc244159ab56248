"""The tokenizers of OPUS-MT: two SentencePiece models whose pieces have ids in one vocab.json."""

import re
from typing import Any

from warmstart.errors import WarmstartError
from warmstart.interop.hf_folder import HfFolder
from warmstart.interop.sentencepiece_json import CONTROL, NORMAL, UNKNOWN, UNUSED, parse_model
from warmstart.jsonfiles import typed
from warmstart.tokenization.backends import SentencePieceTokenizer
from warmstart.tokenization.pair import TokenizerPair

SOURCE, TARGET, VOCAB = "source.spm", "target.spm", "vocab.json"
# The padding token begins the target, and nothing begins the source.
NAMES = {"bos": "<pad>", "eos": "</s>", "pad": "<pad>", "unk": "<unk>"}


def read_marian_tokenizers(folder: HfFolder) -> TokenizerPair:
    """Return both tokenizers, with the ids of vocab.json."""
    vocab = typed(dict[str, int], folder.read_json(VOCAB), folder.path / VOCAB)
    _check_vocab(vocab, folder)
    source, target = (_read_model(folder, name, vocab) for name in (SOURCE, TARGET))
    return TokenizerPair(
        SentencePieceTokenizer(source, NAMES, has_start=False),
        SentencePieceTokenizer(target, NAMES, has_start=False),
    )


def _check_vocab(vocab: dict[str, int], folder: HfFolder) -> None:
    file = folder.path / VOCAB
    if sorted(vocab.values()) != list(range(len(vocab))):
        raise WarmstartError(f"{file}: the ids must be 0 to {len(vocab) - 1}, each once")
    missing = next((name for name in NAMES.values() if name not in vocab), None)
    if missing:
        raise WarmstartError(f"{file}: no {missing}, which every Marian vocabulary has")
    code = next((name for name in vocab if re.fullmatch(">>.*<<", name)), None)
    if code:
        raise WarmstartError(
            f"{file}: {code} chooses one of several target languages; one language is supported"
        )


def _read_model(folder: HfFolder, name: str, vocab: dict[str, int]) -> bytes:
    content = folder.read_bytes(name)
    if content is None:
        raise WarmstartError(f"{folder.path}: no {name} beside {VOCAB}")
    try:
        return renumber(content, vocab)
    except WarmstartError as error:
        raise WarmstartError(f"{folder.path / name}: {error}") from None


def renumber(content: bytes, vocab: dict[str, int]) -> bytes:
    """Return a SentencePiece model that splits text as before, and whose ids are the vocabulary's.

    Entries of the vocabulary that it lacks belong to the other language: no text gives them.
    """
    model = parse_model(content)
    pieces: dict[str, Any] = {piece.piece: piece for piece in model.pieces}
    lost = next((p for p in pieces if pieces[p].type == NORMAL and p not in vocab), None)
    if lost is not None:
        raise WarmstartError(f"its piece {lost!r} has no id in {VOCAB}")
    renumbered = type(model)()
    renumbered.CopyFrom(model)
    del renumbered.pieces[:]
    kinds = {NAMES["eos"]: CONTROL, NAMES["pad"]: CONTROL, NAMES["unk"]: UNKNOWN}
    for name in sorted(vocab, key=vocab.__getitem__):
        known = pieces.get(name)
        score = 0.0 if known is None else known.score
        kind = kinds.get(name, UNUSED if known is None else known.type)
        renumbered.pieces.add(piece=name, score=score, type=kind)
    serialized: bytes = renumbered.SerializeToString()
    return serialized
