"""Tokenizers that make the library panic or take all memory: one sentence, and a quiet terminal."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sentencepiece.sentencepiece_model_pb2 import ModelProto

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


TENFOLD = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
RARE = {"type": "Replace", "pattern": {"Regex": "[\u4e01]"}, "content": "q"}
RARE_TENFOLD = {"type": "Replace", "pattern": {"Regex": "[q]"}, "content": "q" * 10}
DOUBLE = {"type": "Replace", "pattern": {"Regex": "(?=\u4e01)"}, "content": "\u4e01"}


def _sequence(kind: str, *steps: Spec) -> Spec:
    return {"type": "Sequence", kind: list(steps)}


def _charsmap(longest: int) -> bytes:
    return (4).to_bytes(4, "little") + bytes(4) + b"a\0" + b"b" * longest + b"\0"


@pytest.mark.parametrize(
    ("part", "steps"),
    [
        ("normalizer", _sequence("normalizers", *[TENFOLD] * 12)),
        ("normalizer", _sequence("normalizers", TENFOLD, _sequence("normalizers", *[TENFOLD] * 9))),
        ("normalizer", _sequence("normalizers", RARE, *[RARE_TENFOLD] * 12)),
        ("normalizer", _sequence("normalizers", *[DOUBLE] * 40)),
        ("normalizer", {**TENFOLD, "content": "b" * 100_000_000}),
        ("normalizer", {"type": "Prepend", "prepend": "b" * 100_000_000}),
        ("normalizer", _sequence("normalizers", *[TENFOLD] * 100_000)),
        (
            "normalizer",
            {
                "type": "Precompiled",
                "precompiled_charsmap": base64.b64encode(_charsmap(10_000_000)).decode(),
            },
        ),
        ("decoder", _sequence("decoders", *[TENFOLD] * 12)),
    ],
    ids=["chain", "nested", "rare", "empty", "long", "prefix", "many", "charsmap", "decoder"],
)
def test_a_tokenizer_that_multiplies_text_is_refused(
    whole: bytes, tmp_path: Path, part: str, steps: Spec
) -> None:
    """Twelve steps that make ten letters of one end the process: memory runs out."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(json.loads(whole) | {part: steps}))
    with pytest.raises(WarmstartError, match=r"tokenizer\.json: .*(times as long|characters|many)"):
        load_tokenizer(tmp_path)


def test_usual_normalizers_are_read(whole: bytes, tmp_path: Path) -> None:
    """Like those of ALBERT and CLIP, and thirty that clean letters."""
    steps = [
        _replace("String", "``"),
        *({"type": kind} for kind in ("NFKD", "StripAccents", "Lowercase")),
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "▁"},
        *(
            {"type": "Replace", "pattern": {"Regex": f"[{c}é]"}, "content": "e"}
            for c in "àáâäã" * 6
        ),
        {"type": "Replace", "pattern": {"String": "€"}, "content": " euros "},
    ]
    spec = json.loads(whole) | {"normalizer": _sequence("normalizers", *steps)}
    (tmp_path / "tokenizer.json").write_text(json.dumps(spec))
    assert load_tokenizer(tmp_path).encode(["a b"])


def test_merges_that_repeat(whole: bytes, tmp_path: Path) -> None:
    spec = json.loads(whole)
    spec["model"]["merges"] = ["MERGE"]
    merges = json.dumps(spec).replace('"MERGE"', '["a", "b"], ' * 299_999 + '["a", "b"]')
    (tmp_path / "tokenizer.json").write_text(merges)
    with pytest.raises(WarmstartError, match=r"300,000 merges, but .* some are repeated"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_of_too_many_values(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"[" + b"1," * (1 << 24) + b"1]")
    with pytest.raises(WarmstartError, match="too many values"):
        load_tokenizer(tmp_path)


def test_a_sentencepiece_model_that_multiplies_text(tmp_path: Path) -> None:
    model = ModelProto()
    model.pieces.add(piece="<unk>", score=0.0, type=2)
    model.trainer_spec.vocab_size = 1
    model.normalizer_spec.precompiled_charsmap = _charsmap(10_000_000)
    (tmp_path / "a.model").write_bytes(model.SerializeToString())
    with pytest.raises(WarmstartError, match=r"a\.model: its normalizer makes text"):
        load_tokenizer(tmp_path / "a.model")
