"""Labels that look wrong: which are listed, what is written, and what is refused."""

import csv
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import warmstart
from command_line import MACHINE, World, read_labelled_rows, refuse, succeed, write_labelled

GOOD = "a lovely warm and moving story number {} with charm"
BAD = "a dull cold and boring story number {} with flaws"
FLIPPED = (3, 40)  # rows of the file below whose labels are wrong


def write_reviews(path: Path) -> Path:
    """Write reviews that words decide, two with the wrong label, a copy, and a rare label."""
    rows = [("good", GOOD.format(n)) for n in range(30)]
    rows += [("bad", BAD.format(n)) for n in range(30)]
    for row in FLIPPED:
        label, text = rows[row]
        rows[row] = ("bad" if label == "good" else "good", text)
    rows += [("bad", rows[10][1]), ("meh.", "no opinion at all about this")]
    return write_labelled(path, rows)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_wrong_labels_come_first_with_the_line_to_correct(here: Path) -> None:
    ran = succeed(f"review --train {write_reviews(here / 'train.tsv')} -o out.csv {MACHINE}")
    rows = rows_of(here / "out.csv")
    lines = (here / "train.tsv").read_text().splitlines()
    for row in rows:
        assert lines[int(row["line"]) - 1] == f"{row['label']}\t{row['text']}"
    assert [row["rank"] for row in rows] == [str(number + 1) for number in range(len(rows))]
    # the copy with another label is as wrong as those that were flipped
    wrong = {str(row + 2) for row in (*FLIPPED, 60)}
    assert {row["line"] for row in rows[:3]} == wrong
    assert {row["suggested"] for row in rows[:3]} <= {"good", "bad"}
    doubts = [float(row["doubt"]) for row in rows if row["doubt"]]
    assert doubts == sorted(doubts, reverse=True)
    assert {row["line"] for row in rows if "another label" in row["reason"]} == {"12", "62"}
    assert rows[-1]["label"] == "meh."
    assert "no other text" in rows[-1]["reason"]
    assert "mixed up" in ran.out


def test_python_returns_the_same(here: Path) -> None:
    train = write_reviews(here / "train.tsv")
    found = warmstart.review(train=train, threads=1)
    printed = succeed(f"review --train {train} --json {MACHINE}").out.splitlines()
    assert [suspect.values() for suspect in found] == list(map(json.loads, printed))
    assert {(pair.label, pair.suggested) for pair in found.mixed} <= {
        ("good", "bad"),
        ("bad", "good"),
    }
    assert len(warmstart.review(train=train, num=2, threads=1)) == 2


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.parquet", "a.txt"])
def test_every_format_is_written(here: Path, name: str) -> None:
    train = write_reviews(here / "train.tsv")
    succeed(f"review --train {train} --num 3 -o {name} {MACHINE}")
    texts = [suspect.text for suspect in warmstart.review(train=train, num=3, threads=1)]
    written = (here / name).read_bytes()
    if name.endswith(".parquet"):
        assert pq.read_table(here / name)["text"].to_pylist() == texts
    else:
        assert all(text.encode() in written for text in texts)


def test_a_pretrained_run_judges_too(base: Path, here: Path) -> None:
    train = write_reviews(here / "train.tsv")
    ran = succeed(f"review --from {base} --train {train} -o out.csv {MACHINE}")
    assert "judged by 3 models: frozen, lsa, tf-idf" in ran.err


def test_several_files_are_told_apart(here: Path) -> None:
    lines = write_reviews(here / "all.tsv").read_text().splitlines(keepends=True)
    (here / "a.tsv").write_text("".join([*lines[:40]]))
    (here / "b.tsv").write_text("".join([lines[0], *lines[40:]]))
    found = warmstart.review(train=("a.tsv", "b.tsv"), threads=1)
    for suspect in found:
        line = Path(suspect.file).read_text().splitlines()[suspect.line - 1]
        assert line == f"{suspect.label}\t{suspect.text}"


def test_several_labels_of_a_text(here: Path) -> None:
    rows = [{"text": GOOD.format(n), "labels": ["good"]} for n in range(20)]
    rows += [{"text": BAD.format(n), "labels": ["bad"]} for n in range(20)]
    rows += [
        {"text": f"{GOOD.format(n)} {BAD.format(n)}", "labels": ["good", "bad"]}
        for n in range(20, 40)
    ]
    rows[5]["labels"] = ["bad"]
    (here / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = warmstart.review(train=here / "train.jsonl", threads=1)
    assert found.suspects[0].line == 6
    assert found.suspects[0].label == "bad"
    assert "good" in (found.suspects[0].suggested or "")


@pytest.fixture(scope="module")
def crossed(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return labelled texts with two wrong labels, and a comparison with folds of them."""
    folder = tmp_path_factory.mktemp("crossed")
    train = write_reviews(folder / "train.tsv")
    lines = train.read_text().splitlines(keepends=True)
    train.write_text("".join(lines[:-1]))  # each class needs two texts
    command = f"compare --unlabelled {world.texts} --train {train} --folds 3 --trials 1"
    succeed(f"{command} --seeds 0,1 {MACHINE} -o {folder / 'race'}")
    return train, folder / "race"


def test_the_report_of_folds_lists_what_every_model_contradicts(
    crossed: tuple[Path, Path],
) -> None:
    train, folder = crossed
    results = json.loads((folder / "results.json").read_text())
    (split,), cells = results["splits"], results["cells"]
    answers = list(zip(*(cell["predictions"]["cross-validation"] for cell in cells), strict=True))
    expected = {row for row, target in enumerate(split["classes"]) if target not in answers[row]}
    assert set(FLIPPED) <= expected
    found = warmstart.review(from_run=folder, train=train)
    contradicted = [suspect for suspect in found if suspect.doubt is not None]
    assert {suspect.line - 2 for suspect in contradicted} == expected
    margins = [sum(cell["margins"][s.line - 2] for cell in cells) for s in contradicted]
    assert margins == sorted(margins)
    page = (folder / "report.html").read_text()
    assert "Labels that look wrong" in page
    section = page.split("Labels that look wrong", 2)[-1]
    assert contradicted[0].text in section


def test_margins_are_negative_where_the_answer_is_another(crossed: tuple[Path, Path]) -> None:
    results = json.loads((crossed[1] / "results.json").read_text())
    (split,) = results["splits"]
    for cell in results["cells"]:
        answers = cell["predictions"]["cross-validation"]
        for answer, target, margin in zip(answers, split["classes"], cell["margins"], strict=True):
            assert margin == 0 or (margin < 0) == (answer != target)


def test_a_comparison_of_other_files_is_refused(crossed: tuple[Path, Path], here: Path) -> None:
    other = write_reviews(here / "other.tsv")
    said = refuse(f"review --from {crossed[1]} --train {other} -o out.csv")
    assert "other.tsv is not a file" in said


@pytest.mark.parametrize("options", ["--folds 3", "--unlabelled train.tsv"])
def test_what_a_comparison_does_not_need_is_refused(
    crossed: tuple[Path, Path], options: str
) -> None:
    said = refuse(f"review --from {crossed[1]} --train {crossed[0]} {options}")
    assert f"{options.split()[0]} has no effect" in said


def test_damaged_results_are_refused(crossed: tuple[Path, Path], here: Path) -> None:
    shutil.copytree(crossed[1], here / "race")
    file = here / "race/results.json"
    results = json.loads(file.read_text())
    results["cells"][0]["margins"].pop()
    file.write_text(json.dumps(results))
    assert "is damaged" in refuse(f"review --from race --train {crossed[0]}")


def test_a_comparison_without_folds_is_refused(world: World, here: Path) -> None:
    files = f"--train {world.train} --valid {world.valid} --unlabelled {world.texts}"
    succeed(f"compare {files} --seeds 0 --trials 1 -o race {MACHINE}")
    assert "--folds 5" in refuse(f"review --from race --train {world.train} -o out.csv")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--train absent.csv -o a.csv", "absent.csv"),
        ("--train one.tsv -o a.csv", "fewer than two labels"),
        ("--train train.tsv -o train.tsv --overwrite", "is an input file"),
        ("--train train.tsv -o a.csv --json", "--json is for standard output"),
        ("--train train.tsv --folds 1 -o a.csv", "--folds 1"),
        ("--train train.tsv --from {warm} -o a.csv", "may have learned the labels"),
        ("--train train.tsv --from nowhere -o a.csv", "nowhere"),
        ("--train words.conll -o a.csv", "--task tag"),
    ],
)
def test_bad_input_is_refused_and_nothing_written(
    warm: Path, here: Path, arguments: str, said: str
) -> None:
    write_reviews(here / "train.tsv")
    write_labelled(here / "one.tsv", [("good", f"text {n}") for n in range(9)])
    (here / "words.conll").write_text("a\tO\nfine\tO\n\nOslo\tB-LOC\n\n")
    assert said in refuse(f"review {arguments.format(warm=warm)}")
    assert not (here / "a.csv").exists()


def test_clean_labels_are_left_alone(world: World, here: Path) -> None:
    rows = [("good", GOOD.format(n)) for n in range(20)]
    rows += [("bad", BAD.format(n)) for n in range(20)]
    train = write_labelled(here / "train.tsv", rows)
    succeed(f"review --train {train} -o out.csv {MACHINE}")
    assert rows_of(here / "out.csv") == []
    assert read_labelled_rows(world.train)
