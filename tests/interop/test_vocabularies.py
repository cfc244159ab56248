"""Tokenization equals transformers' on text from many scripts, whichever files define it."""

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tokenizers

from hub_folders import (
    LLAMA,
    TEXTS,
    piece_model,
    write_byte_level,
    write_json,
    write_wordpieces,
)
from warmstart.errors import WarmstartError
from warmstart.interop.family import HfConfig, HfFolder
from warmstart.interop.tokenizers import read_tokenizer, to_json
from warmstart.tokenization.backends import load_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer

MARKS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def read(folder: Path, model_type: str, **keys: Any) -> Tokenizer:
    values = {"model_type": model_type, **keys}
    return read_tokenizer(HfFolder(folder), HfConfig(values, folder / "config.json"), 1_000)


def assert_same(folder: Path, ours: Tokenizer, theirs: Any) -> None:
    for text in TEXTS:
        wanted = theirs(text, add_special_tokens=False)["input_ids"]
        assert ours.encode([text]) == [wanted], text
    ours.save(folder / "kept")
    kept = load_tokenizer(folder / "kept")
    assert kept.encode(TEXTS) == ours.encode(TEXTS)
    roles = ("bos", "eos", "pad", "unk", "mask", "vocab_size")
    assert [getattr(kept, role) for role in roles] == [getattr(ours, role) for role in roles]
    assert kept.fingerprint() == ours.fingerprint()


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("accents", [True, False, None])
@pytest.mark.parametrize("chinese", [True, False])
def test_wordpieces_of_a_vocab_file(
    tmp_path: Path, lower: bool, accents: bool | None, chinese: bool
) -> None:
    transformers = pytest.importorskip("transformers")
    write_wordpieces(tmp_path)
    settings = {"do_lower_case": lower, "strip_accents": accents, "tokenize_chinese_chars": chinese}
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", **settings})
    ours = read(tmp_path, "bert")
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    assert_same(tmp_path, ours, theirs)
    for text, (ids,) in ((text, ours.encode([text])) for text in TEXTS):
        assert [ours.bos, *ids, ours.eos] == theirs(text)["input_ids"]
    assert ours.pieces([ours.bos, ours.eos, ours.pad, ours.mask or 0]) == [
        "[CLS]",
        "[SEP]",
        "[PAD]",
        "[MASK]",
    ]


def test_settings_beside_a_tokenizer_file_win(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write_wordpieces(tmp_path)
    kind = {"tokenizer_class": "BertTokenizer"}
    read(tmp_path, "bert").save(tmp_path)  # lower case
    write_json(tmp_path / "tokenizer_config.json", {**kind, "do_lower_case": False})
    ours = read(tmp_path, "bert")
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    assert_same(tmp_path, ours, theirs)
    assert ours.encode(["HELLO"]) != ours.encode(["hello"])


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("is_split", [False, True])
def test_byte_level_pieces(tmp_path: Path, prefix: bool, is_split: bool) -> None:
    transformers = pytest.importorskip("transformers")
    roles = {
        f"{role}_token": name
        for role, name in zip(("bos", "pad", "eos", "unk", "mask"), MARKS, strict=True)
    }
    write_byte_level(
        tmp_path,
        MARKS,
        {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": prefix, **roles},
    )
    if is_split:
        spec = json.loads((tmp_path / "tokenizer.json").read_text())["model"]
        write_json(tmp_path / "vocab.json", spec["vocab"])
        merges = "\n".join(" ".join(pair) for pair in spec["merges"])
        (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
        (tmp_path / "tokenizer.json").unlink()
    theirs = transformers.RobertaTokenizer.from_pretrained(tmp_path, add_prefix_space=prefix)
    assert_same(tmp_path, read(tmp_path, "roberta"), theirs)


def test_gpt2_needs_no_padding_token_of_its_own(tmp_path: Path) -> None:
    mark = "<|endoftext|>"
    size = write_byte_level(tmp_path, [mark], {"eos_token": mark, "unk_token": mark})
    ours = read(tmp_path, "gpt2")
    assert ours.vocab_size == size
    assert (ours.bos, ours.eos, ours.pad, ours.unk, ours.mask) == (0, 0, 0, None, None)
    assert ours.encode([mark]) != [[0]]  # a text cannot forge it
    assert ours.with_mask().vocab_size == size + 1
    assert ours.with_mask().pad == 0


def test_special_tokens_have_the_names_they_are_given(tmp_path: Path) -> None:
    marks = ["<a>", "<b>", "<c>"]
    told = {"bos_token": {"content": "<a>"}, "eos_token": "<b>"}
    size = write_byte_level(tmp_path, marks, {})
    write_json(tmp_path / "special_tokens_map.json", told)
    ours = read(tmp_path, "gpt2", pad_token_id=2)
    assert (ours.bos, ours.eos, ours.pad, ours.vocab_size) == (0, 1, 2, size)


@pytest.mark.parametrize("settings", [LLAMA, {}], ids=["as-llama", "normalised"])
def test_pieces_of_llama(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "tokenizer.model").write_bytes(piece_model("bpe", True, **settings))
    ours = read(tmp_path, "llama", eos_token_id=[2, 7])
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    assert ours.encode(TEXTS) == model.encode(list(TEXTS))
    assert (ours.bos, ours.eos, ours.pad, ours.mask) == (1, 2, 2, None)
    assert ours.vocab_size == len(model)
    assert ours.with_mask().vocab_size == len(model) + 1
    ours.save(tmp_path / "kept")
    kept = load_tokenizer(tmp_path / "kept")
    assert (kept.vocab_size, kept.pad, kept.mask) == (ours.vocab_size, 2, None)
    if settings:  # transformers takes these settings for granted
        transformers = pytest.importorskip("transformers")
        write_json(tmp_path / "config.json", {"model_type": "llama"})
        theirs = transformers.LlamaTokenizer.from_pretrained(tmp_path)
        for text in (text.strip() for text in TEXTS):  # it has no prefix before a first space
            wanted = theirs(text, add_special_tokens=False)["input_ids"]
            assert ours.encode([text]) == [wanted], text


@pytest.mark.parametrize("model_type", ["camembert", "xlm-roberta"])
def test_garbage_is_blamed_on_its_file(tmp_path: Path, model_type: str) -> None:
    file = tmp_path / "sentencepiece.bpe.model"
    file.write_bytes(b"garbage" * 9)
    with pytest.raises(WarmstartError) as caught:
        read(tmp_path, model_type)
    assert str(caught.value) == f"{file}: not a SentencePiece model, or a truncated one"


@pytest.mark.parametrize(
    ("model_type", "kind", "shift"),
    [("camembert", "CamembertTokenizer", 4), ("xlm-roberta", "XLMRobertaTokenizer", 1)],
)
def test_pieces_with_shifted_ids(tmp_path: Path, model_type: str, kind: str, shift: int) -> None:
    """The pieces of both come after special tokens, so that every id moves by the same number."""
    (tmp_path / "sentencepiece.bpe.model").write_bytes(piece_model("unigram", False))
    path = str(tmp_path / "sentencepiece.bpe.model")
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    ours = read(tmp_path, model_type)
    for text in TEXTS:
        wanted = [3 if i == model.unk_id() else i + shift for i in model.encode(text)]
        assert ours.encode([text]) == [wanted], text
    assert ours.pieces([ours.bos, ours.eos, ours.pad]) == ["<s>", "</s>", "<pad>"]
    assert ours.mask == ours.vocab_size - 1
    transformers = pytest.importorskip("transformers")
    write_json(tmp_path / "config.json", {"model_type": model_type})
    assert_same(tmp_path, ours, getattr(transformers, kind).from_pretrained(tmp_path))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("has_bytes", [True, False])
@pytest.mark.parametrize(
    "settings",
    [LLAMA, {}, {"add_dummy_prefix": False}],
    ids=["as-llama", "normalised", "no-prefix"],
)
def test_a_piece_model_as_a_tokenizer_file(
    kind: str, has_bytes: bool, settings: dict[str, Any]
) -> None:
    content = piece_model(kind, has_bytes, **settings)
    made = tokenizers.Tokenizer.from_buffer(to_json(content, ["<pad>"]))
    model = sentencepiece.SentencePieceProcessor(model_proto=content)
    for text in TEXTS:
        assert made.encode(text).ids == model.encode(text), text
    assert made.token_to_id("<pad>") == len(model)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"user_defined_symbols": ["book"]}, "book"),
        ({"treat_whitespace_as_suffix": True}, "after words"),
    ],
)
def test_a_piece_model_that_does_not_convert(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(WarmstartError, match=reason):
        to_json(piece_model("bpe", True, **settings))


def test_ids_beyond_the_vocabulary_are_no_text(tmp_path: Path) -> None:
    """The rows of a model are often rounded up, and its output may be any of them."""
    (tmp_path / "pieces.model").write_bytes(piece_model("bpe", True))
    write_byte_level(tmp_path, MARKS, {})
    for name in ("pieces.model", "tokenizer.json"):
        ours = load_tokenizer(tmp_path / name)
        (ids,) = ours.encode(["the book"])
        assert ours.decode([*ids, ours.vocab_size + 7]).strip() == "the book"
        assert ours.pieces([ours.vocab_size + 7]) == [f"<{ours.vocab_size + 7}>"]
