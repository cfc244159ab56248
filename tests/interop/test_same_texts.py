"""A translator that has learned a toy language writes the same texts in every library."""

import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers

from toy_pairs import Toy
from warmstart import export_model, load

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_translate.py"
GRAPHS = {"encoder_model.onnx", "decoder_model.onnx"}


@pytest.fixture(scope="module")
def sentences(toy: Toy) -> list[str]:
    return toy.test_source.read_text().splitlines()


@pytest.fixture(scope="module")
def ours(translator: Path, sentences: list[str]) -> list[str]:
    return [best[0].text for best in load(translator).translate(sentences, beam=1)]


def test_transformers(
    translator: Path, sentences: list[str], ours: list[str], tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    export_model(run=translator, out=tmp_path / "hf")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "hf")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    ids = model.generate(**tokenizer(sentences, padding=True, return_tensors="pt"), num_beams=1)
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == ours


def test_onnxruntime(
    translator: Path, sentences: list[str], ours: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    exported = export_model(run=translator, to="onnx", out=tmp_path / "onnx")
    assert exported.check is not None
    assert exported.check.difference < 1e-4
    assert {file.name for file in exported.folder.glob("*.onnx")} == GRAPHS
    result = subprocess.run(
        [sys.executable, EXAMPLE, tmp_path / "onnx"],
        input="".join(f"{sentence}\n" for sentence in sentences),
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.splitlines() == ours


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_ctranslate2(
    translator: Path, sentences: list[str], ours: list[str], tmp_path: Path, precision: str
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    export_model(run=translator, to="ctranslate2", precision=precision, out=tmp_path / "ct2")
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "ct2" / "tokenizer.json"))
    tokens = [row.tokens for row in tokenizer.encode_batch(sentences, add_special_tokens=False)]
    results = ctranslate2.Translator(str(tmp_path / "ct2")).translate_batch(tokens, beam_size=1)
    written = [[tokenizer.token_to_id(t) for t in result.hypotheses[0]] for result in results]
    assert tokenizer.decode_batch(written) == ours


def test_the_translator_has_learned(ours: list[str], toy: Toy) -> None:
    right = [a == b for a, b in zip(ours, toy.test_target.read_text().splitlines(), strict=True)]
    assert sum(right) > 0.9 * len(right)
