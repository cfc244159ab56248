"""Tables as people have them: each trains as it is, or names the flag with which it trains."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from awkward_tables import FILES, Rows, german_excel, one_class_missing, reviews
from command_line import QUICK, SHAPE, read, run, succeed
from warmstart.data.labelled import read_labelled
from warmstart.settings.shared import TableFormat

Writer = Callable[[Path, Rows], Path]
NUMBERS = {"5": "positive", "1": "negative"}


@pytest.mark.parametrize("write", FILES, ids=lambda write: write.__name__)
def test_every_review_is_read(write: Writer, tmp_path: Path) -> None:
    tables = TableFormat(encoding="cp1252") if write is german_excel else TableFormat()
    data = read_labelled(write(tmp_path, reviews()), tables)
    labels = [NUMBERS.get(label, label) for label in data.labels]
    rows = list(zip(labels, data.texts, strict=True))
    assert rows[: len(reviews())] == reviews()
    assert len(rows) == len(reviews()) + (write is one_class_missing)


@pytest.mark.parametrize("write", FILES, ids=lambda write: write.__name__)
def test_every_file_trains(write: Writer, here: Path) -> None:
    command = f"finetune --train {write(here, reviews()).name} {SHAPE} {QUICK}"
    ran = run(f"{command} -o run")
    if ran.code:
        assert ran.code == 2
        assert not (here / "run").exists()
        flag = re.search(r"--(encoding|columns|delimiter) \S+", ran.said)
        assert flag, ran.said
        ran = succeed(f"{command} {flag[0]} -o run")
    classes = read(here / "run/config.json")["classes"]
    assert len(classes) == 2 + (write is one_class_missing)
    assert "set aside" in ran.err
