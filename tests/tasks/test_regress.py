"""A number for a text: trained in any unit, answered in that of the labels, with an interval."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error
from torch.testing import assert_close

import warmstart
from command_line import MACHINE, read, refuse, succeed
from http_server import serving
from warmstart.batching.batches import pad_texts
from warmstart.model.models import Regressor
from warmstart.settings.model import ModelConfig
from warmstart.tasks.regress import RegressObjective, RegressTask
from warmstart.tasks.ridge_regression import fit_ridge, leave_one_out, solve_number_head

TASK = RegressTask()
WORDS = ["awful", "poor", "plain", "fine", "great"]


@dataclass(frozen=True)
class Numbers:
    """Files of texts with numbers that their words decide."""

    train: Path
    valid: Path
    test: Path


def _write(path: Path, num: int, seed: int, unit: float = 1.0, offset: float = 0.0) -> Path:
    rng = random.Random(seed)
    lines = ["label\ttext"]
    for _ in range(num):
        words = rng.choices(range(len(WORDS)), k=3)
        filler = rng.choices(["one", "two", "three", "four", "five", "six", "seven"], k=4)
        text = [*(WORDS[word] for word in words), *filler]
        rng.shuffle(text)
        number = offset + unit * (sum(words) + rng.gauss(0, 0.3))
        lines.append(f"{number:.9g}\t{' '.join(text)}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    """Return small files in which words add up to a number."""
    folder = tmp_path_factory.mktemp("numbers")
    parts = [("train", 160), ("valid", 60), ("test", 80)]
    return Numbers(*(_write(folder / f"{n}.tsv", num, i) for i, (n, num) in enumerate(parts)))


@pytest.fixture(scope="module")
def regressor(numbers: Numbers, base: Path) -> Path:
    """Return a regression model whose file says that it is one."""
    out = base.parent / "regressor"
    files = f"--train {numbers.train} --valid {numbers.valid}"
    ran = succeed(
        f"finetune --from {base} {files} --epochs 30 --learning-rate 0.02 {MACHINE} -o {out}"
    )
    assert "160 different numbers" in ran.err
    assert "so this is --task regress" in ran.err
    return out


def _texts(file: Path) -> tuple[list[float], list[str]]:
    rows = [line.split("\t") for line in file.read_text().splitlines()[1:]]
    return [float(number) for number, _ in rows], [text for _, text in rows]


def test_it_learns_and_is_scored(regressor: Path, numbers: Numbers) -> None:
    config = read(regressor / "config.json")
    truth, texts = _texts(numbers.train)
    assert config["task"] == "regress"
    assert config["numbers"]["mean"] == pytest.approx(np.mean(truth))
    assert config["numbers"]["std"] == pytest.approx(np.std(truth))
    scores = succeed(f"evaluate {regressor} --test {numbers.test} --json {MACHINE}").json
    truth, texts = _texts(numbers.test)
    assert scores["pearson"] > 0.6
    assert 0.75 < scores["interval_coverage"] <= 1
    for name in ("mae", "rmse", "pearson", "spearman"):
        assert scores["intervals"][name]["low"] < scores[name] < scores["intervals"][name]["high"]
    answers = warmstart.load(regressor, threads=1, precision="fp32").predict(texts)
    mae = mean_absolute_error(truth, [answer.number for answer in answers])
    assert scores["mae"] == pytest.approx(mae, abs=1e-4)
    printed = succeed(f"evaluate {regressor} --test {numbers.test} {MACHINE}").out
    assert "95% interval of spearman" in printed
    card = (regressor / "README.md").read_text()
    assert "MAE (mean absolute error)" in card
    assert "It answers with a number to every text" in card


def test_kept_weights_answer_in_the_unit_of_the_labels(regressor: Path, numbers: Numbers) -> None:
    valid = read(regressor / "scores.json")["valid"]
    scored = succeed(f"evaluate {regressor} --test {numbers.valid} --json {MACHINE}").json
    assert scored["mae"] == pytest.approx(valid["mae"], rel=1e-4)
    assert scored["interval_coverage"] >= 0.9  # the texts that gave the margin
    (answer,) = warmstart.load(regressor, threads=1, precision="fp32").predict(["great fine one"])
    assert answer.high - answer.low == pytest.approx(2 * valid["margin"], rel=1e-5)
    assert answer.low < answer.number < answer.high


def test_no_unit_changes_what_is_learned(base: Path, here: Path) -> None:
    common = f"--from {base} --epochs 3 {MACHINE}"
    _write(Path("a.tsv"), 120, 0)
    _write(Path("b.tsv"), 120, 0, unit=1e6, offset=-5e7)
    for name in "ab":
        succeed(f"finetune --train {name}.tsv {common} -o {name}")
    text = ["great great fine one two"]
    a, b = (warmstart.load(name, threads=1, precision="fp32").predict(text)[0] for name in "ab")
    assert b.number == pytest.approx(1e6 * a.number - 5e7, rel=1e-4)
    valid = [read(Path(name) / "scores.json")["valid"] for name in "ab"]
    assert valid[1]["mae"] == pytest.approx(1e6 * valid[0]["mae"], rel=1e-3)
    assert valid[1]["loss"] == pytest.approx(valid[0]["loss"], rel=1e-3)


def test_every_format_has_the_number_and_its_interval(
    regressor: Path, numbers: Numbers, here: Path
) -> None:
    _, texts = _texts(numbers.test)
    answers = warmstart.load(regressor, threads=1, precision="fp32").predict(texts)
    lines = succeed(f"predict {regressor} {MACHINE}", "\n".join(texts).encode()).out.splitlines()
    assert lines == [answer.label for answer in answers]
    assert [float(line) for line in lines] == pytest.approx([a.number for a in answers], rel=1e-5)
    for ending in ("csv", "jsonl", "parquet"):
        succeed(f"predict {regressor} {numbers.test} -o out.{ending} {MACHINE}")
        assert Path(f"out.{ending}").exists()
    rows = [line.split(",") for line in Path("out.csv").read_text().splitlines()]
    assert rows[0] == ["label", "text", "number", "low", "high"]
    row = succeed(f"predict {regressor} --text great --json {MACHINE}").json
    assert set(row) == {"number", "low", "high"}
    assert "--threshold needs the probability of a class" in refuse(
        f"predict {regressor} --text great --threshold 0.5 {MACHINE}"
    )


def test_too_few_validation_texts_give_no_interval(base: Path, here: Path) -> None:
    _write(Path("train.tsv"), 40, 0)
    _write(Path("valid.tsv"), 8, 1)
    ran = succeed(
        f"finetune --from {base} --train train.tsv --valid valid.tsv --epochs 1 {MACHINE} -o out"
    )
    assert "8 texts to validate on are too few for 90% intervals" in ran.err
    row = succeed(f"predict out --text great --json {MACHINE}").json
    assert (row["low"], row["high"]) == (None, None)
    scores = succeed(f"evaluate out --test train.tsv --json {MACHINE}").json
    assert "interval_coverage" not in scores


def test_numbers_outside_the_training_range_are_counted(regressor: Path, here: Path) -> None:
    Path("far.tsv").write_text(
        "label\ttext\n500\tgreat great\n2.5\tpoor fine\n-90\tawful\n3\tone\n"
    )
    scores = succeed(f"evaluate {regressor} --test far.tsv --json {MACHINE}").json
    assert (scores["rows"], scores["outside_training_range"]) == (4, 2)


@pytest.mark.parametrize("files", ["--valid {valid} --test {test} --labels 60,all", "--folds 2"])
def test_it_is_compared(files: str, numbers: Numbers, base: Path, here: Path) -> None:
    options = f"--seeds 0,1 --trials 2 --epochs 2 {MACHINE} --arms warm,frozen,cold,lsa,tfidf"
    command = f"compare --from {base} --train {{train}} {files} {options} -o out"
    ran = succeed(command, **vars(numbers))
    result = read(here / "out/results.json")
    assert (result["task"], result["metric"]) == ("regress", "MAE")
    truth = result["splits"][-1]["classes"]
    for row in result["summary"]["scores"]:
        cells = [
            c for c in result["cells"] if (c["arm"], c["labels"]) == (row["arm"], row["labels"])
        ]
        answers = [c["predictions"][result["splits"][-1]["name"]] for c in cells]
        expected = np.mean([mean_absolute_error(truth, of_cell) for of_cell in answers])
        assert row["scored"]["accuracy"] == pytest.approx(-expected)  # higher is better
    best = max(result["summary"]["scores"], key=lambda row: row["scored"]["accuracy"])
    assert best["arm"] in ("tf-idf", "lsa", "frozen")  # counts of words decide
    assert best["scored"]["accuracy"] > -0.6
    assert result["summary"]["chance"] < -1
    arm = result["summary"]["advice"]["arm"]
    at_most = [r for r in result["summary"]["scores"] if r["labels"] == result["subsets"][-1]]
    assert arm == max(at_most, key=lambda row: row["scored"]["accuracy"])["arm"]
    assert " MAE " in ran.out + ran.err
    for sentence in (*result["summary"]["findings"], result["summary"]["advice"]["sentence"]):
        assert "points" not in sentence
        assert "%" not in sentence.replace("95%", "")
    page = (here / "out/report.html").read_text(encoding="utf-8")
    assert "lowest first" in page
    assert "Always predicting the median gives" in page
    assert float(succeed(f"predict out {MACHINE}", b"great great fine\n").out) > 5


@pytest.mark.parametrize("arm", ["lsa", "tfidf"])
def test_a_saved_baseline_is_the_one_that_was_scored(
    arm: str, numbers: Numbers, base: Path, here: Path
) -> None:
    files = f"--train {numbers.train} --valid {numbers.valid} --test {numbers.test}"
    options = f"--seeds 0 --arms cold,{arm} --epochs 1 --trials 2 {MACHINE}"
    succeed(f"compare --from {base} {files} {options} -o out")
    cells = read(here / "out/results.json")["cells"]
    (cell,) = (cell for cell in cells if not cell["epochs"])
    _, texts = _texts(numbers.test)
    folder = Path("out/models") / ("tf-idf" if arm == "tfidf" else arm)
    answers = warmstart.load(folder).predict(texts)
    assert [a.number for a in answers] == pytest.approx(cell["predictions"]["test"], abs=1e-5)
    scored = succeed(f"evaluate {folder} --test {numbers.test} --json {MACHINE}").json
    assert scored["mae"] < 1.0  # the median gives 1.4
    assert scored["interval_coverage"] > 0.8


def test_a_frozen_head_is_solved_for(numbers: Numbers, base: Path, here: Path) -> None:
    files = f"--train {numbers.train} --valid {numbers.valid}"
    ran = succeed(f"finetune --from {base} {files} --frozen {MACHINE} -o out")
    assert "without epochs: ridge regression, mean pooling, alpha" in ran.err
    scores = succeed(f"evaluate out --test {numbers.valid} --json {MACHINE}").json
    assert scores["mae"] == pytest.approx(read(Path("out/scores.json"))["valid"]["mae"], rel=1e-4)


def test_an_exported_model_gives_the_same_numbers(numbers: Numbers, here: Path) -> None:
    transformers = pytest.importorskip("transformers")
    files = f"--train {numbers.train} --valid {numbers.valid} --epochs 2 {MACHINE}"
    small = "--width 16 --heads 2 --depth 1 --ffn-width 32 --vocab-size 300 --max-length 32"
    succeed(f"finetune {files} --preset bert-base {small} --pooling cls -o run")
    succeed("export run --to hf -o exported")
    config = read(Path("exported/config.json"))
    assert config["problem_type"] == "regression"
    pipe = transformers.pipeline("text-classification", "exported", device="cpu")
    text = "great fine one two"
    (ours,) = warmstart.load("run", threads=1, precision="fp32").predict([text])
    assert pipe(text)[0]["score"] == pytest.approx(ours.number, abs=1e-4)
    succeed("import exported -o again")
    (back,) = warmstart.load("again", threads=1, precision="fp32").predict([text])
    assert back.number == pytest.approx(ours.number, abs=1e-4)
    assert back.high == pytest.approx(ours.high, abs=1e-4)
    scores = succeed(f"evaluate again --test {numbers.test} --json {MACHINE}").json
    assert scores["rows"] == 80


@pytest.mark.slow
def test_an_onnx_graph_gives_the_same_numbers(regressor: Path, here: Path) -> None:
    pytest.importorskip("onnxruntime")
    ran = succeed(f"export {regressor} --to onnx -o graph")
    assert "outputs differ by" in ran.out + ran.err
    config = read(Path("graph/config.json"))
    assert config["warmstart_margin"] == pytest.approx(
        read(regressor / "scores.json")["valid"]["margin"], rel=1e-6
    )
    assert "in the unit of the labels" in Path("graph/README.md").read_text()


def test_loss_is_that_of_every_text_whatever_the_batches(
    tiny: ModelConfig, randomised: Any
) -> None:
    model = randomised(Regressor(tiny, "mean")).eval()
    texts, targets = [[1, 5, 2], [1, 6, 7, 8, 2], [1, 9, 2]], [0.5, -1.0, 2.0]
    objective = RegressObjective()
    parts = [pad_texts(texts, targets, [row], 0) for row in range(3)]
    whole = pad_texts(texts, targets, range(3), 0, length=8)
    losses = [objective(model, part)["number"] for part in parts]
    assert_close(objective(model, whole)["number"], sum(losses))
    assert objective.count(parts) == {"number": 3.0}


@pytest.mark.parametrize("num_columns", [4, 60])
@pytest.mark.parametrize("alpha", [0.1, 30.0])
def test_leaving_one_out_equals_refitting(num_columns: int, alpha: float) -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(25, num_columns))
    numbers = columns[:, 0] + rng.normal(size=25) + 3
    (predicted,) = leave_one_out(columns, numbers, [alpha])
    for row in range(25):
        others = np.arange(25) != row
        line = fit_ridge(columns[others], numbers[others], alpha)
        assert predicted[row] == pytest.approx(line(columns[row : row + 1])[0], abs=1e-4)


def test_a_solved_head_is_ridge_on_standardised_vectors() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(80, 6)) * [1, 2, 3, 4, 5, 6] + 7
    numbers = vectors[:, 0] + rng.normal(0, 0.5, 80)
    head = solve_number_head({"mean": vectors}, numbers)
    columns = (vectors - vectors.mean(0)) / vectors.std(0)
    errors = {
        alpha: np.abs(
            head.outputs(vectors)[:, 0] - Ridge(alpha=alpha).fit(columns, numbers).predict(columns)
        ).max()
        for alpha in (1.0, 10.0, 100.0)
    }
    assert min(errors.values()) < 1e-6


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--balance weights", "--balance weights is for classifiers"),
        ("--select f1", "--select f1 is for --task classify"),
        ("--labels 9999", "--labels 9999 is not possible"),
    ],
)
def test_what_has_no_meaning_here_is_refused(
    options: str, complaint: str, numbers: Numbers, base: Path, here: Path
) -> None:
    assert complaint in refuse(
        f"finetune --from {base} --train {numbers.train} {options} {MACHINE} -o out"
    )


def test_few_labels_are_enough(numbers: Numbers, base: Path, here: Path) -> None:
    files = f"--train {numbers.train} --valid {numbers.valid}"
    succeed(f"finetune --from {base} {files} --labels 2 --epochs 1 {MACHINE} -o out")


def test_it_is_served(regressor: Path) -> None:
    with serving(f"numbers={regressor}") as server:
        (answer,) = server.post("/classify", {"texts": ["great fine one"]}).json["predictions"]
    (expected,) = warmstart.load(regressor, threads=1, precision="fp32").predict(["great fine one"])
    assert answer["number"] == pytest.approx(expected.number, abs=1e-5)
    assert answer["low"] == pytest.approx(expected.low, abs=1e-5)


def test_it_is_planned_and_counted(numbers: Numbers, regressor: Path, base: Path) -> None:
    files = f"--train {numbers.train} --valid {numbers.valid}"
    planned = succeed(f"plan finetune --from {base} {files} --json {MACHINE}").json
    assert planned["steps"] > 0
    planned = succeed(f"plan compare --from {base} {files} --json {MACHINE}").json
    assert planned
    counted = succeed(f"params {regressor} --json").json
    assert counted["total"] == sum(
        p.numel() for p in warmstart.load(regressor, threads=1).model.parameters()
    )
