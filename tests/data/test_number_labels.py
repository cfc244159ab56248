"""Columns of numbers: what is read, what is refused with a sentence, and what stays a class."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import MACHINE, refuse, succeed
from warmstart.data.numbers import numbers_form, read_numbers, summarise_numbers
from warmstart.data.splits import set_aside
from warmstart.errors import WarmstartError
from warmstart.tasks.regress import RegressTask

TASK = RegressTask()


def _write(path: Path, labels: Sequence[Any]) -> Path:
    if path.suffix == ".jsonl":
        rows = ({"label": label, "text": f"some words {n}"} for n, label in enumerate(labels))
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = (f"{label}\tsome words of text {n}" for n, label in enumerate(labels))
        path.write_text("\n".join(["label\ttext", *lines]) + "\n")
    return path


# Twelve awkward files: their labels, and what is said of them.
AWKWARD: dict[str, tuple[Sequence[Any], str]] = {
    "infinity": ([1.5, "inf", 2], "line 3: the label 'inf' is too large"),
    "words": ([1, "two", 3], "line 3: the label 'two' is not a number; write 1234.5"),
    "thousands": (["1,250", "2,500", "3.5"], "line 2: the label '1,250' is not a number"),
    "only thousands": (["1,250", "2,500", "3,125"], "a mark between thousands"),
    "percent signs": (["45%", "50%", "61%"], "line 2: the label '45%' is not a number"),
    "dates": (["2024-01-05", "2024-02-05"], "the label '2024-01-05' is not a number"),
    "huge": (["1", "1e300", "2"], "line 3: the label '1e300' is too large; numbers from -1e+30"),
    "one value": ([3.5] * 30, "every text to train on has the number 3.5; there is nothing to"),
    "one row": ([3.5], "has too few texts (1) to set some aside"),
    "no numbers": (["nan", "NaN"], "no row has a number, all are NaN"),
    "far from zero": ([1e9 + n % 3 for n in range(30)], "which single precision cannot tell apart"),
    "truth values": (["true", "false"] * 9, "the label 'true' is not a number"),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_files_get_a_sentence(name: str, base: Path, here: Path) -> None:
    labels, complaint = AWKWARD[name]
    _write(Path("a.tsv"), labels)
    command = f"finetune --task regress --from {base} --train a.tsv {MACHINE} -o out"
    assert complaint in refuse(command)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("labels", "numbers", "unlabelled"),
    [
        (["1", "nan", "", "2.5", "NaN"], [1.0, 2.5], 3),  # missing ones are counted
        (["3,5", "4", "1,25"], [3.5, 4.0, 1.25], 0),  # decimal commas
        (["-1", "+2.", ".5", "1e3", "1E-2"], [-1.0, 2.0, 0.5, 1000.0, 0.01], 0),
    ],
)
def test_numbers_are_read(
    labels: list[str], numbers: list[float], unlabelled: int, tmp_path: Path
) -> None:
    data = read_numbers(_write(tmp_path / "a.tsv", labels))
    assert (list(data.labels), data.unlabelled) == (numbers, unlabelled)
    assert ("decimal commas" in data.description) == ("3,5" in labels)


def test_numbers_of_json_are_read(tmp_path: Path) -> None:
    data = read_numbers(_write(tmp_path / "a.jsonl", [1, 2.5, None, float("nan"), "3"]))
    assert (list(data.labels), data.unlabelled) == ([1.0, 2.5, 3.0], 2)
    with pytest.raises(WarmstartError, match=r"line 2: the label 'true' is not a number"):
        read_numbers(_write(tmp_path / "b.jsonl", [1, True]))


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([n / 10 for n in range(30)], "its first 30 labels are 30 different numbers, 27 of them"),
        ([17 * n for n in range(40)], "40 different numbers, most of which occur once"),
        ([f"{n % 25 / 4}" for n in range(200)], "25 different numbers"),
        ([*(n / 10 for n in range(30)), "", "nan"], "30 different numbers"),
    ],
)
def test_what_can_only_be_numbers_is_detected(
    labels: list[Any], reason: str, tmp_path: Path
) -> None:
    assert reason in (numbers_form(_write(tmp_path / "a.tsv", labels)) or "")


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1] * 50,
        [1, 2, 3, 4, 5] * 20,
        list(range(1, 11)) * 10,
        [n % 77 for n in range(1000)],  # the numbers of 77 classes
        [0.5, 1.0, 1.5, 2.0] * 20,  # half stars
        [1.5, 2.5, 3.5],
        [*(n / 10 for n in range(30)), "unknown"],
        [f"{n},5" for n in range(30)],  # decimal commas, or two labels
        [f"class {n}" for n in range(30)],
    ],
)
def test_what_may_be_classes_stays_one(labels: list[Any], tmp_path: Path) -> None:
    assert numbers_form(_write(tmp_path / "a.tsv", labels)) is None


def test_texts_set_aside_have_numbers_of_every_quarter(tmp_path: Path) -> None:
    data = read_numbers(_write(tmp_path / "a.tsv", [(n * 7) % 400 / 4 for n in range(400)]))
    train, valid = set_aside(data, TASK.split_classes(data))
    assert sorted(TASK.strata(data.labels).count(k) for k in range(4)) == [100] * 4
    assert [sum(25 * k <= x < 25 * (k + 1) for x in valid.labels) for k in range(4)] == [20] * 4
    assert len(train) + len(valid) == 400


def test_a_report_says_how_numbers_are_spread(here: Path) -> None:
    _write(Path("a.tsv"), [n / 4 for n in range(81)])
    ran = succeed("data a.tsv")
    assert (
        "a.tsv: numbers from 0 to 20.0, half of them 5.00 to 15.0, median 10.0" in ran.out + ran.err
    )
    (report,) = succeed("data a.tsv --json").json["files"]
    assert report["numbers"]["quartiles"] == [5.0, 10.0, 15.0]
    assert report["labels"] is None
    ran = succeed("start a.tsv")
    assert "81 texts with numbers from 0 to 20.0" in ran.out + ran.err


def test_a_summary_has_the_ends_and_the_mean() -> None:
    summary = summarise_numbers([1.0, 2.0, 6.0])
    assert (summary.lowest, summary.highest, summary.mean) == (1.0, 6.0, 3.0)
