import json
from pathlib import Path

import pytest

from command_line import TINY, World, read_labelled_rows, succeed, write_labelled


def test_rows_lengths_and_balance_are_reported(here: Path) -> None:
    write_labelled(here / "a.tsv", [("x", "one two three"), ("y", "one"), ("y", "one two")])
    (file,) = succeed("data a.tsv --json").json["files"]
    assert (file["rows"], file["shortest"], file["longest"], file["median"]) == (3, 1, 3, 2)
    assert file["labels"] == {"x": 1, "y": 2}
    assert file["unit"] == "words"
    shown = succeed("data a.tsv").out
    assert "x 1 (33%), y 2 (67%)" in shown


def test_no_figure_is_cut_off_on_a_narrow_terminal(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_labelled(here / f"{'long' * 9}.tsv", [("x", f"text {n}") for n in range(1234)])
    monkeypatch.setenv("COLUMNS", "40")
    shown = succeed(f"data {'long' * 9}.tsv").out
    assert "1,234" in shown
    assert "…" not in shown


def test_texts_shared_between_files_are_counted_pair_by_pair(here: Path) -> None:
    write_labelled(here / "a.tsv", [("x", "same  text"), ("y", "other"), ("x", "third")])
    write_labelled(here / "b.tsv", [("x", "Same text"), ("y", "same text"), ("y", "new")])
    write_labelled(here / "c.tsv", [("x", "alone"), ("y", "new")])
    report = succeed("data a.tsv b.tsv c.tsv --json").json
    keys = ("a", "b", "distinct", "rows", "near", "copy")
    assert [tuple(pair[key] for key in keys) for pair in report["shared"]] == [
        ("a.tsv", "b.tsv", 1, 2, 0, "Same text"),
        ("a.tsv", "c.tsv", 0, 0, 0, None),
        ("b.tsv", "c.tsv", 1, 1, 0, "new"),
    ]
    assert [file["repeats"] for file in report["files"]] == [0, 1, 0]
    shown = succeed("data a.tsv b.tsv c.tsv").out
    assert "2 of 3 rows in b.tsv also occur in a.tsv (1 different text)" in shown
    assert "rows in c.tsv also occur in a.tsv" not in shown


def test_near_copies_are_counted_and_one_is_shown(world: World, here: Path) -> None:
    texts = [text for _, text in read_labelled_rows(world.train)[:4]]
    original = " ".join(texts)
    near = original.replace(texts[1].split()[-1], "changed")
    write_labelled(here / "a.tsv", [("x", texts[0]), ("y", original), ("x", near)])
    write_labelled(here / "b.tsv", [("x", near + " <br />"), ("y", original.upper()[:-30])])
    report = succeed("data a.tsv b.tsv --json").json
    assert [file["near_repeats"] for file in report["files"]] == [1, 1]
    (shared,) = report["shared"]
    assert (shared["rows"], shared["near"]) == (1, 1)
    assert shared["near_copy"]["text"].startswith(original.upper()[:80])
    assert shared["near_copy"]["original"].startswith(original[:80])
    shown = succeed("data a.tsv b.tsv").out
    assert "1 more of 2 rows in b.tsv are near-copies" in " ".join(shown.split())


def test_texts_of_several_paragraphs_are_found_in_unlabelled_files(here: Path) -> None:
    (here / "a.txt").write_text("One.\nTwo.\n\nThree.\nFour.\n")
    (here / "b.jsonl").write_text('{"text": "One.\\nTwo.", "label": "x"}\n')
    (shared,) = succeed("data a.txt b.jsonl --json").json["shared"]
    assert shared["rows"] == 1


def test_its_tables_fit_on_80_columns(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("training-texts-of-2024.tsv", "validation-texts-of-2024.tsv"):
        write_labelled(here / name, [("x", "one two"), ("y", "one"), ("y", "w " * 123_456)])
    shown = succeed("data *.tsv").out
    assert "…" not in shown
    assert "training-texts-of-2024.tsv" in shown
    for header in ("rows", "empty", "repeats", "near-copies", "shortest", "95%", "longest"):
        assert header in shown
    assert "123,456" in shown
    assert max(map(len, shown.split("training-texts-of-2024.tsv: ")[0].splitlines())) <= 80


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


@pytest.mark.parametrize("form", ["texts.jsonl", "texts.txt"])
def test_pretraining_texts_of_two_paragraphs_are_known(form: str, world: World, here: Path) -> None:
    paragraphs = world.texts.read_text(encoding="utf-8").splitlines()
    texts = ["\n".join(paragraphs[row : row + 2]) for row in range(0, 200, 2)]
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (here / form).write_text(rows if form == "texts.jsonl" else "\n\n".join(texts))
    labelled = [{"text": text, "label": "x"} for text in (*texts, *paragraphs[:3])]
    (here / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled))
    succeed(f"pretrain {form} --valid {world.texts} -o base {TINY}")
    (seen,) = succeed("data test.jsonl --against base --json").json["against"]
    assert (seen["rows"], seen["near"]) == (103, 0)


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


def test_rows_without_text_and_rows_without_label_are_counted_apart(here: Path) -> None:
    rows = [("x", "one"), ("y", ""), ("", "two"), ("", ""), ("", "three"), ("y", "four")]
    (here / "a.csv").write_text("label,text\n" + "".join(f"{a},{b}\n" for a, b in rows))
    (file,) = succeed("data a.csv --json").json["files"]
    assert (file["rows"], file["skipped"], file["unlabelled"]) == (6, 2, 2)
    assert "no label" in succeed("data a.csv").out


def test_equal_texts_with_different_labels_are_listed(here: Path) -> None:
    rows = [("x", "Same  text"), ("y", "same text"), ("x", "same text"), ("y", "alone")]
    write_labelled(here / "a.tsv", rows)
    (file,) = succeed("data a.tsv --json").json["files"]
    assert file["contradictions"] == [{"text": "Same text", "labels": {"x": 2, "y": 1}}]
    shown = succeed("data a.tsv").out
    assert "1 text has different labels in different rows" in shown
    assert "x 2, y 1: 'Same text'" in shown
    write_labelled(here / "b.tsv", rows[3:] + rows[:1])
    assert "different labels" not in succeed("data b.tsv").out
