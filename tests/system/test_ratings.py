"""Ratings from the built-in files to a served model, killed once on the way."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warmstart
from command_line import MACHINE, SHAPE, World, read, succeed
from http_server import serving
from warmstart.samples.ratings import RatingFiles, RatingSizes, write_ratings
from warmstart.verify.resume import KilledJob, kill_and_resume

pytestmark = pytest.mark.slow
PRAISE = "This novel is wonderful and moving. I loved every page. The style is superb!"
BLAME = "This novel is dull and clumsy. I hated every page. The style is heavy!"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RatingFiles:
    """Return the built-in ratings, fewer of them."""
    sizes = RatingSizes(train=240, valid=80, test=120)
    return write_ratings(tmp_path_factory.mktemp("ratings"), sizes=sizes)


@pytest.fixture(scope="module")
def compared(files: RatingFiles, base: Path) -> Path:
    """Return a comparison of every arm on ratings."""
    out = files.train.parent / "compared"
    options = f"--labels 60,all --seeds 0,1 --trials 1 --epochs 2 {MACHINE}"
    ran = succeed(
        f"compare --from {base} --train {files.train} --valid {files.valid} "
        f"--test {files.test} {options} -o {out}"
    )
    assert "so this is --task regress" in ran.err
    return out


def test_every_arm_is_compared_by_its_error(compared: Path) -> None:
    results = read(compared / "results.json")
    assert (results["task"], results["metric"]) == ("regress", "MAE")
    scores = {row["arm"]: row["scored"] for row in results["summary"]["scores"]}
    assert set(scores) == {"warm", "frozen", "cold", "lsa", "tf-idf"}
    assert scores["tf-idf"]["accuracy"] > results["summary"]["chance"]
    page = (compared / "report.html").read_text(encoding="utf-8")
    for words in ("MAE by epoch", "axis inverted: up is better", "Pearson correlation"):
        assert words in page
    assert (compared / "labels.png").exists()


def test_every_kept_model_answers(compared: Path, files: RatingFiles) -> None:
    models = sorted((compared / "models").iterdir())
    assert len(models) == 5
    for folder in models:
        scores = succeed(f"evaluate {folder} --test {files.test} --json {MACHINE}").json
        assert scores["rows"] == 120
        assert 0.7 < scores["interval_coverage"] <= 1
        (answer,) = warmstart.load(folder, threads=1).predict([PRAISE])
        assert answer.low < answer.number < answer.high
    better, worse = warmstart.load(compared / "models/tf-idf").predict([PRAISE, BLAME])
    assert better.number > worse.number


def test_a_killed_training_ends_with_the_same_weights(files: RatingFiles, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "train": [str(files.train)],
        "valid": str(files.valid),
        "preset": "tiny",
        "width": 16,
        "heads": 2,
        "depth": 1,
        "ffn_width": 32,
        "vocab_size": 300,
        "epochs": 8,
        "save_every": 5,
        "threads": 1,
    }
    (kill,) = kill_and_resume(KilledJob("finetune", settings), 1, random.Random(0), tmp_path)
    assert kill.differs == ()


@pytest.mark.parametrize(
    ("shape", "pooling", "architecture"),
    [
        ("bert-base", "cls", "BertForSequenceClassification"),
        ("modern-small --objective masked", "mean", "EuroBertForSequenceClassification"),
        ("tiny --objective causal", "last", "GPT2ForSequenceClassification"),
    ],
)
def test_exported_models_give_the_same_numbers(
    shape: str, pooling: str, architecture: str, files: RatingFiles, world: World, here: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    small = "--width 16 --heads 2 --depth 1 --ffn-width 32 --vocab-size 300 --max-length 64"
    start = f"--preset {shape} {small}"
    if "objective" in shape:
        succeed(f"pretrain {world.texts} {start} --steps 2 --batch-tokens 400 {MACHINE} -o base")
        start = "--from base"
    trained = f"--train {files.valid} --valid {files.test} --epochs 2 --learning-rate 0.01"
    succeed(f"finetune {trained} {start} --pooling {pooling} {MACHINE} -o run")
    succeed("export run --to hf -o exported")
    config = read(here / "exported/config.json")
    assert (config["problem_type"], config["architectures"]) == ("regression", [architecture])
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained("exported").eval()
    assert theirs.config.num_labels == 1
    tokenizer = transformers.AutoTokenizer.from_pretrained("exported")
    inputs = tokenizer([PRAISE, BLAME], padding=True, return_tensors="pt")
    found = theirs(**inputs).logits[:, 0].detach().numpy()
    ours = warmstart.load("run", threads=1, precision="fp32").predict([PRAISE, BLAME])
    np.testing.assert_allclose(found, [answer.number for answer in ours], atol=1e-4)
    succeed("import exported -o again")
    again = warmstart.load("again", threads=1, precision="fp32").predict([PRAISE, BLAME])
    assert [a.number for a in again] == pytest.approx([a.number for a in ours], abs=1e-4)
    assert [a.high for a in again] == pytest.approx([a.high for a in ours], abs=1e-4)


def test_onnx_gives_the_same_numbers(files: RatingFiles, here: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    succeed(
        f"finetune --train {files.valid} --valid {files.test} {SHAPE} --epochs 1 {MACHINE} -o run"
    )
    succeed("export run --to onnx -o exported")
    model = warmstart.load("run", threads=1, precision="fp32")
    ids = np.array(model.encode(["A dull novel."]).ids)
    session = runtime.InferenceSession("exported/model.onnx")
    (logits,) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    assert logits[0, 0] == pytest.approx(model.predict(["A dull novel."])[0].number, abs=1e-4)
    margin = read(here / "exported/config.json")["warmstart_margin"]
    assert margin == pytest.approx(float(model.model.margin))


def test_the_page_shows_the_number(compared: Path, browser: Any) -> None:
    run = compared / "models/warm"
    (expected,) = warmstart.load(run, threads=1, precision="fp32").predict([PRAISE])
    with serving(f"ratings={run}") as server:
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.goto(f"{server.url}/")
        page.fill("#text", PRAISE)
        page.click("button.main")
        page.wait_for_selector("p.number")
        shown, note = page.inner_text("p.number"), page.inner_text("p.number + p.note")
        page.close()
    assert float(shown) == pytest.approx(expected.number, rel=1e-3)
    assert note.startswith("90% interval ")
