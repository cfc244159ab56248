"""Tokenizers of Hugging Face folders, read and written."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import tokenizers
from google.protobuf.message import DecodeError
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from warmstart.errors import WarmstartError
from warmstart.files import write_json, write_whole
from warmstart.interop.family import HfConfig, HfFolder
from warmstart.interop.formats import PROBES
from warmstart.jsonfiles import has_type, parse_object, show
from warmstart.runs.saved import SavedRun
from warmstart.tasks.registry import task_of
from warmstart.tokenization.backends import (
    NO_MODEL,
    TARGET_FOLDER,
    JsonTokenizer,
    SentencePieceTokenizer,
    library_errors,
    parse_json,
)
from warmstart.tokenization.limits import check_ids
from warmstart.tokenization.tokenizer import (
    SPECIALS_FILE,
    USUAL,
    Tokenizer,
    find_usual,
    parse_names,
)

SETTINGS = "tokenizer_config.json"
_BERT_NORMALIZER = {  # keys of tokenizer_config.json, and of a tokenizer.json
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_WORDPIECE = ("bert", "distilbert", "electra")  # that a vocab.txt belongs to
_FAIRSEQ = ("camembert", "xlm-roberta")
PAD = "<pad>"
SPACE = "▁"
UNIGRAM, BPE = 1, 2  # TrainerSpec.model_type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # SentencePiece.type


def read_tokenizer(folder: HfFolder, config: HfConfig, vocab_size: int) -> Tokenizer:
    """Return a folder's tokenizer, which must fit the model's vocabulary."""
    settings = folder.read_json(SETTINGS) or {}
    entries = {**(folder.read_json(SPECIALS_FILE) or {}), **settings}
    names = parse_names(entries, folder.path / SETTINGS)
    file, content = _read_definition(folder, settings, str(config.get("model_type")))
    with errors_name(folder.path / file):
        tokenizer = _build_tokenizer(file, content, names, config)
    check_size(tokenizer, vocab_size, folder.path / file)
    return tokenizer


@contextmanager
def errors_name(file: Path) -> Iterator[None]:
    """Let errors begin with the file that they are about."""
    try:
        yield
    except WarmstartError as error:
        raise WarmstartError(f"{file}: {error}") from None


def check_size(tokenizer: Tokenizer, vocab_size: int, file: Path) -> None:
    """Refuse a tokenizer with ids that the model does not have."""
    if tokenizer.vocab_size > vocab_size:
        raise WarmstartError(
            f"{file}: the tokenizer has {tokenizer.vocab_size:,} entries, "
            f"the model only {vocab_size:,} (vocab_size)"
        )


def _read_definition(
    folder: HfFolder, settings: dict[str, Any], model_type: str
) -> tuple[str, bytes]:
    """Return the name of the file that was read, and the definition of the tokenizer."""
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
        with errors_name(folder.path / name):
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
    """Return a tokenizer.json in which those of `tokens` that exist are special."""
    library.add_special_tokens(
        [token for token in tokens if library.token_to_id(token) is not None]
    )
    return str(library.to_str()).encode()


def _flag(settings: dict[str, Any], key: str, default: bool | None) -> Any:
    value = settings.get(key, default)
    if value is not default and not isinstance(value, bool):
        raise WarmstartError(f"{SETTINGS}: {key}={show(value)} must be true or false")
    return value


@dataclass(frozen=True)
class HfTokenizer:
    """The files of a tokenizer, and the ids that config.json repeats."""

    content: bytes  # tokenizer.json
    settings: dict[str, Any]  # tokenizer_config.json
    names: dict[str, str]  # special_tokens_map.json
    ids: dict[str, int]  # of the first, the last and the padding token, as config.json has them

    def write(self, folder: Path) -> None:
        """Write the files."""
        write_whole(folder / "tokenizer.json", self.content)
        write_json(folder / "tokenizer_config.json", self.settings)
        write_json(folder / SPECIALS_FILE, self.names)

    def with_pad(self, index: int) -> "HfTokenizer":
        """Return the tokenizer with a separate padding token, which must get the id `index`."""
        library = tokenizers.Tokenizer.from_buffer(self.content)
        unused = [f"<unused{i}>" for i in range(library.get_vocab_size(), index)]
        library.add_special_tokens([*unused, PAD])
        if library.token_to_id(PAD) != index:
            raise WarmstartError(f"its vocabulary leaves no room for a padding token at {index}")
        names = {**self.names, "pad_token": PAD}
        content = str(library.to_str()).encode()
        settings = {**self.settings, **names}
        ids = {**self.ids, "pad_token_id": index}
        return HfTokenizer(content, settings, names, ids)


def convert_tokenizer(
    source: SavedRun, has_segments: bool, tokenizer: Tokenizer | None = None
) -> HfTokenizer:
    """Return a run's tokenizer, that of its input by default, as the files of transformers."""
    tokenizer = tokenizer or source.tokenizer
    library = tokenizers.Tokenizer.from_buffer(_to_json(tokenizer))
    library.no_truncation()
    library.no_padding()
    ids = {"bos": tokenizer.bos, "eos": tokenizer.eos, "pad": tokenizer.pad}
    if has_segments:
        ids |= {"cls": tokenizer.bos, "sep": tokenizer.eos}
    for role, index in (("unk", tokenizer.unk), ("mask", tokenizer.mask)):
        if index is not None:
            ids[role] = index
    names = {f"{role}_token": str(library.id_to_token(index)) for role, index in ids.items()}
    bos, eos = names["bos_token"], names["eos_token"]
    second = 1 if has_segments and source.model.segments > 1 else 0
    # A causal model continues a prompt, so no end token follows the prompt.
    single = "$A" if not tokenizer.has_start else f"{bos} $A"
    if task_of(source).ends_texts:
        single = f"{single} {eos}"
    library.post_processor = processors.TemplateProcessing(
        single=single,
        pair=f"{bos} $A {eos} $B:{second} {eos}:{second}",
        special_tokens=[(bos, tokenizer.bos), (eos, tokenizer.eos)],
    )
    inputs = ["input_ids", *(["token_type_ids"] if has_segments else []), "attention_mask"]
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        "model_max_length": source.model.max_length,
        "model_input_names": inputs,
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
    }
    content = str(library.to_str()).encode()
    usual_ids = {f"{role}_token_id": ids[role] for role in ("bos", "eos", "pad")}
    return HfTokenizer(content, settings, names, usual_ids)


def write_tokenizers(source: SavedRun, has_segments: bool, folder: Path) -> list[HfTokenizer]:
    """Write the tokenizer of a run's input and, if another, that of its output in a subfolder."""
    written = [convert_tokenizer(source, has_segments)]
    written[0].write(folder)
    if not source.tokenizers.is_joint:
        (folder / TARGET_FOLDER).mkdir()
        written.append(convert_tokenizer(source, False, source.tokenizers.target))
        written[1].write(folder / TARGET_FOLDER)
    return written


def _to_json(tokenizer: Tokenizer) -> bytes:
    """Return a tokenizer.json; a SentencePiece model must split every probe in the same way."""
    if tokenizer.file_name == "tokenizer.json":
        return tokenizer.content
    added = tokenizer.pieces(range(tokenizer.own_size, tokenizer.vocab_size))
    converted_content = to_json(tokenizer.content, added)
    ids = {"bos": tokenizer.bos, "eos": tokenizer.eos, "pad": tokenizer.pad}
    names = {role: tokenizer.pieces([index])[0] for role, index in ids.items()}
    converted = JsonTokenizer(converted_content, names)
    if converted.vocab_size != tokenizer.vocab_size:
        raise WarmstartError("its SentencePiece model does not convert to a tokenizer.json exactly")
    encodings = zip(PROBES, tokenizer.encode(PROBES), converted.encode(PROBES), strict=True)
    for probe, ours, theirs in encodings:
        if ours != theirs:
            raise WarmstartError(
                "its SentencePiece model does not convert to a tokenizer.json exactly: it would "
                f"split {json.dumps(probe[:40], ensure_ascii=False)} differently"
            )
    return converted_content


def parse_model(content: bytes) -> Any:
    """Return a SentencePiece file as its `ModelProto`; refuse one without an unknown piece."""
    model = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        model.Clear()
    is_text = all(isinstance(piece.piece, str) for piece in model.pieces)  # bytes: not UTF-8
    if not is_text or all(piece.type != UNKNOWN for piece in model.pieces):
        raise WarmstartError(NO_MODEL)
    return model


def to_json(content: bytes, added: Sequence[str] = ()) -> bytes:
    """Return a SentencePiece file as tokenizer.json, with `added` as special tokens at the end."""
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
