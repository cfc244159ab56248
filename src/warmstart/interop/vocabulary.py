"""The tokenizer of a Hugging Face folder, from whichever files it has.

Grows no vocabulary: a model has no rows for new tokens.
"""

import json
from collections.abc import Iterable
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from warmstart.errors import WarmstartError
from warmstart.interop.folder import Folder
from warmstart.interop.keys import Keys
from warmstart.interop.sentencepieces import parse_model, to_fairseq_json
from warmstart.tokenization.backends import Backend, LibraryBackend, SentencePieceBackend
from warmstart.tokenization.specials import FILE_NAME, USUAL, find_usual, parse_names
from warmstart.tokenization.tokenizer import Tokenizer

SETTINGS = "tokenizer_config.json"

_BERT = {  # settings, and what a tokenizer.json calls them
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


def read_tokenizer(folder: Folder, keys: Keys, vocab_size: int) -> Tokenizer:
    """Return a folder's tokenizer, which must fit into the model's vocabulary."""
    settings = folder.json_of(SETTINGS) or {}
    entries = {**(folder.json_of(FILE_NAME) or {}), **settings}
    told = parse_names(entries, folder.path / SETTINGS)
    file, content = _definition(folder, settings, str(keys.get("model_type")))
    try:
        tokenizer = Tokenizer(_backend(file, content, told, keys))
    except WarmstartError as error:
        raise WarmstartError(f"{folder.path / file}: {error}") from None
    if tokenizer.vocab_size > vocab_size:
        raise WarmstartError(
            f"{folder.path / file}: the tokenizer has {tokenizer.vocab_size:,} entries, "
            f"the model only {vocab_size:,} (vocab_size)"
        )
    return tokenizer


def _definition(folder: Folder, settings: dict[str, Any], model_type: str) -> tuple[str, bytes]:
    """Return the name of the file that was read, and what defines the tokenizer."""
    if content := folder.bytes_of("tokenizer.json"):
        return "tokenizer.json", _adjusted(content, settings)
    if model_type == "bert" and (content := folder.bytes_of("vocab.txt")):
        return "vocab.txt", _wordpiece(_lines(content, folder, "vocab.txt"), settings)
    if model_type in ("gpt2", "roberta") and (vocab := folder.json_of("vocab.json")):
        merges = _lines(folder.bytes_of("merges.txt") or b"", folder, "merges.txt")
        return "vocab.json", _byte_level(vocab, merges, settings)
    if model_type == "llama" and (content := folder.bytes_of("tokenizer.model")):
        return "tokenizer.model", content
    kin, name = ("camembert", "xlm-roberta"), "sentencepiece.bpe.model"
    if model_type in kin and (content := folder.bytes_of(name)):
        return name, to_fairseq_json(content, model_type)
    raise WarmstartError(
        f"{folder.path}: no tokenizer: neither tokenizer.json nor the vocabulary files of a "
        f"{model_type} model"
    )


def _lines(content: bytes, folder: Folder, name: str) -> list[str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WarmstartError(f"{folder.path / name}: byte {error.start} is not UTF-8") from None
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _backend(file: str, content: bytes, told: dict[str, str], keys: Keys) -> Backend:
    if file == "tokenizer.model":
        return SentencePieceBackend(content, _complete(told, _ids_of_pieces(content), keys))
    vocab = LibraryBackend.vocabulary(content)
    return LibraryBackend(content, _complete(told, vocab, keys))


def _ids_of_pieces(content: bytes) -> dict[str, int]:
    return {piece.text: index for index, piece in enumerate(parse_model(content).pieces)}


def _complete(told: dict[str, str], vocab: dict[str, int], keys: Keys) -> dict[str, str]:
    """Return the names of bos, eos and pad, and of unk and mask where there are any."""
    by_id = {index: name for name, index in vocab.items()}
    names = dict(told)
    for role in USUAL:
        if role in names:
            continue
        index = keys.token(f"{role}_token_id") if role in ("bos", "eos", "pad") else None
        found = find_usual(role, vocab.__contains__) or by_id.get(-1 if index is None else index)
        if found is not None:
            names[role] = found
    if "bos" not in names and "eos" not in names:
        raise WarmstartError("no token begins or ends a text, by its own files or by a usual name")
    names.setdefault("bos", names.get("eos", ""))
    names.setdefault("eos", names["bos"])
    names.setdefault("pad", names["eos"])  # padding is masked, so that its token does not matter
    return names


def _adjusted(content: bytes, settings: dict[str, Any]) -> bytes:
    """Return a tokenizer.json with what tokenizer_config.json says otherwise about it."""
    try:
        spec = json.loads(content)
        normal, splits = spec.get("normalizer") or {}, spec.get("pre_tokenizer") or {}
    except (ValueError, RecursionError, AttributeError):
        return content  # whoever loads it says what is wrong
    if not isinstance(normal, dict) or not isinstance(splits, dict):
        return content
    before = json.dumps([normal, splits])
    is_bert = str(settings.get("tokenizer_class", "Bert")).startswith("Bert")
    if normal.get("type") == "BertNormalizer" and is_bert:
        normal |= {key: settings[name] for name, key in _BERT.items() if name in settings}
    if splits.get("type") == "ByteLevel" and isinstance(settings.get("add_prefix_space"), bool):
        splits["add_prefix_space"] = settings["add_prefix_space"]
    if json.dumps([normal, splits]) == before:
        return content
    return json.dumps(spec, ensure_ascii=False).encode()


def _wordpiece(lines: Iterable[str], settings: dict[str, Any]) -> bytes:
    vocab = {piece: index for index, piece in enumerate(lines)}
    unk = parse_names(settings, SETTINGS).get("unk", "[UNK]")
    if unk not in vocab:
        raise WarmstartError(f"vocab.txt: no {unk}, the token of what it does not know")
    library = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unk))
    library.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=_flag(settings, "tokenize_chinese_chars", True),
        strip_accents=None
        if settings.get("strip_accents") is None
        else _flag(settings, "strip_accents", True),
        lowercase=_flag(settings, "do_lower_case", True),
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    marks = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
    library.add_special_tokens([mark for mark in marks if mark in vocab])
    return str(library.to_str()).encode()


def _byte_level(vocab: dict[str, Any], merges: list[str], settings: dict[str, Any]) -> bytes:
    lines = [line.split(" ") for line in merges if line and not line.startswith("#version")]
    is_whole = all(isinstance(i, int) and 0 <= i < 1 << 31 for i in vocab.values())
    if not is_whole or not lines or any(len(line) != 2 for line in lines):
        raise WarmstartError("vocab.json and merges.txt: not a whole vocabulary with its merges")
    try:
        library = tokenizers.Tokenizer(models.BPE(vocab, [(left, right) for left, right in lines]))
    except Exception as error:  # the library raises nothing narrower
        raise WarmstartError(f"vocab.json and merges.txt do not fit together ({error})") from None
    prefix = _flag(settings, "add_prefix_space", False)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    library.decoder = decoders.ByteLevel()
    marks = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>")
    library.add_special_tokens([mark for mark in marks if mark in vocab])
    return str(library.to_str()).encode()


def _flag(settings: dict[str, Any], key: str, default: bool) -> bool:
    value = settings.get(key, default)
    if not isinstance(value, bool):
        raise WarmstartError(f"{SETTINGS}: {key}={str(value)[:40]!r} must be true or false")
    return value
