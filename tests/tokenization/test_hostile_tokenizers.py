"""Tokenizers that make the library panic or take all memory: one sentence, and a quiet terminal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warmstart.errors import WarmstartError
from warmstart.tokenization.backends import load_tokenizer, train_tokenizer

Spec = dict[str, Any]


def _split(pattern: str) -> Spec:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def _replace(kind: str, pattern: str) -> Spec:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": "x"}


def _entry(part: str, value: Any) -> Callable[[Spec], None]:
    return lambda spec: spec.update({part: value})


def _model(key: str, value: Any) -> Callable[[Spec], None]:
    return lambda spec: spec["model"].update({key: value})


@pytest.fixture(scope="module")
def whole() -> bytes:
    return train_tokenizer(["a b c d e f"] * 9, "bpe", 270).content


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_entry("pre_tokenizer", _split("(a+)+$")), "cannot read a text (Onig: Regex search error"),
        (_entry("pre_tokenizer", _split("(")), "not a tokenizer.json ("),
        (_entry("pre_tokenizer", {"type": "FixedLength", "length": 0}), "chunk size"),
        (_entry("normalizer", _replace("Regex", "(a|aa)+$")), "cannot read a text (Onig"),
        (_entry("normalizer", _replace("String", "")), "cannot read a text (index out of bounds"),
        (_entry("normalizer", {"type": "Precompiled", "precompiled_charsmap": ""}), "Precompiled"),
        (_model("continuing_subword_prefix", "z" * 12), "merges without the continuing_subword"),
        (_model("continuing_subword_prefix", "x"), "continuing_subword_prefix 'x'"),
        (lambda spec: spec["model"]["vocab"].update(e=(1 << 32) - 1), "the id 4,294,967,295 in a"),
        (
            _entry("model", {"type": "Unigram", "unk_id": None, "vocab": [["a", -1.0]]}),
            "cannot read a text (Encountered an unknown token",
        ),
    ],
)
def test_a_tokenizer_that_cannot_work_is_refused(
    whole: bytes,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    change: Callable[[Spec], None],
    said: str,
) -> None:
    spec = json.loads(whole)
    change(spec)
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(spec))
    with pytest.raises(WarmstartError) as error:
        load_tokenizer(file)
    assert str(error.value).startswith(f"{file}: ")
    assert said in str(error.value)
    assert capfd.readouterr().err == ""


def test_a_text_that_makes_it_panic_later(whole: bytes, tmp_path: Path) -> None:
    spec = json.loads(whole) | {"pre_tokenizer": _split("(b+)+$")}
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode(["a c"]) != [[]]
    with pytest.raises(WarmstartError, match="cannot read a text"):
        tokenizer.encode(["b" * 40 + "!"])


def test_a_token_that_is_half_a_character(whole: bytes, tmp_path: Path) -> None:
    spec = json.loads(whole)
    spec["model"]["vocab"]["\ufffd"] = len(spec["model"]["vocab"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    tokenizer = load_tokenizer(tmp_path)
    assert "\ufffd" in tokenizer.labels(range(tokenizer.vocab_size))
