"""What a task takes for an answer when it reads one from a file."""

import math
from typing import Any

import pytest

from warmstart.tasks.registry import finetuning_task

LABELS = {"classes": ["a", "b", "c"]}
GOOD = [
    ("classify", 2, 0),
    ("multilabel", [], (0,)),
    ("multilabel", [0, 2], (1,)),
    ("tag", ["a", "c"], ["b", "b"]),
    ("regress", 3, 0.5),
    ("regress", -2.5, 0.5),
    ("answer", "", ["in May"]),
]
BAD = [
    *[("classify", answer, 0) for answer in (3, -1, 0.0, True, None, "a", [0], {"a": 1})],
    *[("multilabel", answer, (0,)) for answer in (0, [3], [0.0], [True], [[0]], "a", None)],
    *[("tag", answer, ["b", "b"]) for answer in ("ab", ["a"], ["a", "x"], ["a", ["b"]], None)],
    *[("regress", answer, 0.5) for answer in (math.nan, math.inf, 10**400, True, "1", [1.0])],
    *[("answer", answer, ["in May"]) for answer in (None, 1, ["in May"])],
]


@pytest.mark.parametrize(("task", "answer", "target"), GOOD)
def test_answers(task: str, answer: Any, target: Any) -> None:
    assert finetuning_task(task).is_answer(answer, target, LABELS)


@pytest.mark.parametrize(("task", "answer", "target"), BAD)
def test_what_is_no_answer(task: str, answer: Any, target: Any) -> None:
    assert not finetuning_task(task).is_answer(answer, target, LABELS)
