"""Questions are answered by parts of passages, whatever their length, or not at all."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import warmstart
from command_line import MACHINE, read, run, succeed
from warmstart.batching.batches import pad_texts
from warmstart.data.labelled import Dataset
from warmstart.data.questions import read_questions
from warmstart.kernels.loss import IGNORE
from warmstart.model.models import SpanFinder
from warmstart.runtime import Runtime
from warmstart.samples.questions import QuestionFiles, QuestionSizes, write_questions
from warmstart.settings.model import ModelConfig
from warmstart.tasks.answer import SURE, AnswerTask, SpanObjective, best_threshold
from warmstart.tasks.span_overlap import SpanOverlap, fit_overlap
from warmstart.tasks.spans import (
    Edges,
    QuestionRows,
    SpanScores,
    is_inside_word,
    tokens_of_answer,
    windows,
)
from warmstart.tasks.vectors import TextBatches

TASK = AnswerTask()
CPU = Runtime(torch.device("cpu"))


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> QuestionFiles:
    """Return small files of questions."""
    sizes = QuestionSizes(train=120, valid=60, test=60, passages=10)
    return write_questions(tmp_path_factory.mktemp("questions"), sizes=sizes)


@pytest.fixture(scope="module")
def answerer(questions: QuestionFiles, base: Path) -> Path:
    """Return a question answerer, warm-started from a causal model of 16 tokens."""
    out = base.parent / "answerer"
    files = f"--train {questions.train} --valid {questions.valid}"
    succeed(f"finetune --from {base} {files} --epochs 2 --learning-rate 0.01 {MACHINE} -o {out}")
    return out


def spans(passage: str, *odds: float) -> SpanScores:
    places = np.array([(n, n + 1) for n in range(len(odds))], np.int64).reshape(-1, 2)
    return SpanScores(passage, places, np.array(odds))


@pytest.mark.parametrize("num_tokens", [1, 6, 7, 20, 61])
@pytest.mark.parametrize("max_length", [8, 10, 16])
def test_windows_hold_every_token_of_a_passage(num_tokens: int, max_length: int) -> None:
    head, passage = [1, 50, 51, 2], list(range(100, 100 + num_tokens))
    held = set()
    for row, first in windows([*head, *passage, 2], len(head), max_length):
        assert row[: len(head)] == head
        assert (row[-1], len(row) <= max_length) == (2, True)
        inner = row[len(head) : -1]
        assert inner == passage[first : first + len(inner)]
        held |= set(inner)
    assert held == set(passage)


def test_short_answers_are_whole_in_some_window() -> None:
    ids = [1, 50, 2, *range(100, 140), 2]
    data = Dataset(ids=[ids], starts=[3])
    rows = QuestionRows(data, 14)
    for first in range(36):
        targets = [rows.target(row, (first, first + 4)) for row in range(len(rows.ids))]
        held = [(row, target) for row, target in enumerate(targets) if target]
        assert held
        for row, (begin, end) in held:
            assert rows.ids[row][begin : end + 1] == list(range(100 + first, 105 + first))


def test_parts_are_whole_words_where_words_have_spaces() -> None:
    assert [is_inside_word("ab 12c", at) for at in range(7)] == [0, 1, 0, 0, 1, 0, 0]
    assert not is_inside_word("漢字", 1)
    edges = Edges.of("Lyon, Oslo", [(0, 2), (2, 4), (4, 5), (6, 10), (10, 10)])
    assert edges.begins.tolist() == [True, False, True, True, False]
    assert edges.ends.tolist() == [False, True, True, True, False]
    assert tokens_of_answer([(0, 2), (2, 4), (4, 5)], 0, 4) == (0, 1)
    assert tokens_of_answer([(0, 2)], 5, 9) is None


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_loss_and_outputs_do_not_depend_on_batches(
    tiny: ModelConfig, randomised: Any, attention: Any
) -> None:
    model = randomised(SpanFinder(replace(tiny, attention=attention), 9)).eval()
    model.threshold.fill_(0.25)
    texts = [[1, 5, 6, 2, *range(7, 7 + n), 2] for n in (3, 9, 5)]
    targets, starts = [[4, 5], [IGNORE, IGNORE], [6, 6]], [4, 4, 4]
    objective = SpanObjective()
    whole = objective(model, pad_texts(texts, targets, range(3), 0, starts))["span"]
    parts = [pad_texts(texts, targets, [row], 0, starts) for row in range(3)]
    assert_close(whole, sum(objective(model, part)["span"] for part in parts))
    assert objective.count(parts) == {"span": 3.0}
    passages = ["a b c d e f g h i"[: 2 * (len(ids) - 5) - 1] for ids in texts]
    tokens = [[(n, n + 1) for n in range(0, len(passage), 2)] for passage in passages]
    data = Dataset(texts=["?"] * 3, seconds=passages, ids=texts, starts=starts, words=tokens)
    few, many = (TASK.outputs(model, data, TextBatches(n, 0, CPU)) for n in (4, 999))
    for a, b in zip(few, many, strict=True):
        np.testing.assert_array_equal(a.spans, b.spans)
        np.testing.assert_allclose(a.odds, b.odds, atol=1e-9)
    # The best part is that of all legal ones, by its definition.
    logits = model(*_inputs(texts[0])).detach().double()[0]
    none = logits[-1 if attention == "causal" else 0].sum()
    sums = {
        (2 * i, 2 * j + 1): float(logits[4 + i, 0] + logits[4 + j, 1] - none - 0.25)
        for i in range(3)
        for j in range(i, 3)
    }
    best = max(sums, key=lambda span: sums[span])
    assert tuple(few[0].spans[0]) == best
    assert few[0].odds[0] == pytest.approx(sums[best], abs=1e-5)


def _inputs(ids: list[int]) -> tuple[Any, Any]:
    from warmstart.model.backbone import Layout

    return torch.tensor([ids]), Layout(is_token=torch.ones(1, len(ids), dtype=torch.bool))


def test_the_threshold_is_the_best_there_is() -> None:
    random = np.random.default_rng(0)
    for _ in range(30):
        odds = random.normal(size=12).round(1)
        targets = [["x"] if random.random() < 0.6 else [] for _ in odds]
        outputs = [spans("x" if random.random() < 0.7 else "y", value) for value in odds]

        def score(cut: float) -> float:
            shifted = [TASK.predictions([o.shift(cut)], {})[0].answer for o in outputs]  # noqa: B023
            return TASK.answer_scores(shifted, targets)["f1"]  # noqa: B023

        cuts = np.linspace(-5, 5, 401) + 0.001
        assert score(best_threshold(outputs, targets)) == pytest.approx(max(map(score, cuts)))
    assert best_threshold([spans("x", -3.0)], [["x"]]) == -SURE  # nothing to refuse
    assert best_threshold([spans("x", 3.0)], [[]]) == SURE
    assert best_threshold([spans("x", 3.0), spans("y", -3.0)], [["x"], []]) == 0.0


def test_probabilities_sum_to_one() -> None:
    (answer,) = TASK.predictions([spans("ab", 1.0, 0.0)], {})
    assert (answer.answer, answer.start, answer.end) == ("a", 0, 1)
    assert answer.probability == pytest.approx(np.e / (np.e + 2))
    (nothing,) = TASK.predictions([spans("ab", -1.0)], {})
    assert (nothing.answer, nothing.start) == ("", None)
    assert nothing.probability > 0.5


def test_it_is_trained_and_scored(answerer: Path, questions: QuestionFiles) -> None:
    assert read(answerer / "config.json")["task"] == "answer"
    scores = succeed(f"evaluate {answerer} --test {questions.test} --json {MACHINE}").json
    assert (scores["rows"], scores["unanswerable"]["questions"]) == (60, 20)
    assert 0 <= scores["exact_match"] <= scores["f1"] <= 1
    low, high = (scores["intervals"]["f1"][end] for end in ("low", "high"))
    assert low <= scores["f1"] <= high
    valid = succeed(f"evaluate {answerer} --test {questions.valid} --json {MACHINE}").json
    assert valid["f1"] == pytest.approx(read(answerer / "scores.json")["valid"]["f1"])
    card = (answerer / "README.md").read_text()
    assert "question-answering" in card
    assert "in windows that overlap" in card


def test_answers_have_their_characters(answerer: Path) -> None:
    model = warmstart.load(answerer, threads=1, precision="fp32")
    passages = ["Anna Keller was born in Lyon in 1999. " * 9, " \t😀 Oslo.", "x"]
    answers = model.predict(["Who was born in Lyon?"] * 3, passages)
    for passage, answer in zip(passages, answers, strict=True):
        assert 0 < answer.probability <= 1
        if answer.answer:
            assert passage[answer.start : answer.end] == answer.answer
    sizes = model.measure(["Who?", "Who " * 50], passages[:2])
    assert [size.is_truncated for size in sizes] == [False, True]
    assert model.abilities == ("answer", "embed", "attention")


def test_predict_reads_and_writes_every_form(
    answerer: Path, questions: QuestionFiles, here: Path
) -> None:
    for name in ("out.csv", "out.jsonl", "out.parquet", "out.txt"):
        succeed(f"predict {answerer} {questions.test} -o {name} {MACHINE}")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    asked = [json.loads(line) for line in questions.test.read_text().splitlines()]
    assert [row["question"] for row in rows] == [row["question"] for row in asked]
    for row in rows:
        answer = row["predicted_answer"]
        assert answer == (row["context"][row["predicted_start"] :] if answer else "")[: len(answer)]
    assert len(Path("out.txt").read_text().splitlines()) == 60
    passage = {"context": "Anna left.", "qas": [{"id": "q", "question": "Who left?"}]}
    Path("squad.json").write_text(json.dumps({"data": [{"paragraphs": [passage]}]}))
    printed = succeed(f"predict {answerer} squad.json --json {MACHINE}").json
    assert set(printed) == {"answer", "start", "end", "probability"}
    one = succeed(f"predict {answerer} --text Who? --text2 Anna --json {MACHINE}").json
    assert one["answer"] in ("", "Anna")


def test_the_task_follows_from_the_file(questions: QuestionFiles, base: Path, here: Path) -> None:
    ran = succeed(f"finetune --from {base} --train {questions.train} --epochs 1 {MACHINE} -o out")
    assert "it has the columns question, context and answer, so this is --task answer" in ran.err
    assert "24 texts of 120 set aside to validate on" in ran.err
    assert "120 questions about 20 passages, 40 of them without an answer" in ran.err
    assert "are read in windows that overlap" in ran.err


def test_a_frozen_answerer_keeps_its_backbone(
    questions: QuestionFiles, base: Path, here: Path
) -> None:
    from safetensors.torch import load_file

    files = f"--train {questions.valid} --valid {questions.test}"
    succeed(f"finetune --from {base} --frozen {files} --epochs 1 {MACHINE} -o out")
    before, after = load_file(base / "model.safetensors"), load_file("out/model.safetensors")
    shared = [name for name in after if name.startswith("backbone.")]
    assert shared
    assert all(torch.equal(before[name], after[name]) for name in shared)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--truncate tail", "--truncate tail is for classifiers: a long passage is read whole"),
        ("--pieces", "--pieces is for classifiers"),
        ("--train-labels labels.txt", "a file of labels is for classifiers"),
        ("--balance weights", "--balance weights is for classifiers"),
        ("--select f1", "--select f1 is for --task classify"),
        ("--max-length 6", "--max-length 6 is too short for a question and a passage: 8 or more"),
    ],
)
def test_what_has_no_meaning_for_answers_is_refused(
    options: str, complaint: str, questions: QuestionFiles, base: Path, here: Path
) -> None:
    Path("labels.txt").write_text("x\n")
    ran = run(f"finetune --from {base} --train {questions.train} {options} {MACHINE} -o out")
    assert ran.code == 2
    assert complaint in ran.said


def test_questions_without_any_answer_teach_nothing(base: Path, here: Path) -> None:
    rows = ({"question": f"{n}?", "context": f"x {n}", "answer": ""} for n in range(30))
    Path("none.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = run(f"finetune --from {base} --train none.jsonl {MACHINE} -o out")
    assert ran.code == 2
    assert "no question to train on has an answer" in ran.said


def test_the_baseline_finds_what_stands_near(questions: QuestionFiles) -> None:
    train, test = map(read_questions, (questions.train, questions.test))
    train, test = (replace(data, targets=TASK.targets(data, {})) for data in (train, test))
    outputs = fit_overlap(train, SpanOverlap().settings(1)[0]).outputs(test)
    scores = TASK.test_scores(outputs, test.targets, {})
    assert scores["f1"] > TASK.chance(test.targets)
    assert scores["answered"]["f1"] > 0.1


def test_the_built_in_questions_need_the_question(questions: QuestionFiles) -> None:
    rows = [json.loads(line) for line in questions.train.read_text().splitlines()]
    assert sum(not row["answer"] for row in rows) == len(rows) // 3
    by_passage: dict[str, set[str]] = {}
    for row in rows:
        by_passage.setdefault(row["context"], set()).add(row["answer"])
    assert min(map(len, by_passage.values())) > 2  # several answers to one passage
    for row in rows:
        if row["answer"].isdigit():  # another date stands in the passage
            years = [word for word in row["context"].replace(".", "").split() if word.isdigit()]
            assert len(set(years)) > 1


def test_the_report_of_a_file_and_start_know_questions(questions: QuestionFiles) -> None:
    report = succeed(f"data {questions.train} --json").json
    assert report["files"][0]["labels"] == {"answer": 80, "no answer": 40}
    assert "compare" in succeed(f"start {questions.train} {questions.passages}").out


def test_it_is_planned(questions: QuestionFiles, base: Path) -> None:
    files = f"--train {questions.train} --valid {questions.valid}"
    assert "step" in succeed(f"plan finetune --from {base} {files} --seconds 1").out
