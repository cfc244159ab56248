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
