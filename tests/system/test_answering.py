"""Questions from the built-in files to a served model, killed once on the way."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import warmstart
from command_line import MACHINE, SHAPE, World, read, succeed
from http_server import serving
from warmstart.samples.questions import QuestionFiles, QuestionSizes, write_questions
from warmstart.verify.resume import KilledJob, kill_and_resume

pytestmark = pytest.mark.slow
QUESTION = "Who moved to Lyon?"
PASSAGE = "😀 In 1921, Anna Keller moved to Lyon. Paul Varga was born in Oslo in May 1899."


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> QuestionFiles:
    """Return the built-in questions, fewer of them."""
    sizes = QuestionSizes(train=120, valid=60, test=60, passages=20)
    return write_questions(tmp_path_factory.mktemp("answers"), sizes=sizes)


@pytest.fixture(scope="module")
def compared(files: QuestionFiles, base: Path, masked: Path) -> Path:
    """Return a comparison of a causal and a masked model on questions."""
    out = files.train.parent / "compared"
    options = f"--labels 60,all --seeds 0,1 --trials 1 --epochs 1 {MACHINE}"
    succeed(
        f"compare --from {base} --from {masked} --train {files.train} --valid {files.valid} "
        f"--test {files.test} {options} -o {out}"
    )
    return out


def test_causal_and_masked_models_are_compared(compared: Path) -> None:
    results = read(compared / "results.json")
    assert (results["task"], results["metric"]) == ("answer", "F1")
    names = {arm["name"] for arm in results["arms"]}
    assert {"warm: base", "warm: masked", "frozen: masked", "span overlap", "no answer"} <= names
    summary = results["summary"]
    pairs = {(d["first"], d["second"]) for d in summary["differences"]}
    assert {("warm: base", "warm: masked"), ("warm: masked", "span overlap")} <= pairs
    scores = {row["arm"]: row["scored"] for row in summary["scores"] if row["labels"] == 120}
    assert scores["no answer"]["accuracy"] == pytest.approx(1 / 3)
    assert scores["span overlap"]["accuracy"] > 1 / 3
    assert all(row["f1"] <= row["accuracy"] + 1e-9 for row in scores.values())  # exact match
    page = (compared / "report.html").read_text(encoding="utf-8")
    for words in ("F1 by epoch", "exact match", "span overlap: the part of the passage near"):
        assert words in page


def test_every_kept_model_answers(compared: Path, files: QuestionFiles) -> None:
    for folder in (compared / "models").iterdir():
        scores = succeed(f"evaluate {folder} --test {files.test} --json {MACHINE}").json
        assert (scores["rows"], scores["unanswerable"]["questions"]) == (60, 20)
        (answer,) = warmstart.load(folder).predict([QUESTION], [PASSAGE])
        assert PASSAGE[answer.start or 0 : answer.end or 0] == answer.answer


def test_folds_keep_a_passage_together(files: QuestionFiles, masked: Path, here: Path) -> None:
    options = f"--folds 2 --arms warm,tfidf --seeds 0 --trials 1 --epochs 1 {MACHINE}"
    ran = succeed(f"compare --from {masked} --train {files.valid} {options} -o out")
    assert "60 texts have copies or near-copies, each in the same fold" in ran.err
    assert read(here / "out/results.json")["splits"][0]["num_folds"] == 2


def test_a_killed_training_ends_with_the_same_weights(files: QuestionFiles, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "train": [str(files.train)],
        "valid": str(files.valid),
        "preset": "tiny",
        "width": 32,
        "depth": 1,
        "vocab_size": 300,
        "max_length": 64,
        "epochs": 8,
        "save_every": 5,
        "threads": 1,
    }
    (kill,) = kill_and_resume(KilledJob("finetune", settings), 1, random.Random(0), tmp_path)
    assert kill.differs == ()


@pytest.mark.parametrize(
    ("options", "architecture"),
    [
        ("bert-base", "BertForQuestionAnswering"),
        ("modern-small --objective causal", "LlamaForQuestionAnswering"),
        ("tiny --objective causal", "GPT2ForQuestionAnswering"),
    ],
)
def test_exported_answerers_give_the_same_logits(
    options: str, architecture: str, files: QuestionFiles, world: World, here: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    small = "--width 16 --heads 2 --depth 1 --ffn-width 32 --vocab-size 300 --max-length 200"
    trained = f"--train {files.valid} --valid {files.test} --epochs 2 --learning-rate 0.01"
    start = f"--preset {options} {small}"
    if "causal" in options:  # without a pretrained model it reads in both directions
        succeed(f"pretrain {world.texts} {start} --steps 2 --batch-tokens 400 {MACHINE} -o base")
        start = "--from base"
    succeed(f"finetune {trained} {start} --max-length 200 {MACHINE} -o run")
    succeed("export run --to hf -o exported")
    config = read(here / "exported/config.json")
    assert config["architectures"] == [architecture]
    tokenizer = transformers.AutoTokenizer.from_pretrained("exported")
    theirs = transformers.AutoModelForQuestionAnswering.from_pretrained("exported").eval()
    inputs = tokenizer(QUESTION, PASSAGE, return_tensors="pt")
    model = warmstart.load("run", threads=1, precision="fp32")
    encoded = model.encode([QUESTION], [PASSAGE])
    if architecture.startswith("Bert"):  # other tokenizers leave pairs to the caller
        assert inputs["input_ids"][0].tolist() == encoded.ids[0]
    ids = torch.tensor(encoded.ids)
    given = {"input_ids": ids}
    segments = (torch.arange(ids.shape[1]) >= encoded.starts[0]).long()[None]
    if "token_type_ids" in inputs:
        given["token_type_ids"] = segments
    found = theirs(**given)
    from warmstart.model.backbone import Layout

    layout = Layout(is_token=torch.ones_like(ids, dtype=torch.bool), segments=segments)
    ours = model.model(ids, layout)[0].detach().numpy()
    np.testing.assert_allclose(found.start_logits[0].detach(), ours[:, 0], atol=1e-5)
    np.testing.assert_allclose(found.end_logits[0].detach(), ours[:, 1], atol=1e-5)
    succeed("import exported -o again")
    first, second = (warmstart.load(name, threads=1, precision="fp32") for name in ("run", "again"))
    a, b = (m.predict([QUESTION], [PASSAGE])[0] for m in (first, second))
    assert (a.answer, a.start, a.end) == (b.answer, b.start, b.end)
    assert a.probability == pytest.approx(b.probability, abs=1e-5)


def test_onnx_answers_as_we_do(files: QuestionFiles, here: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    trained = f"--train {files.valid} --valid {files.test}"
    succeed(f"finetune {trained} {SHAPE} --epochs 1 {MACHINE} -o run")
    succeed("export run --to onnx -o exported")
    model = warmstart.load("run", threads=1, precision="fp32")
    ids = model.encode(["Who?"], ["Anna."]).ids
    session = runtime.InferenceSession("exported/model.onnx")
    mask = np.ones_like(np.array(ids))
    begins, ends = session.run(None, {"input_ids": np.array(ids), "attention_mask": mask})
    from warmstart.model.backbone import Layout

    layout = Layout(is_token=torch.from_numpy(mask).bool())
    ours = model.model(torch.tensor(ids), layout)[0].detach().numpy()
    np.testing.assert_allclose(np.stack([begins[0], ends[0]], 1), ours, atol=1e-5)
    config = read(here / "exported/config.json")
    assert config["warmstart_threshold"] == pytest.approx(float(model.model.threshold))


def test_it_is_served(compared: Path) -> None:
    run = compared / "models/warm-masked"
    with serving(f"answers={run}") as server:
        body = {"questions": [QUESTION] * 2, "passages": [PASSAGE, "x " * 200]}
        answer = server.post("/answer", body).json
        assert server.post("/answer", {**body, "passages": ["x"]}).status == 422
    expected = warmstart.load(run, threads=1, precision="fp32").predict([QUESTION], [PASSAGE])[0]
    assert answer["answers"][0]["answer"] == expected.answer
    assert answer["truncated"] == 2  # the model reads 16 tokens, a question may take six


def test_the_page_marks_the_answer(compared: Path, browser: Any) -> None:
    run = compared / "models/span-overlap"
    (answer,) = warmstart.load(run).predict([QUESTION], [PASSAGE])
    assert answer.answer
    with serving(f"answers={run}") as server:
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.goto(f"{server.url}/")
        assert page.inner_text("#prompt2") == "Passage"
        page.fill("#text", QUESTION)
        page.fill("#text2", PASSAGE)
        page.click("button.main")
        page.wait_for_selector("mark")
        shown = page.locator("mark").first.evaluate("mark => mark.firstChild.textContent")
        page.close()
    assert shown == answer.answer
