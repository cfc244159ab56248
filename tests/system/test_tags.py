"""Tags from the built-in files to a served model, killed once on the way."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warmstart
from command_line import MACHINE, SHAPE, World, read, succeed
from http_server import serving
from warmstart.samples.tagged import TaggedFiles, TaggedSizes, write_tagged
from warmstart.verify.resume import KilledJob, kill_and_resume

pytestmark = pytest.mark.slow
TEXT = "It was published in Lyon in March 1999 ."


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TaggedFiles:
    """Return the built-in tagged sentences, fewer of them."""
    folder = tmp_path_factory.mktemp("tags")
    return write_tagged(folder, sizes=TaggedSizes(train=200, valid=80, test=80))


@pytest.fixture(scope="module")
def compared(files: TaggedFiles, base: Path, masked: Path) -> Path:
    """Return a comparison of a causal and a masked model on tags."""
    out = files.train.parent / "compared"
    options = f"--labels 60,all --seeds 0,1 --trials 1 --epochs 3 {MACHINE}"
    succeed(
        f"compare --from {base} --from {masked} --train {files.train} --valid {files.valid} "
        f"--test {files.test} {options} -o {out}"
    )
    return out


def test_causal_and_masked_models_are_compared(compared: Path) -> None:
    results = read(compared / "results.json")
    assert (results["task"], results["metric"]) == ("tag", "entity F1")
    names = {arm["name"] for arm in results["arms"]}
    assert {"warm: base", "warm: masked", "frozen: masked", "word features"} <= names
    summary = results["summary"]
    assert "entity F1 on test" in summary["advice"]["sentence"]
    pairs = {(d["first"], d["second"]) for d in summary["differences"]}
    assert ("warm: base", "warm: masked") in pairs
    scores = {row["arm"]: row["scored"] for row in summary["scores"] if row["labels"] == 200}
    assert scores["word features"]["accuracy"] > 0.5  # F1: word shapes tell much
    interval = scores["word features"]["interval"]
    assert interval["low"] < scores["word features"]["accuracy"] < interval["high"]
    page = (compared / "report.html").read_text(encoding="utf-8")
    for words in ("Entity F1 by epoch", "Class balance", "B-person", "word features: words, their"):
        assert words in page
    assert "Macro F1 is the mean" not in page


def test_every_kept_model_finds_entities(compared: Path, files: TaggedFiles) -> None:
    for folder in (compared / "models").iterdir():
        scores = succeed(f"evaluate {folder} --test {files.test} --json {MACHINE}").json
        results = read(compared / "results.json")
        assert scores["rows"] == len(results["splits"][-1]["classes"])
    features = warmstart.load(compared / "models/word-features")
    (answer,) = features.predict([TEXT])
    assert "Lyon" in {entity.text for entity in answer.entities}


def test_folds_take_turns(files: TaggedFiles, masked: Path, here: Path) -> None:
    options = f"--folds 2 --arms warm,tfidf --seeds 0 --trials 1 --epochs 1 {MACHINE}"
    succeed(f"compare --from {masked} --train {files.valid} {options} -o out")
    assert read(here / "out/results.json")["splits"][0]["num_folds"] == 2


def test_a_killed_training_ends_with_the_same_weights(files: TaggedFiles, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "train": [str(files.train)],
        "valid": str(files.valid),
        "preset": "tiny",
        "width": 32,
        "depth": 1,
        "vocab_size": 300,
        "max_length": 16,
        "epochs": 12,
        "save_every": 5,
        "threads": 1,
    }
    job = KilledJob("finetune", settings)
    (kill,) = kill_and_resume(job, 1, random.Random(0), tmp_path)
    assert kill.differs == ()


@pytest.mark.parametrize(
    ("options", "architecture"),
    [
        ("bert-base", "BertForTokenClassification"),
        ("modern-small", "EuroBertForTokenClassification"),
        ("modern-small --objective causal", "LlamaForTokenClassification"),
        ("tiny --objective causal", "GPT2ForTokenClassification"),
    ],
)
def test_exported_taggers_give_the_same_tags(
    options: str, architecture: str, files: TaggedFiles, world: World, here: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    small = "--width 16 --heads 2 --depth 1 --ffn-width 32 --vocab-size 300 --max-length 64"
    trained = f"--train {files.train} --valid {files.valid} --epochs 4 --learning-rate 0.01"
    start = f"--preset {options} {small}"
    if "causal" in options:  # a tagger without a pretrained model reads in both directions
        succeed(f"pretrain {world.texts} {start} --steps 2 --batch-tokens 128 {MACHINE} -o base")
        start = "--from base"
    succeed(f"finetune {trained} {start} {MACHINE} -o run")
    succeed("export run --to hf -o exported")
    assert read(here / "exported/config.json")["architectures"] == [architecture]
    pipeline = transformers.pipeline("token-classification", "exported", ignore_labels=[])
    model = warmstart.load("run", threads=1, precision="fp32")
    ids = model.encode([TEXT]).ids[0]
    ours = model.model(*_inputs(ids)).softmax(-1)[0, 1:-1].max(-1)
    theirs = pipeline(TEXT)
    theirs = [token for token in theirs if token["word"] not in ("[CLS]", "[SEP]", "<s>", "</s>")]
    classes = read(here / "run/config.json")["classes"]
    assert [token["entity"] for token in theirs] == [classes[n] for n in ours.indices]
    np.testing.assert_allclose([t["score"] for t in theirs], ours.values.detach(), atol=1e-5)
    succeed("import exported -o again")
    first, second = (warmstart.load(name, threads=1, precision="fp32") for name in ("run", "again"))
    a, b = (m.predict([TEXT])[0].entities for m in (first, second))
    assert [(e.label, e.start, e.end) for e in a] == [(e.label, e.start, e.end) for e in b]


def _inputs(ids: list[int]) -> tuple[Any, Any]:
    import torch

    from warmstart.model.backbone import Layout

    return torch.tensor([ids]), Layout(is_token=torch.ones(1, len(ids), dtype=torch.bool))


def test_onnx_tags_as_we_do(files: TaggedFiles, here: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    tokenizers = pytest.importorskip("tokenizers")
    files_given = f"--train {files.train} --valid {files.valid}"
    succeed(f"finetune {files_given} {SHAPE} --epochs 2 {MACHINE} -o run")
    succeed("export run --to onnx -o exported")
    tokenizer = tokenizers.Tokenizer.from_file("exported/tokenizer.json")
    text = tokenizer.encode("A short text .")
    session = runtime.InferenceSession("exported/model.onnx")
    inputs = {"input_ids": np.array([text.ids]), "attention_mask": np.array([text.attention_mask])}
    (logits,) = session.run(None, inputs)
    model = warmstart.load("run", threads=1, precision="fp32")
    ours = model.model(*_inputs(text.ids)).detach().numpy()
    np.testing.assert_allclose(logits, ours, atol=1e-5)
    assert read(here / "exported/config.json")["id2label"]["6"] == "O"


def test_it_is_served(compared: Path) -> None:
    run = next((compared / "models").glob("warm-masked"))
    with serving(f"tags={run}") as server:
        answer = server.post("/classify", {"texts": [TEXT, "x " * 200]}).json
    expected = warmstart.load(run, threads=1, precision="fp32").predict([TEXT])[0]
    entities = answer["predictions"][0]["entities"]
    assert [e["label"] for e in entities] == [e.label for e in expected.entities]
    assert [TEXT[e["start"] : e["end"]] for e in entities] == [e["text"] for e in entities]
    assert answer["truncated"] == 0


def test_the_page_colours_entities(compared: Path, browser: Any) -> None:
    run = compared / "models/word-features"
    text = "😀 It was published in Lyon in March 1999 ."
    (answer,) = warmstart.load(run).predict([text])
    assert answer.entities
    with serving(f"tags={run}") as server:
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.goto(f"{server.url}/")
        page.fill("#text", text)
        page.click("button.main")
        page.wait_for_selector("mark")
        marks = page.locator("mark").all()
        shown = [mark.evaluate("mark => mark.firstChild.textContent") for mark in marks]
        colours = {
            mark.evaluate("mark => getComputedStyle(mark).backgroundColor") for mark in marks
        }
        page.close()
    assert shown == [entity.text for entity in answer.entities]
    assert len(colours) == len({entity.label for entity in answer.entities})
