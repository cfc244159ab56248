import json
from pathlib import Path

import pytest

from product import World, read_labelled_rows, succeed, write_labelled


def test_rows_lengths_and_balance_are_reported(here: Path) -> None:
    write_labelled(here / "a.tsv", [("x", "one two three"), ("y", "one"), ("y", "one two")])
    (file,) = succeed("data a.tsv --json").json["files"]
    assert (file["rows"], file["shortest"], file["longest"], file["median"]) == (3, 1, 3, 2)
    assert file["labels"] == {"x": 1, "y": 2}
    assert file["unit"] == "words"
    shown = succeed("data a.tsv").out
    assert "x 1 (33%), y 2 (67%)" in shown


def test_texts_shared_between_files_are_counted_pair_by_pair(here: Path) -> None:
    write_labelled(here / "a.tsv", [("x", "same  text"), ("y", "other"), ("x", "third")])
    write_labelled(here / "b.tsv", [("x", "Same text"), ("y", "same text"), ("y", "new")])
    write_labelled(here / "c.tsv", [("x", "alone"), ("y", "new")])
    report = succeed("data a.tsv b.tsv c.tsv --json").json
    assert report["shared"] == [
        {"a": "a.tsv", "b": "b.tsv", "distinct": 1, "rows": 2},
        {"a": "a.tsv", "b": "c.tsv", "distinct": 0, "rows": 0},
        {"a": "b.tsv", "b": "c.tsv", "distinct": 1, "rows": 1},
    ]
    assert [file["repeats"] for file in report["files"]] == [0, 1, 0]
    shown = succeed("data a.tsv b.tsv c.tsv").out
    assert "2 of 3 rows in b.tsv also occur in a.tsv (1 different text)" in shown
    assert "rows in c.tsv also occur in a.tsv" not in shown


def test_it_is_said_when_nothing_is_shared(here: Path) -> None:
    write_labelled(here / "a.tsv", [("x", "one"), ("y", "two")])
    write_labelled(here / "b.tsv", [("x", "three"), ("y", "four")])
    said = "no text occurs in two of these files"
    assert said in succeed("data a.tsv b.tsv").out
    assert said not in succeed("data a.tsv").out


def test_texts_a_run_has_seen_are_counted(world: World, base: Path, here: Path) -> None:
    files = f"{world.texts} {world.test}"
    seen, unseen = succeed(f"data {files} --against {base} --json").json["against"]
    assert 180 < seen["rows"] <= 200
    assert unseen["rows"] == 0
    assert "occur in the training data of" in succeed(f"data {files} --against {base}").out


def test_tokens_truncation_and_unknown_pieces_are_counted(world: World, base: Path) -> None:
    command = f"data {world.train} --tokenizer {base} --max-length 16 --json"
    (file,) = succeed(command).json["files"]
    assert file["unit"] == "tokens"
    assert file["truncated"] == file["rows"] == 48
    assert file["unknown"] == 0


def test_pieces_outside_the_vocabulary_are_counted(here: Path) -> None:
    (here / "vocabulary.txt").write_text("▁a\n▁book\n")
    (here / "texts.txt").write_text("▁a ▁book\n▁a ▁film\n")
    command = "data texts.txt --tokenizer vocabulary.txt --pieces --json"
    assert succeed(command).json["files"][0]["unknown"] == pytest.approx(1 / 4)


def test_labels_may_stand_in_files_of_their_own(here: Path) -> None:
    (here / "texts.txt").write_text("one\ntwo\n")
    (here / "labels.txt").write_text("x\ny\n")
    (file,) = succeed("data texts.txt --labels labels.txt --json").json["files"]
    assert file["labels"] == {"x": 1, "y": 1}


@pytest.mark.parametrize("columns", ["label,text", "_,text"])
def test_columns_may_be_named_in_file_order(columns: str, here: Path) -> None:
    (here / "a.tsv").write_text("x\tone two\ny\tthree\n")
    (file,) = succeed(f"data a.tsv --columns {columns} --json").json["files"]
    assert file["rows"] == 2
    assert file["labels"] == ({"x": 1, "y": 1} if "label" in columns else None)


def test_empty_rows_are_counted(here: Path) -> None:
    rows = ["one", "", "two", " "]
    (here / "a.jsonl").write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    (file,) = succeed("data a.jsonl --json").json["files"]
    assert (file["rows"], file["skipped"]) == (4, 2)


def test_json_alone_is_on_standard_output(world: World) -> None:
    ran = succeed(f"data {world.train} --json")
    assert len(read_labelled_rows(world.train)) == ran.json["files"][0]["rows"]
