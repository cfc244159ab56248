"""Tokenizers of the libraries: train, load, and the pair of a translator."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Self

import tokenizers
from google.protobuf.message import DecodeError
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import read_object
from warmstart.progress import say
from warmstart.textfiles import base_suffix, read_bytes, read_lines
from warmstart.tokenization.limits import PROBES, check_charsmap, check_definition, check_ids
from warmstart.tokenization.tokenizer import (
    SPECIALS_FILE,
    USUAL,
    Names,
    Tokenizer,
    find_usual,
    parse_names,
    parse_start,
)

NO_MODEL = "not a SentencePiece model, or a truncated one"
HALF = "\ufffd"  # what part of a character decodes to
_KINDS = {"BPE": "bpe", "Unigram": "unigram", "WordLevel": "pieces", "WordPiece": "wordpiece"}
SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")  # ids 0 to 4
MIN_VOCAB_SIZE = len(SPECIALS) + 256
_UNSEEN_STEP = 0.0001  # by which the library raises the score of each unseen byte
TARGET_FOLDER = "target"  # inside a run, where the target has a tokenizer of its own


class JsonTokenizer(Tokenizer):
    """A tokenizer.json, of any origin."""

    file_name = "tokenizer.json"

    def __init__(self, content: bytes, names: Names | None = None, has_start: bool = True) -> None:
        super().__init__(content, names, has_start)
        self._library = library = parse_json(content)
        needed = ("bos", "eos", "pad")
        missing = [USUAL[role][0] for role in needed if self._find(role) is None]
        if missing:
            library.add_special_tokens(missing)
            self.content = library.to_str().encode()
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True  # a text may spell out "</s>"
        self.kind = _KINDS.get(type(library.model).__name__, type(library.model).__name__.lower())
        self.vocab_size = self.own_size = 1 + max(library.get_vocab().values())
        bos, eos, pad = (self._find(role) for role in needed)
        assert bos is not None and eos is not None and pad is not None  # noqa: PT018
        self.bos, self.eos, self.pad = bos, eos, pad
        unk = self._find("unk")
        # A token that has every role never results from text, so it is not the unknown token.
        self.unk = None if unk in (bos, eos) else unk
        self.mask = self._find("mask")
        self._added = set(library.get_added_tokens_decoder())
        self._is_byte_level = "ByteLevel" in json.dumps(json.loads(library.to_str())["decoder"])
        with library_errors("it cannot read text"), _quiet_panics():
            for ids in self._encode(list(PROBES)):
                self._decode(ids)

    def _find(self, role: str) -> int | None:
        name = self.names.get(role)
        if name is None:
            name = find_usual(role, lambda usual: self._library.token_to_id(usual) is not None)
        index: int | None = None if name is None else self._library.token_to_id(name)
        if index is None and role in self.names:
            raise WarmstartError(f"the vocabulary has no {name!r}, its {role} token")
        return index

    def _encode(self, texts: list[str]) -> list[list[int]]:
        with library_errors("the tokenizer cannot read a text"):
            encoded = self._library.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encoded]

    def _decode(self, ids: list[int]) -> str:
        with library_errors("the tokenizer cannot write a text"):
            return str(self._library.decode(ids, skip_special_tokens=True))

    def _piece(self, index: int) -> str:
        token = self._library.id_to_token(index) or f"<{index}>"  # a model may have more rows
        if self._is_byte_level and index not in self._added:
            token = decoders.ByteLevel().decode([token])
        return token.replace(" ", "▁")

    def _label(self, index: int) -> str:
        piece = self._piece(index)
        token = self._library.id_to_token(index) or ""
        if HALF not in piece or not self._is_byte_level or not set(token) <= set(_byte_letters()):
            return piece
        written = bytes(_byte_letters()[char] for char in token)
        shown = written.decode("utf-8", "surrogateescape").replace(" ", "▁")
        return "".join(
            f"<{ord(c) - 0xDC00:02X}>" if "\udc80" <= c <= "\udcff" else c for c in shown
        )

    def _add_mask(self, name: str) -> Self:
        library = tokenizers.Tokenizer.from_buffer(self.content)
        library.add_special_tokens([name])
        return type(self)(library.to_str().encode(), self.names, self.has_start)


def parse_json(content: bytes) -> tokenizers.Tokenizer:
    """Return the library's tokenizer for a tokenizer.json."""
    with _quiet_panics():
        check_definition(content)
    with library_errors("not a tokenizer.json"), _quiet_panics():
        library = tokenizers.Tokenizer.from_buffer(content)
    vocab = library.get_vocab()
    if not vocab:
        raise WarmstartError("a tokenizer.json without a vocabulary")
    check_ids(vocab)
    return library


@contextmanager
def library_errors(problem: str) -> Iterator[None]:
    """Turn what `tokenizers` raises into one sentence, panics of its Rust code included."""
    try:
        yield
    except BaseException as error:  # the class of panics cannot be imported
        is_panic = type(error).__name__ == "PanicException"
        if not is_panic and type(error) not in (Exception, ValueError, OverflowError):
            raise
        raise WarmstartError(f"{problem} ({' '.join(str(error).split())[:200]})") from None


@contextmanager
def _quiet_panics() -> Iterator[None]:
    """Keep what the library's Rust code prints about a panic off standard error."""
    try:
        original = os.dup(2)
    except OSError:  # closed: nothing can be printed
        yield
        return
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


@cache
def _byte_letters() -> dict[str, int]:
    """Return the letter that byte-level vocabularies write for each byte: itself if printable."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + n): b for n, b in enumerate(hidden)}


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model; missing special ids follow its own vocabulary.

    With explicit names, it has a mask token only if they name one.
    """

    kind = "sentencepiece"
    file_name = "tokenizer.model"

    def __init__(self, content: bytes, names: Names | None = None, has_start: bool = True) -> None:
        import sentencepiece

        super().__init__(content, names, has_start)
        _check_model(content)
        try:
            self._model: Any = sentencepiece.SentencePieceProcessor(model_proto=content)
        except (RuntimeError, OSError):
            raise WarmstartError(NO_MODEL) from None
        self._added: list[str] = []
        self.own_size = len(self._model)
        self._has_unused = any(map(self._model.is_unused, range(self.own_size)))
        self.bos = self._own_or_added("bos", self._model.bos_id())
        self.eos = self._own_or_added("eos", self._model.eos_id())
        self.pad = self._own_or_added("pad", self._model.pad_id())
        self.unk = self._model.unk_id()
        has_mask = not names or "mask" in names
        self.mask = self._own_or_added("mask", -1) if has_mask else None
        self.vocab_size = self.own_size + len(self._added)

    def _own_or_added(self, role: str, declared: int) -> int:
        if role not in self.names and declared >= 0:
            return declared
        names = (self.names[role],) if role in self.names else USUAL[role]
        for name in names:
            index = int(self._model.piece_to_id(name))
            if self._model.id_to_piece(index) == name:  # not the unknown piece
                return index
        self._added.append(names[0])
        return self.own_size + len(self._added) - 1

    def _encode(self, texts: list[str]) -> list[list[int]]:
        encoded: list[list[int]] = self._model.encode(texts)
        for row, ids in enumerate(encoded if self._has_unused else ()):
            if self.unk in ids:  # an unused piece may have an id all the same
                pieces = self._model.encode(texts[row], out_type=str)
                encoded[row] = [int(self._model.piece_to_id(piece)) for piece in pieces]
        return encoded

    def _decode(self, ids: list[int]) -> str:
        return str(self._model.decode([index for index in ids if index < self.own_size]))

    def _piece(self, index: int) -> str:  # writes bytes as <0xE3>
        if index < self.own_size:
            return str(self._model.id_to_piece(index))
        # A model may have more rows than its vocabulary has entries.
        return f"<{index}>" if index >= self.vocab_size else self._added[index - self.own_size]

    def _add_mask(self, name: str) -> Self:
        return type(self)(self.content, {**self.names, "mask": name}, self.has_start)


def _check_model(content: bytes) -> None:
    """Parse the file to its end; the library accepts one that was cut between two pieces."""
    model = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        model.Clear()
    specs = ("trainer_spec", "normalizer_spec")
    if not model.pieces or not all(model.HasField(spec) for spec in specs):
        raise WarmstartError(NO_MODEL)
    check_charsmap(model.normalizer_spec.precompiled_charsmap)


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
        file = path / SPECIALS_FILE
        entries = read_object(file) if file.is_file() else {}
        names, has_start = parse_names(entries, file), parse_start(entries)
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


@dataclass(frozen=True)
class TokenizerPair:
    """Source and target tokenizers; one object when the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def is_joint(self) -> bool:
        """Tell whether both languages share one vocabulary."""
        return self.source is self.target

    @property
    def pads(self) -> tuple[int, int]:
        return self.source.pad, self.target.pad

    def save(self, folder: Path) -> None:
        self.source.save(folder)
        if not self.is_joint:
            self.target.save(folder / TARGET_FOLDER)


def load_tokenizer_pair(folder: Path) -> TokenizerPair:
    """Read the tokenizers of a run folder."""
    source = load_tokenizer(folder)
    has_own = (folder / TARGET_FOLDER).is_dir()
    return TokenizerPair(source, load_tokenizer(folder / TARGET_FOLDER) if has_own else source)
