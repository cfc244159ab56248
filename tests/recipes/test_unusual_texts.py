"""Texts unlike those that a run was trained on: `predict --unusual`, and drift in `data`."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import warmstart
from command_line import MACHINE, read, read_labelled_rows, refuse, run, succeed, write_labelled
from warmstart.data.labelled import Dataset
from warmstart.files import write_json
from warmstart.recipes import use
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.tasks.unusual import (
    NUM_NEIGHBOURS,
    USUAL_SHARE,
    Neighbours,
    divide_reference,
    files_of,
)

KINDS = ["lsa", "cold"]
SHAPE = "--preset tiny --width 32 --heads 2 --depth 1 --ffn-width 32 --vocab-size 600"
NUM_USUAL = 1_000  # texts that runs are trained on; half of them are held out from the neighbours


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write English reviews and French ones, and train a run of each kind on the English ones."""
    folder = tmp_path_factory.mktemp("unusual")
    few = {"train_pairs": 1, "valid_pairs": 1, "test_pairs": 1}
    sizes = SampleSizes(unlabelled=1_000, train=NUM_USUAL, valid=2, test=NUM_USUAL, **few)
    write_samples(folder / "english", sizes=sizes)
    write_samples(folder / "french", language="french", sizes=sizes)
    train = f"--train {folder}/english/train.tsv"
    texts = f"--unlabelled {folder}/english/unlabelled.txt"
    settings = f"--labels 200 --seeds 0 --trials 1 {MACHINE}"
    succeed(f"compare {texts} {train} {settings} -o {folder}/race")
    succeed(f"finetune {train} -o {folder}/cold {SHAPE} --epochs 1 {MACHINE}")
    return folder


def run_of(folder: Path, kind: str) -> Path:
    return folder / kind if kind == "cold" else folder / "race" / "models" / kind


def marks(command: str) -> list[dict[str, object]]:
    """Return what `predict --unusual --json` prints for each text."""
    lines = succeed(f"predict {command} --unusual --json {MACHINE}").out.splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_few_usual_texts_and_nearly_all_others_are_marked(folder: Path, kind: str) -> None:
    name = run_of(folder, kind)
    usual = [row["unusual"] for row in marks(f"{name} {folder}/english/test.tsv")]
    # The deviation of the share is about 0.54%: by the 500 texts held out and by the 1,000 tested.
    assert sum(usual) / len(usual) < 0.01 + 4 * 0.0054
    foreign = [row["unusual"] for row in marks(f"{name} {folder}/french/test.tsv")]
    assert sum(foreign) / len(foreign) > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_the_distance_of_usual_texts_is_spread_evenly(folder: Path, kind: str) -> None:
    rows = marks(f"{run_of(folder, kind)} {folder}/english/test.tsv")
    distances = np.sort([row["distance"] for row in rows])
    even = np.linspace(0, 1, len(distances))
    assert np.abs(distances - even).max() < 0.11, "Kolmogorov and Smirnov, p below 0.001"
    assert all(row["unusual"] == (row["distance"] >= USUAL_SHARE) for row in rows)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mark_does_not_depend_on_the_texts_beside(
    folder: Path, kind: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text for _, text in read_labelled_rows(folder / "english" / "test.tsv")[:20]]
    (here / "in.txt").write_text("\n".join([*texts, "Ceci n'est pas une critique."]))
    together = marks(f"{run_of(folder, kind)} in.txt")
    monkeypatch.setattr(use, "CHUNK", 3)
    alone = marks(f"{run_of(folder, kind)} in.txt")
    columns = ("unusual", "distance")
    assert [[row[c] for c in columns] for row in alone] == [
        [row[c] for c in columns] for row in together
    ]


def test_texts_without_any_known_word_are_the_farthest(folder: Path, here: Path) -> None:
    (here / "in.txt").write_text("Жили-были старик со старухой\n!!!\n")
    for kind in KINDS:
        assert [row["distance"] for row in marks(f"{run_of(folder, kind)} in.txt")] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("data/*.tsv", ["data/a.tsv"]),
        ("data/**/*.tsv", ["data/a.tsv", "data/sub/b.tsv", "data/sub/sub/c.tsv"]),
        ("*/sub/*", ["data/sub/b.tsv"]),
        ("**/sub/?.tsv", ["data/sub/b.tsv", "data/sub/sub/c.tsv"]),
        ("/".join(["**"] * 30) + "/none", []),
    ],
)
def test_a_pattern_stands_for_the_files_that_it_stood_for(pattern: str, files: list[str]) -> None:
    listed = ["data/a.tsv", "data/sub/b.tsv", "data/sub/sub/c.tsv", "other/a.txt"]
    assert files_of(pattern, listed) == (files or [pattern])


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl"])
def test_tables_get_two_columns(folder: Path, here: Path, name: str) -> None:
    (here / "in.csv").write_text('text,id\nA fine book.,1\n"",2\n')
    command = f"predict {run_of(folder, 'lsa')} in.csv --unusual --explain -o {name}"
    assert "of 2 texts unusual" in succeed(command).err
    if name.endswith("csv"):
        with (here / name).open(newline="") as file:
            first, empty = csv.DictReader(file)
        assert first["unusual"] in ("true", "false")
    else:
        first, empty = map(json.loads, (here / name).read_text().splitlines())
        assert isinstance(first["unusual"], bool)
    assert list(first)[-3:] == ["unusual", "distance", "words"]
    assert not empty["unusual"]
    assert not empty["distance"]


def test_lines_have_the_mark_behind_the_label(folder: Path, here: Path) -> None:
    (here / "in.txt").write_text("Жили-были старик со старухой\n\nThis book is a masterpiece.\n")
    foreign, empty, _ = succeed(f"predict {folder}/cold in.txt --unusual").out.splitlines()
    assert foreign.split("\t")[1] == "unusual"
    assert empty == "\t"


def test_python_has_the_marks_as_columns(folder: Path) -> None:
    file = folder / "french" / "test.tsv"
    answers = warmstart.predict(run=run_of(folder, "lsa"), file=file, unusual=True, like=file)
    assert len(answers) == NUM_USUAL
    shares = [row["predicted_unusual" if "predicted_unusual" in row else "unusual"]
              for row in answers.records()]  # fmt: skip
    assert sum(shares) / len(shares) < 0.5, "they are usual among texts of --like"


def test_changed_and_missing_files_are_named_with_the_remedy(folder: Path, here: Path) -> None:
    rows = read_labelled_rows(folder / "english" / "train.tsv")[:60]
    train = write_labelled(here / "train.tsv", rows)
    succeed(f"finetune --train {train} -o mine {SHAPE} --epochs 1 {MACHINE}")
    said = succeed("predict mine --text fine --unusual").err
    assert "60 usual texts to compare with: what is marked as unusual is a rough guess" in said
    write_labelled(train, rows[1:])
    changed = refuse("predict mine --text fine --unusual")
    assert f"{train} has changed since mine was trained on it" in changed
    assert "--like" in changed
    train.unlink()
    missing = refuse("predict mine --text fine --unusual")
    assert str(train) in missing
    assert "--like" in missing
    succeed(f"predict mine --text fine --unusual --like {folder}/english/test.tsv")
    ran = run(f"data {folder}/english/test.tsv --against mine --json")
    assert ran.json["drift"] == []
    assert "drift is not reported" in ran.err


@pytest.mark.parametrize("named", ["parts", "parts/*.tsv", "./**/a?.tsv"])
def test_no_folder_is_searched_for_the_files_of_a_run(folder: Path, here: Path, named: str) -> None:
    (here / "parts").mkdir()
    rows = read_labelled_rows(folder / "english" / "train.tsv")
    write_labelled(here / "parts" / "a1.tsv", rows[:40])
    write_labelled(here / "parts" / "a2.tsv", rows[40:80])
    succeed(f"finetune --train '{named}' -o mine {SHAPE} --epochs 1 {MACHINE}")
    write_labelled(here / "parts" / "a3.tsv", rows[80:90])
    said = succeed("predict mine --text fine --unusual").err
    assert "80 usual texts to compare with" in said


@pytest.mark.parametrize("named", ["http://127.0.0.1:9/train.tsv", "/proc/self/maps", "{other}"])
def test_a_run_of_somebody_else_makes_nothing_be_read(folder: Path, here: Path, named: str) -> None:
    other = write_labelled(here / "other.tsv", [("private", "a"), ("letters", "b")])
    run_folder = shutil.copytree(folder / "cold", here / "theirs")
    config = read(run_folder / "config.json")
    config["settings"] |= {"train": [named.format(other=other)], "allow_private_urls": True}
    write_json(run_folder / "config.json", config)
    sentence = "is not fetched" if named.startswith("http") else "has changed since"
    assert sentence in refuse("predict theirs --text fine --unusual")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--like usual.txt", "give --unusual too"),
        ("--unusual --like nothing.txt", "--like nothing.txt is not a file"),
        ("--unusual --like empty.txt", "no rows with text"),
        ("--unusual --like one.txt", "cannot tell which texts are usual"),
    ],
)
def test_useless_options_are_refused(folder: Path, here: Path, options: str, sentence: str) -> None:
    (here / "empty.txt").write_text("\n")
    (here / "one.txt").write_text("A fine book.\n")
    assert sentence in refuse(f"predict {folder}/cold --text fine {options}")


def test_a_run_that_labels_nothing_has_no_usual_texts(base: Path) -> None:
    assert "to predict labels you need" in refuse(f"predict {base} --text fine --unusual")


@pytest.mark.parametrize("kind", KINDS)
def test_drift_sets_new_texts_beside_those_trained_on(folder: Path, kind: str) -> None:
    files = f"{folder}/english/test.tsv {folder}/french/unlabelled.txt"
    name = run_of(folder, kind)
    same, other = succeed(f"data {files} --against {name} --json").json["drift"]
    usual = same["usual"]
    assert usual == other["usual"]
    assert usual["labels"] == pytest.approx({"negative": 0.5, "positive": 0.5}, abs=0.1)
    assert same["new"]["unusual"] < 0.04 < 0.9 < other["new"]["unusual"]
    assert same["new"]["new_words"] < 0.02 < 0.5 < other["new"]["new_words"]
    assert same["new"]["median"] == pytest.approx(usual["median"], abs=3)
    assert sum(same["new"]["labels"].values()) == pytest.approx(1)
    out = succeed(f"data {files} --against {name}").out
    assert "drift against" in out
    assert "unusual texts" in out


def test_a_pretrained_run_has_no_drift(base: Path, folder: Path) -> None:
    assert succeed(f"data {folder}/english/test.tsv --against {base} --json").json["drift"] == []


def test_several_labels_are_counted_one_by_one(here: Path) -> None:
    sets = (["fun"], ["fun", "sad"], [])
    lines = [{"text": f"Text {n} of a story about {'cats' if n % 2 else 'dogs'}.",
              "labels": sets[n % 3]} for n in range(60)]  # fmt: skip
    (here / "sets.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    succeed(f"finetune --train sets.jsonl -o sets {SHAPE} --epochs 1 {MACHINE}")
    assert read(here / "sets" / "config.json")["task"] == "multilabel"
    (drift,) = succeed("data sets.jsonl --against sets --json").json["drift"]
    assert drift["usual"]["labels"] == pytest.approx({"fun": 2 / 3, "sad": 1 / 3})


def test_distances_go_from_copies_to_texts_that_share_no_word() -> None:
    texts = ["a fine book", "a dull book", "the film was long"] * NUM_NEIGHBOURS
    near = Neighbours(texts)
    copy, changed, foreign, empty = near.distances(
        ["a fine book", "a fine novel", "un beau livre", "!"]
    )
    assert copy == 0 < changed < foreign == empty == 1
    assert len(near.distances([])) == 0
    assert Neighbours(texts[:2]).distances(["a fine book"]) < 1, "fewer texts than neighbours"


@pytest.mark.parametrize("seed", range(3))
def test_one_in_a_hundred_usual_texts_is_marked(folder: Path, seed: int) -> None:
    texts = [text for _, text in read_labelled_rows(folder / "english" / "train.tsv")]
    shuffled = np.random.default_rng(seed).permutation(texts).tolist()
    reference = divide_reference(Dataset(texts=shuffled[:700]), seed)
    marked = [mark.unusual for mark in reference.compare(shuffled[700:])]
    assert sum(marked) <= 300 * 0.01 + 4 * 2.4, "4 deviations: of 350 held out and of 300 new ones"


def test_texts_of_one_group_stay_in_one_half() -> None:
    names = [f"passage {number % 20}" for number in range(100)]
    data = Dataset(texts=[f"text {number}" for number in range(100)], groups=names)
    reference = divide_reference(data, seed=0)
    assert set(reference.near.groups).isdisjoint(reference.held_out.groups)
    assert len(reference.near) == len(reference.held_out) == 50
