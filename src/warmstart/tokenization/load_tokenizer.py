"""Train a tokenizer on text, or load one from a file."""

import json
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import read_object
from warmstart.progress import say
from warmstart.textfiles import base_suffix, read_bytes, read_lines
from warmstart.tokenization import specials
from warmstart.tokenization.backends import JsonTokenizer, SentencePieceTokenizer
from warmstart.tokenization.tokenizer import Names, Tokenizer

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")  # ids 0 to 4
MIN_VOCAB_SIZE = len(SPECIALS) + 256
_UNSEEN_STEP = 0.0001  # by which the library raises the score of each unseen byte


def train_tokenizer(texts: Iterable[str], kind: str = "bpe", vocab_size: int = 16000) -> Tokenizer:
    """Train on all of `texts`; report when too little text gives a smaller vocabulary."""
    tokenizer = JsonTokenizer(train_json(texts, kind, vocab_size).encode())
    if tokenizer.vocab_size < vocab_size:
        num = tokenizer.vocab_size
        say(f"The text gives only {num:,} pieces, fewer than the {vocab_size:,} requested.")
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer: a folder, a tokenizer.json, a SentencePiece model or a list of pieces."""
    names: Names = {}
    has_start = True
    if path.is_dir():
        file = path / specials.FILE_NAME
        entries = read_object(file) if file.is_file() else {}
        names, has_start = specials.parse_names(entries, file), specials.parse_start(entries)
        path = _definition_file(path)
    match base_suffix(path):
        case ".json":
            return _load(path, JsonTokenizer, names, has_start)
        case ".model":
            return _load(path, SentencePieceTokenizer, names, has_start)
        case ".txt":
            return JsonTokenizer(pieces_json(read_lines(path), str(path)).encode())
    raise WarmstartError(
        f"{path}: not a tokenizer by its name; give a folder, a tokenizer.json, a SentencePiece "
        ".model or a .txt of pieces"
    )


def _definition_file(folder: Path) -> Path:
    for name in (JsonTokenizer.file_name, SentencePieceTokenizer.file_name):
        if (folder / name).is_file():
            return folder / name
    raise WarmstartError(f"{folder}: neither tokenizer.json nor tokenizer.model in this folder")


def _load(
    path: Path, kind: Callable[[bytes, Names, bool], Tokenizer], names: Names, has_start: bool
) -> Tokenizer:
    content = read_bytes(path)
    try:
        return kind(content, names, has_start)
    except WarmstartError as error:
        raise WarmstartError(f"{path}: {error}") from None


def train_json(texts: Iterable[str], kind: str, vocab_size: int) -> str:
    """Train a byte-level vocabulary, which covers any text and decodes to it exactly."""
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
        raise WarmstartError("no text to train a tokenizer on: every row is empty")
    library = tokenizers.Tokenizer(models.BPE() if kind == "bpe" else models.Unigram())
    # A space before every text gives its first word the same pieces as inside a text.
    library.normalizer = normalizers.Prepend(" ")
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    library.train_from_iterator(chain([first], stream), _trainer(kind, vocab_size))
    spec = library.to_str()
    return spec if kind == "bpe" else _settle_unigram(spec)


def _trainer(kind: str, vocab_size: int) -> Any:
    shared: dict[str, Any] = {
        "vocab_size": vocab_size,
        "special_tokens": list(SPECIALS),
        "initial_alphabet": pre_tokenizers.ByteLevel.alphabet(),
        "show_progress": False,
    }
    if kind == "bpe":
        return trainers.BpeTrainer(min_frequency=2, **shared)
    return trainers.UnigramTrainer(unk_token="<unk>", **shared)


def _settle_unigram(content: str) -> str:
    """Undo the library's random order, so that the same text always gives the same vocabulary.

    Bytes that the text lacks get scores just above the lowest, in arbitrary order: all get the
    lowest. Sums in arbitrary order differ in their last digits: scores are rounded.
    """
    spec = json.loads(content)
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
    """Build a vocabulary of the specials and of pieces, from lines `piece` or `piece count`."""
    vocab = {special: index for index, special in enumerate(SPECIALS[:4])}
    for number, line in enumerate(lines, 1):
        piece = _parse_piece(line, f"{name} line {number}")
        if piece in vocab:
            raise WarmstartError(f"{name} line {number}: the piece {piece} occurs twice")
        vocab[piece] = len(vocab)
    if len(vocab) == 4:
        raise WarmstartError(f"{name}: no pieces; a vocabulary has one per line")
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
