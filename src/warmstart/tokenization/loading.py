"""Train a tokenizer on text, or load one from a file."""

from collections.abc import Callable, Iterable
from pathlib import Path

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import read_object
from warmstart.progress import say
from warmstart.textfiles import base_suffix, read_bytes, read_lines
from warmstart.tokenization import specials
from warmstart.tokenization.backends import JsonTokenizer, SentencePieceTokenizer
from warmstart.tokenization.tokenizer import Names, Tokenizer
from warmstart.tokenization.vocabularies import pieces_json, train_json


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
    if path.is_dir():
        names = _read_names(path / specials.FILE_NAME)
        path = _definition_file(path)
    match base_suffix(path):
        case ".json":
            return _load(path, JsonTokenizer, names)
        case ".model":
            return _load(path, SentencePieceTokenizer, names)
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


def _read_names(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    return specials.parse_names(read_object(file), file)


def _load(path: Path, kind: Callable[[bytes, Names], Tokenizer], names: Names) -> Tokenizer:
    content = read_bytes(path)
    try:
        return kind(content, names)
    except WarmstartError as error:
        raise WarmstartError(f"{path}: {error}") from None
