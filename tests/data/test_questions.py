"""Questions in every form, and awkward files, each with its sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from warmstart.data.questions import questions_form, read_questions, squad_texts
from warmstart.data.splits import set_aside
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat

PASSAGE = "Anna Keller left Lyon in 1999; she died there."
ROW = {"question": "Who left?", "context": PASSAGE, "answer": "Anna Keller", "answer_start": 0}
NONE = {"question": "Who stayed?", "context": PASSAGE, "answer": "", "answer_start": None}
ANSWERS = (((0, "Anna Keller"),), ())


def write(path: Path, content: Any) -> Path:
    is_text = isinstance(content, str)
    path.write_text(content if is_text else json.dumps(content), encoding="utf-8")
    return path


def squad(*questions: dict[str, Any]) -> dict[str, Any]:
    paragraph = {"context": PASSAGE, "qas": list(questions)}
    return {"version": "v2.0", "data": [{"title": "Anna", "paragraphs": [paragraph]}]}


ASKED = {"id": "q1", "question": "Who left?", "is_impossible": False}
V2 = squad(
    {**ASKED, "answers": [{"text": "Anna Keller", "answer_start": 0}]},
    {"id": "q2", "question": "Who stayed?", "is_impossible": True, "answers": []},
)


def test_every_form_reads_the_same(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    several = [{"text": ["Anna Keller"], "answer_start": [0]}, {"text": [], "answer_start": []}]
    columns = {name: [ROW[name], NONE[name]] for name in ROW}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    columns = {name: columns[name] for name in ("question", "context")} | {"answers": several}
    pq.write_table(pa.table(columns), tmp_path / "b.parquet")
    lines = "".join(json.dumps(row) + "\n" for row in (ROW, NONE))
    table = f"question\tcontext\tanswer\tanswer_start\nWho left?\t{PASSAGE}\tAnna Keller\t0\n"
    files = [
        write(tmp_path / "a.jsonl", lines),
        write(tmp_path / "a.tsv", f"{table}Who stayed?\t{PASSAGE}\t\t\n"),
        write(tmp_path / "a.json", V2),
        tmp_path / "a.parquet",
        tmp_path / "b.parquet",
    ]
    for file in files:
        data = read_questions(file)
        assert data.texts == ("Who left?", "Who stayed?"), file
        assert data.seconds == (PASSAGE, PASSAGE), file
        assert data.labels == ANSWERS, file
        assert questions_form(file) is not None, file
        assert "2 questions about 1 passage, 1 of them without an answer" in data.description


def test_the_first_squad_has_no_impossible_questions(tmp_path: Path) -> None:
    answers = [{"text": "Lyon", "answer_start": 17}, {"text": "there", "answer_start": 40}]
    question = {"id": "x", "question": "Where?", "answers": answers}
    file = write(tmp_path / "a.json", squad(question))
    assert read_questions(file).labels == (((17, "Lyon"), (40, "there")),)
    (row,) = squad_texts(file)
    assert (row.text, row.text2, row.record["id"]) == ("Where?", PASSAGE, "x")


def test_an_answer_without_its_place_is_looked_for(tmp_path: Path) -> None:
    rows = f"question,context,answer\nWhen?,{PASSAGE},1999\nWhere?,{PASSAGE}, Lyon \n"
    data = read_questions(write(tmp_path / "a.csv", rows))
    assert data.labels == (((25, "1999"),), ((17, "Lyon"),))
    assert "2 without answer_start: the first occurrence is taken" in data.description
    named = TableFormat(columns=("question=q", "context=passage", "answer=a"))
    renamed = write(tmp_path / "b.csv", rows.replace("question,context,answer", "q,passage,a"))
    assert read_questions(renamed, named).labels == data.labels


def test_a_file_that_may_be_something_else_is_not_claimed(tmp_path: Path) -> None:
    assert questions_form(write(tmp_path / "a.tsv", "label\ttext\nfine\tA fine book.\n")) is None
    assert questions_form(write(tmp_path / "a.json", {"rows": []})) is None
    assert questions_form(write(tmp_path / "b.json", "[1")) is None
    assert questions_form(tmp_path / "absent.jsonl") is None


def test_questions_about_one_passage_stay_together(tmp_path: Path) -> None:
    rows = [
        {**ROW, "question": f"Who left {n}?", "context": f"{PASSAGE} {n // 4}"} for n in range(80)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    train, valid = set_aside(read_questions(write(tmp_path / "a.jsonl", lines)), [""] * 99)
    assert len(valid) == 16
    assert set(train.seconds or ()).isdisjoint(valid.seconds or ())


QUESTION = {"id": "q1", "question": "Who left?"}
AWKWARD: dict[str, tuple[Any, str]] = {
    "elsewhere.jsonl": ({**ROW, "answer_start": 5}, "line 1: the answer 'Anna Keller' is not at"),
    "nowhere.jsonl": ({**ROW, "answer": "Bern"}, "it occurs nowhere in its passage"),
    "behind.jsonl": ({**ROW, "answer_start": 900}, "nothing stands, the passage has 46 characters"),
    "negative.jsonl": ({**ROW, "answer_start": -5}, "is not at answer_start -5"),
    "text.jsonl": ({**ROW, "answer_start": "soon"}, "answer_start is 'soon', not a whole number"),
    "half.jsonl": ({**ROW, "answer_start": 0.5}, "answer_start is 0.5, not a whole number"),
    "number.jsonl": ({**ROW, "answer": 1999}, "answer is 1999, not a string"),
    "blank.jsonl": ({**ROW, "context": " "}, "no question with a passage"),
    "unequal.jsonl": (
        {"question": "?", "context": "x", "answers": {"text": ["x"], "answer_start": []}},
        "needs two lists of equal length",
    ),
    "list.jsonl": ({"question": "?", "context": "x", "answers": 5}, "answers is 5, not a list"),
    "plain.txt": ("Who left?\n", "plain lines hold no questions; give a table with the columns"),
    "data.json": ({"data": 5}, "data is 5, not a list of objects"),
    "list.json": ("[]", "must hold a JSON object"),
    "torn.json": ('{"data": [', "not valid JSON"),
    "context.json": (
        {"data": [{"paragraphs": [{"qas": [QUESTION]}]}]},
        "question 1 (id 'q1'): context is null, not a string",
    ),
    "impossible.json": (
        squad(
            {
                **QUESTION,
                "is_impossible": True,
                "answers": V2["data"][0]["paragraphs"][0]["qas"][0]["answers"],
            }
        ),
        "is_impossible is true, but it has the answer 'Anna Keller'",
    ),
    "possible.json": (
        squad({**QUESTION, "is_impossible": False, "answers": []}),
        "no answer, but is_impossible is false",
    ),
    "no text.json": (squad({**QUESTION, "answers": [{"text": ""}]}), "has no text"),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_files_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    content, complaint = AWKWARD[name]
    with pytest.raises(WarmstartError) as caught:
        read_questions(write(tmp_path / name, content))
    assert complaint in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_questions_without_text_are_skipped_and_counted(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in (ROW, {**NONE, "question": ""}))
    data = read_questions(write(tmp_path / "a.jsonl", lines))
    assert (len(data), data.skipped) == (1, 1)
