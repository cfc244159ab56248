"""Make a tokenizer.json: train one on text, or write one for a list of pieces.

Knows nothing about files or special ids found in other people's tokenizers.
"""

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from warmstart.errors import WarmstartError

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")  # ids 0 to 4
MIN_VOCAB_SIZE = len(SPECIALS) + 256

_UNSEEN_STEP = 0.0001  # what the library lifts each unseen byte above the lowest score


def train_json(texts: Iterable[str], kind: str, vocab_size: int) -> str:
    """Train a byte-level vocabulary, which has pieces for any text and gives it back exactly."""
    if kind not in ("bpe", "unigram"):
        raise WarmstartError(f"tokenizer kind {kind!r} must be bpe or unigram")
    if vocab_size < MIN_VOCAB_SIZE:
        raise WarmstartError(
            f"vocab_size={vocab_size} must be at least {MIN_VOCAB_SIZE}: "
            f"{len(SPECIALS)} special tokens and 256 bytes"
        )
    stream = iter(texts)
    first = next((text for text in stream if text), None)
    if first is None:
        raise WarmstartError("no text to train a tokenizer on: every row given is empty")
    library = tokenizers.Tokenizer(models.BPE() if kind == "bpe" else models.Unigram())
    # A space before every text gives its first word the pieces it has inside a text.
    library.normalizer = normalizers.Prepend(" ")
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    library.train_from_iterator(chain([first], stream), _trainer(kind, vocab_size))
    made = library.to_str()
    return made if kind == "bpe" else _settle_unigram(made)


def _trainer(kind: str, vocab_size: int) -> Any:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if kind == "bpe":
        return trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=list(SPECIALS),
            initial_alphabet=alphabet,
            show_progress=False,
        )
    return trainers.UnigramTrainer(
        vocab_size=vocab_size,
        unk_token="<unk>",
        special_tokens=list(SPECIALS),
        initial_alphabet=alphabet,
        show_progress=False,
    )


def _settle_unigram(made: str) -> str:
    """Undo the library's random order, so that the same text always gives the same vocabulary.

    Bytes that the text lacks get scores in arbitrary order just above the lowest: here they all get
    the lowest. Sums in arbitrary order differ in their last digits: these go.
    """
    spec = json.loads(made)
    vocab = spec["model"]["vocab"]
    specials, learned = vocab[: len(SPECIALS)], vocab[len(SPECIALS) :]
    lowest = min(score for _, score in learned)
    for entry in learned:
        is_unseen = len(entry[0]) == 1 and entry[1] <= lowest + 256 * _UNSEEN_STEP
        entry[1] = round(lowest if is_unseen else entry[1], 6)
    learned.sort(key=lambda entry: (-entry[1], entry[0]))
    spec["model"]["vocab"] = specials + learned
    return json.dumps(spec, ensure_ascii=False)


def pieces_json(lines: Iterable[str], name: str) -> str:
    """Write a vocabulary of pieces, one a line with or without a count, after the specials."""
    vocab = {special: index for index, special in enumerate(SPECIALS[:4])}
    for number, line in enumerate(lines, 1):
        piece = _parse_piece(line, f"{name} line {number}")
        if piece in vocab:
            raise WarmstartError(f"{name} line {number}: the piece {piece} stands there already")
        vocab[piece] = len(vocab)
    if len(vocab) == 4:
        raise WarmstartError(f"{name}: no pieces; a vocabulary has one a line")
    library = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    library.add_special_tokens(list(SPECIALS[:4]))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return str(library.to_str())


def _parse_piece(line: str, where: str) -> str:
    piece, *count = line.split(" ")
    if not piece or len(count) > 1 or not all(part.isdecimal() for part in count):
        raise WarmstartError(f"{where}: {line[:40]!r} is not a piece, or a piece and its count")
    if piece in ("[PAD]", "[UNK]"):
        raise WarmstartError(
            f"{where}: {piece} belongs to a WordPiece vocabulary, which needs its tokenizer.json"
        )
    return piece
