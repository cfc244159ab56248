"""What `finetune` and `compare` train on: several files, a share of them, no validation file."""

from pathlib import Path

import pytest

from command_line import (
    MACHINE,
    QUICK,
    World,
    read,
    refuse,
    succeed,
    weights_of,
    write_labelled,
)
from command_line import read_labelled_rows as rows_of


@pytest.fixture
def parts(world: World, here: Path) -> str:
    """Write the training texts as two files, and return the flags that name them."""
    rows = rows_of(world.train)
    write_labelled(here / "a.tsv", rows[:20])
    (here / "b.csv").write_text("".join(f'"{text}";{label}\n' for label, text in rows[20:]))
    return "--train a.tsv --train b.csv"


def test_several_files_equal_one(
    parts: str, world: World, base: Path, warm: Path, here: Path
) -> None:
    succeed(f"finetune --from {base} {parts} --valid {world.valid} -o run {QUICK}")
    assert weights_of(here / "run") == weights_of(warm)
    files = read(here / "run/data.json")["files"]
    assert [(Path(entry["path"]).name, entry["rows"]) for entry in files] == [
        ("a.tsv", 20),
        ("b.csv", 28),
        ("valid.tsv", 24),
    ]


def test_a_share_of_the_labels(parts: str, world: World, base: Path, here: Path) -> None:
    command = f"finetune --from {base} {parts} --valid {world.valid} {QUICK}"
    ran = succeed(f"{command} --labels 10 -o run")
    assert "10 texts to train on (negative " in ran.err
    assert "--labels 49 is not possible: there are 48 texts in a.tsv, b.csv" in refuse(
        f"{command} --labels 49 -o other"
    )
    assert not (here / "other").exists()


def test_without_a_validation_file_texts_are_set_aside(
    parts: str, world: World, base: Path, here: Path
) -> None:
    ran = succeed(f"finetune --from {base} {parts} -o run {QUICK}")
    assert "no --valid: 11 texts of 48 set aside" in ran.err
    assert "37 texts to train on" in ran.err
    succeed(f"finetune --from {base} --train {world.train} -o same {QUICK}")
    assert weights_of(here / "run") == weights_of(here / "same")
    ran = succeed(f"compare --from {base} {parts} --seeds 0,1 --trials 1 --epochs 1 -o c {MACHINE}")
    assert "11 texts of 48 set aside" in ran.err
    assert "--valid" not in ran.out


def test_a_comparison_looks_at_no_label_that_is_not_paid_for(
    world: World, base: Path, here: Path
) -> None:
    given = f"compare --from {base} --train {world.train} --test {world.test} --labels 10,20 -o c"
    succeed(f"{given} --seeds 0,1 --trials 2 --epochs 1 --arms frozen,cold {MACHINE}")
    cells = read(here / "c/results.json")["cells"]
    assert {cell["labels"] for cell in cells} == {10, 20}
    assert {tuple(map(len, cell["predictions"].values())) for cell in cells} == {(24,)}
    scores = read(here / "c/models/cold/scores.json")
    assert (scores["labels"], scores["trained_on"]) == (20, 20)


def test_unusual_labels_are_said_before_training(world: World, base: Path, here: Path) -> None:
    write_labelled(here / "a.tsv", [*rows_of(world.train), ("Positive ", "I liked this book")])
    ran = succeed(f"finetune --from {base} --train a.tsv --valid {world.valid} -o run {QUICK}")
    assert "only one text with the label 'Positive'" in ran.err
    assert "no text with the label 'Positive' to validate on" in ran.err
    assert "'Positive' (1) and 'positive' (" in ran.err


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ("--valid-labels x", "--valid-labels needs --valid"),
        ("--train-labels x --train-labels y", "--train-labels was given 2 times for 1 files"),
        ("--labels 1", "--labels 1 is not allowed"),
    ],
)
def test_flags_that_do_not_fit(flags: str, reason: str, world: World, base: Path) -> None:
    assert reason in refuse(f"finetune --from {base} --train {world.train} {flags} -o run {QUICK}")


def test_validation_texts_that_are_trained_on_are_told(
    world: World, base: Path, here: Path
) -> None:
    command = f"finetune --from {base} --train {world.train} {QUICK}"
    warning = "48 of 48 texts in {} also occur, exactly or nearly, in {}, so validation scores"
    ran = succeed(f"{command} --valid {world.train} -o copies")
    assert warning.format(world.train, world.train) in ran.err
    assert "also occur" not in succeed(f"{command} --valid {world.valid} -o other").err
