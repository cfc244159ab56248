"""predict --explain: the words that decided, in every format."""

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import warmstart
from command_line import MACHINE, refuse, succeed

TEXTS = ["A fine book, but far too long for me.", "", "Dull and slow"]


@pytest.fixture
def table(here: Path) -> Path:
    with (here / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *enumerate(TEXTS)])
    return here / "in.csv"


def strongest(run: Path) -> list[str]:
    """Return the five strongest words of every text, as tables show them."""
    explained = warmstart.load(run, threads=1, precision="fp32").explain(TEXTS)
    words = (sorted(e.words, key=lambda word: -abs(word.weight))[:5] for e in explained)
    return [", ".join(f"{word.text} {word.weight:+.2f}" for word in of_text) for of_text in words]


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet"])
def test_tables_have_a_column_of_words(warm: Path, table: Path, here: Path, name: str) -> None:
    succeed(f"predict {warm} {table} --explain -o {name} {MACHINE}")
    if name.endswith("parquet"):
        rows = pq.read_table(here / name).to_pylist()
    else:
        with (here / name).open(newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if name.endswith("tsv") else ","))
    first, _, last = strongest(warm)
    assert [row["words"] or "" for row in rows] == [first, "", last]
    assert {"id", "text", "label", "probability"} <= set(rows[0])


def test_a_loaded_model_explains_in_a_table(warm: Path) -> None:
    explained = warmstart.load(warm, threads=1, precision="fp32").explain(TEXTS * 4)
    assert isinstance(explained, list)
    frame = explained.to_pandas()
    assert frame["words"].tolist() == strongest(warm) * 4
    assert {"label", "probability"} <= set(frame.columns)
    html = explained._repr_html_()
    assert "12 predictions; the first 10 are shown" in html
    assert strongest(warm)[2] in html
    assert len(repr(explained)) < 1000
    assert repr(explained).endswith("… 9 more]")


def test_json_has_every_word_in_order(warm: Path, table: Path, here: Path) -> None:
    succeed(f"predict {warm} {table} --explain -o out.jsonl {MACHINE}")
    tabled = [json.loads(line)["words"] for line in (here / "out.jsonl").read_text().splitlines()]
    assert tabled[0] == strongest(warm)[0]
    printed = succeed(f"predict {warm} {table} --explain --json {MACHINE}").out.splitlines()
    first, empty, _ = map(json.loads, printed)
    assert [word["text"] for word in first["words"]] == TEXTS[0].split()
    assert set(first["words"][0]) == {"text", "weight"}
    assert empty["words"] is None


def test_lines_have_the_words_behind_the_label(warm: Path, table: Path) -> None:
    lines = succeed(f"predict {warm} {table} --explain {MACHINE}").out.splitlines()
    first, _, last = strongest(warm)
    labels = succeed(f"predict {warm} {table} {MACHINE}").out.splitlines()
    assert lines == [f"{labels[0]}\t{first}", "\t", f"{labels[2]}\t{last}"]


def test_labels_are_those_without_the_explanation(warm: Path, table: Path) -> None:
    plain, explained = (
        [json.loads(line) for line in succeed(f"{command} --json").out.splitlines()]
        for command in (
            f"predict {warm} {table} {MACHINE} --threshold 0.51",
            f"predict {warm} {table} {MACHINE} --threshold 0.51 --explain",
        )
    )
    for first, second in zip(plain, explained, strict=True):
        second.pop("words")
        assert first == second


def test_python_returns_the_explanations(warm: Path, table: Path) -> None:
    first, empty, _ = warmstart.predict(run=warm, file=table, explain=True, threads=1)
    assert empty is None
    assert [word.text for word in first.words] == TEXTS[0].split()
    assert first.prediction.label in ("negative", "positive")


def test_a_run_that_labels_nothing_is_refused(base: Path, table: Path) -> None:
    assert "to explain labels you need" in refuse(f"predict {base} {table} --explain")
