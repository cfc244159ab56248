"""Read the tokenizer of a Hugging Face folder from the files it has.

Adds no token to the vocabulary: the model has no rows for one.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from warmstart.errors import WarmstartError
from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_folder import HfFolder
from warmstart.interop.marian_tokenizers import SOURCE, VOCAB, read_marian_tokenizers
from warmstart.interop.sentencepiece_json import parse_model, to_fairseq_json
from warmstart.jsonfiles import has_type, parse_object, show
from warmstart.tokenization.backends import (
    JsonTokenizer,
    SentencePieceTokenizer,
    check_ids,
    library_errors,
    parse_json,
)
from warmstart.tokenization.pair import TokenizerPair
from warmstart.tokenization.specials import FILE_NAME, USUAL, find_usual, parse_names
from warmstart.tokenization.tokenizer import Tokenizer

SETTINGS = "tokenizer_config.json"

_BERT_NORMALIZER = {  # keys of tokenizer_config.json, and of a tokenizer.json
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_WORDPIECE = ("bert", "distilbert", "electra")  # that a vocab.txt belongs to
_FAIRSEQ = ("camembert", "xlm-roberta")


def read_tokenizers(folder: HfFolder, config: HfConfig, vocab_size: int) -> TokenizerPair:
    """Return a folder's tokenizers, which must fit the model's vocabulary; most have only one."""
    if folder.find(SOURCE) and not folder.find("tokenizer.json"):
        pair = read_marian_tokenizers(folder)
        config.require("decoder_start_token_id", [pair.target.bos], "is not the padding token")
        _check_size(pair.source, vocab_size, folder.path / VOCAB)
        return pair
    if config.token("decoder_start_token_id") not in (None, config.token("bos_token_id")):
        config.refuse("bos_token_id", "must begin both source and target, as it does in our models")
    tokenizer = read_tokenizer(folder, config, vocab_size)
    return TokenizerPair(tokenizer, tokenizer)


def read_tokenizer(folder: HfFolder, config: HfConfig, vocab_size: int) -> Tokenizer:
    """Return a folder's tokenizer, which must fit the model's vocabulary."""
    settings = folder.read_json(SETTINGS) or {}
    entries = {**(folder.read_json(FILE_NAME) or {}), **settings}
    names = parse_names(entries, folder.path / SETTINGS)
    file, content = _read_definition(folder, settings, str(config.get("model_type")))
    try:
        tokenizer = _build_tokenizer(file, content, names, config)
    except WarmstartError as error:
        raise WarmstartError(f"{folder.path / file}: {error}") from None
    _check_size(tokenizer, vocab_size, folder.path / file)
    return tokenizer


def _check_size(tokenizer: Tokenizer, vocab_size: int, file: Path) -> None:
    if tokenizer.vocab_size > vocab_size:
        raise WarmstartError(
            f"{file}: the tokenizer has {tokenizer.vocab_size:,} entries, "
            f"the model only {vocab_size:,} (vocab_size)"
        )


def _read_definition(
    folder: HfFolder, settings: dict[str, Any], model_type: str
) -> tuple[str, bytes]:
    """Return the name of the file that was read, and what defines the tokenizer."""
    if content := folder.read_bytes("tokenizer.json"):
        return "tokenizer.json", _apply_settings(content, settings, folder.path / "tokenizer.json")
    if model_type in _WORDPIECE and (content := folder.read_bytes("vocab.txt")):
        return "vocab.txt", _wordpiece(_lines(content, folder, "vocab.txt"), settings)
    if model_type in ("gpt2", "roberta") and (vocab := folder.read_json("vocab.json")):
        merges = _lines(folder.read_bytes("merges.txt") or b"", folder, "merges.txt")
        return "vocab.json", _byte_level(vocab, merges, settings)
    if model_type == "llama" and (content := folder.read_bytes("tokenizer.model")):
        return "tokenizer.model", content
    name = "sentencepiece.bpe.model"
    if model_type in _FAIRSEQ and (content := folder.read_bytes(name)):
        return name, to_fairseq_json(content, model_type)
    raise WarmstartError(
        f"{folder.path}: no tokenizer: neither tokenizer.json nor the vocabulary files of a "
        f"{model_type} model"
    )


def _lines(content: bytes, folder: HfFolder, name: str) -> list[str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WarmstartError(f"{folder.path / name}: byte {error.start} is not UTF-8") from None
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _build_tokenizer(
    file: str, content: bytes, names: dict[str, str], config: HfConfig
) -> Tokenizer:
    if file == "tokenizer.model":
        pieces = parse_model(content).pieces
        ids = {piece.piece: index for index, piece in enumerate(pieces)}
        return SentencePieceTokenizer(content, _add_usual_names(names, ids, config))
    vocab = parse_json(content).get_vocab()
    return JsonTokenizer(content, _add_usual_names(names, vocab, config))


def _add_usual_names(
    names: dict[str, str], vocab: dict[str, int], config: HfConfig
) -> dict[str, str]:
    """Return the names of bos, eos and pad, and of unk and mask if the vocabulary has them."""
    by_id: dict[int | None, str] = {index: name for name, index in vocab.items()}
    names = dict(names)
    for role in USUAL:
        if role in names:
            continue
        index = config.token(f"{role}_token_id") if role in ("bos", "eos", "pad") else None
        name = find_usual(role, vocab.__contains__) or by_id.get(index)
        if name is not None:
            names[role] = name
    if "bos" not in names and "eos" not in names:
        raise WarmstartError("no token begins or ends a text, by its own files or by a usual name")
    names.setdefault("bos", names.get("eos", ""))
    names.setdefault("eos", names["bos"])
    names.setdefault("pad", names["eos"])  # padding is masked, so its token does not matter
    return names


def _apply_settings(content: bytes, settings: dict[str, Any], file: Path) -> bytes:
    """Return a tokenizer.json with the settings that tokenizer_config.json overrides."""
    spec = parse_object(content, file)
    normalizer, splitter = spec.get("normalizer") or {}, spec.get("pre_tokenizer") or {}
    if not isinstance(normalizer, dict) or not isinstance(splitter, dict):
        return content  # loading it gives the error
    before = json.dumps([normalizer, splitter])
    is_bert = str(settings.get("tokenizer_class", "Bert")).startswith("Bert")
    if normalizer.get("type") == "BertNormalizer" and is_bert:
        normalizer |= {
            key: settings[name] for name, key in _BERT_NORMALIZER.items() if name in settings
        }
    if splitter.get("type") == "ByteLevel" and isinstance(settings.get("add_prefix_space"), bool):
        splitter["add_prefix_space"] = settings["add_prefix_space"]
    if json.dumps([normalizer, splitter]) == before:
        return content
    return json.dumps(spec, ensure_ascii=False).encode()


def _wordpiece(lines: Iterable[str], settings: dict[str, Any]) -> bytes:
    vocab = {piece: index for index, piece in enumerate(lines)}
    unk = parse_names(settings, SETTINGS).get("unk", "[UNK]")
    if unk not in vocab:
        raise WarmstartError(f"vocab.txt: no {unk}, the token for unknown words")
    library = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unk))
    library.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=_flag(settings, "tokenize_chinese_chars", True),
        strip_accents=_flag(settings, "strip_accents", None),  # None: as lowercase
        lowercase=_flag(settings, "do_lower_case", True),
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    return _with_specials(library, "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")


def _byte_level(vocab: dict[str, Any], merges: list[str], settings: dict[str, Any]) -> bytes:
    lines = [line.split(" ") for line in merges if line and not line.startswith("#version")]
    is_valid = all(has_type(index, int) and index >= 0 for index in vocab.values())
    if not is_valid or not lines or any(len(line) != 2 for line in lines):
        raise WarmstartError("vocab.json and merges.txt: not a complete vocabulary with its merges")
    check_ids(vocab)
    with library_errors("vocab.json and merges.txt do not fit together"):
        library = tokenizers.Tokenizer(models.BPE(vocab, [(left, right) for left, right in lines]))
    prefix = _flag(settings, "add_prefix_space", False)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    library.decoder = decoders.ByteLevel()
    return _with_specials(library, "<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>")


def _with_specials(library: tokenizers.Tokenizer, *tokens: str) -> bytes:
    """Return a tokenizer.json in which those of these tokens that exist are special."""
    library.add_special_tokens(
        [token for token in tokens if library.token_to_id(token) is not None]
    )
    return str(library.to_str()).encode()


def _flag(settings: dict[str, Any], key: str, default: bool | None) -> Any:
    value = settings.get(key, default)
    if value is not default and not isinstance(value, bool):
        raise WarmstartError(f"{SETTINGS}: {key}={show(value)} must be true or false")
    return value
