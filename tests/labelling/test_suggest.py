"""Texts to label next: which are chosen, which never, and what is written."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import warmstart
from command_line import QUICK, World, read_labelled_rows, refuse, succeed
from warmstart.errors import WarmstartError
from warmstart.labelling.choosing import choose_texts, directions, uncertainty_weights
from warmstart.labelling.settings import SuggestConfig
from warmstart.labelling.suggest import suggest


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a .csv file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_csv(path: Path, names: list[str], rows: list[list[str]]) -> Path:
    """Write a .csv file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


@pytest.fixture
def comments(world: World, here: Path) -> Path:
    """Write a table of unlabelled texts with two columns of its own."""
    texts = [text for _, text in read_labelled_rows(world.test)]
    return write_csv(
        here / "comments.csv", ["id", "text"], [[f"c{n}", text] for n, text in enumerate(texts)]
    )


def test_the_table_keeps_its_columns_and_has_a_label_to_fill_in(
    warm: Path, comments: Path, here: Path
) -> None:
    ran = succeed(f"suggest {warm} {comments} --num 7 -o to-label.csv")
    rows = rows_of(here / "to-label.csv")
    assert list(rows[0]) == ["id", "text", "label", "predicted", "probability", "rank"]
    assert [row["rank"] for row in rows] == [str(rank) for rank in range(1, 8)]
    assert {row["label"] for row in rows} == {""}
    assert {row["predicted"] for row in rows} <= {"negative", "positive"}
    given = {row["id"]: row["text"] for row in rows_of(comments)}
    assert all(given[row["id"]] == row["text"] for row in rows)
    shares = [float(row["probability"]) for row in rows]
    assert shares == sorted(shares), "of two classes, the first is the one nearest to a half"
    assert "finetune --from" in ran.out
    assert "--train to-label.csv" in ran.out


def test_the_column_to_fill_in_is_that_of_the_labelled_table(
    warm: Path, comments: Path, here: Path
) -> None:
    ran = succeed(f"suggest {warm} {comments} --columns text=text,label=mood --num 3 -o out.csv")
    assert list(rows_of(here / "out.csv")[0])[:3] == ["id", "text", "mood"]
    assert "--columns text=text,label=mood" in ran.out


def test_filled_in_the_table_trains(warm: Path, base: Path, comments: Path, here: Path) -> None:
    succeed(f"suggest {warm} {comments} --num 20 -o to-label.csv")
    rows = rows_of(here / "to-label.csv")
    for number, row in enumerate(rows):
        row["label"] = ("good", "bad")[number % 2]
    write_csv(here / "filled.csv", list(rows[0]), [list(row.values()) for row in rows])
    succeed(f"finetune --from {base} --train filled.csv -o next {QUICK}")
    assert warmstart.load(here / "next").classes == ("bad", "good")


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.parquet", "a.txt"])
def test_every_format_of_predict_is_written(
    warm: Path, comments: Path, here: Path, name: str
) -> None:
    succeed(f"suggest {warm} {comments} --num 3 -o {name}")
    texts = [text.row.text for text in warmstart.suggest(run=warm, file=comments, num=3)]
    written = (here / name).read_bytes()
    match Path(name).suffix:
        case ".parquet":
            assert pq.read_table(here / name)["text"].to_pylist() == texts
        case ".jsonl":
            assert [json.loads(line)["text"] for line in written.splitlines()] == texts
        case ".txt":
            assert written.decode().splitlines() == texts
        case _:
            assert all(text.encode() in written for text in texts)


def test_labelled_texts_are_never_suggested(world: World, base: Path, here: Path) -> None:
    """Neither those trained on, nor those set aside to validate, nor their near-copies."""
    succeed(f"finetune --from {base} --train {world.train} -o run {QUICK}")
    labelled = [text for _, text in read_labelled_rows(world.train)]
    new = [text for _, text in read_labelled_rows(world.test) if text not in labelled]
    rows = [[text] for text in (*map(str.upper, labelled), *new)]
    write_csv(here / "pool.csv", ["text"], rows)
    ran = succeed("suggest run pool.csv --num 1000 -o out.csv")
    suggested = {row["text"] for row in rows_of(here / "out.csv")}
    assert suggested
    assert suggested <= set(new)
    assert f"{len(labelled)} labelled already" in ran.err.replace(",", "")


def test_more_labelled_files_and_a_column_of_labels_count(
    warm: Path, comments: Path, here: Path
) -> None:
    rows = rows_of(comments)
    write_csv(here / "done.csv", ["text", "label"], [[row["text"], "good"] for row in rows[:8]])
    half = [[row["text"], "bad" if n % 2 else ""] for n, row in enumerate(rows)]
    write_csv(here / "half.csv", ["text", "Label"], half)
    succeed(f"suggest {warm} half.csv --labelled done.csv --num 1000 -o out.csv")
    written = rows_of(here / "out.csv")
    assert list(written[0]) == ["text", "Label", "predicted", "probability", "rank"]
    banned = {row["text"] for row in rows[:8]} | {text for text, label in half if label}
    assert written
    assert banned.isdisjoint(row["text"] for row in written)


@pytest.mark.parametrize("name", ["label", "mood"])
def test_rows_without_a_label_in_a_labelled_file_may_be_suggested(
    warm: Path, comments: Path, here: Path, name: str
) -> None:
    texts = [row["text"] for row in rows_of(comments)][:40]
    labels = ["good", "bad", ""] * 14
    rows = [list(pair) for pair in zip(texts, labels, strict=False)]
    write_csv(here / "done.csv", ["text", name], rows)
    write_csv(here / "pool.csv", ["text"], [[text] for text in texts])
    ran = succeed(f"suggest {warm} pool.csv --labelled done.csv --num 99 -o out.csv")
    done = {text for text, label in rows if label}
    suggested = {row["text"] for row in rows_of(here / "out.csv")}
    assert suggested
    assert suggested <= set(texts) - done
    assert "done.csv: 8 rows without label may be suggested" in ran.err


def test_near_copies_are_suggested_once(warm: Path, here: Path) -> None:
    long = "A very long story about a harbour town where nothing much happens until the storm. "
    texts = [long * 3, long * 3 + "The end.", long.upper() * 3, "short one", "another"]
    write_csv(here / "pool.csv", ["text"], [[text] for text in texts])
    ran = succeed(f"suggest {warm} pool.csv -o out.csv")
    assert sorted(len(row["text"]) for row in rows_of(here / "out.csv")) == [7, 9, len(long) * 3]
    assert "2 copies or near-copies" in ran.err


def test_without_a_classifier_texts_are_spread(base: Path, comments: Path, here: Path) -> None:
    ran = succeed(f"suggest {base} {comments} --num 5 -o out.csv")
    rows = rows_of(here / "out.csv")
    assert {(row["predicted"], row["probability"]) for row in rows} == {("", "")}
    assert "spread over all of them" in ran.out
    assert "unsure" not in ran.out
    assert f"finetune --from {base}" in ran.out


def test_a_comparison_gives_its_advised_model(world: World, comments: Path, here: Path) -> None:
    files = f"--train {world.train} --valid {world.valid} --unlabelled {world.texts}"
    succeed(f"compare {files} --labels 40 --seeds 0 --trials 1 -o race --threads 1")
    ran = succeed(f"suggest race {comments} --num 4 -o out.csv")
    assert "race advises" in ran.err
    tables = f"--train {world.train} --train out.csv"  # the labels there were, and the new ones
    again = f"next: warmstart compare --unlabelled {comments} {tables} -o next"
    assert again in ran.out  # fine-tuning would train a Transformer from random weights
    assert {row["predicted"] for row in rows_of(here / "out.csv")} <= {"negative", "positive"}


def test_the_seed_alone_decides(warm: Path, comments: Path) -> None:
    command = f"suggest {warm} {comments} --num 6 --json"
    assert succeed(command).out == succeed(command).out
    assert len(succeed(f"{command} --pool 9").out.splitlines()) == 6


def test_columns_of_the_same_name_are_kept(warm: Path, here: Path) -> None:
    write_csv(here / "pool.csv", ["text", "rank"], [["a fine book", "7"], ["a bad one", "8"]])
    succeed(f"suggest {warm} pool.csv --columns text -o out.csv")
    rows = rows_of(here / "out.csv")
    assert {row["rank"] for row in rows} == {"7", "8"}
    assert {row["suggested_rank"] for row in rows} == {"1", "2"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("comments.csv --num 0 -o a.csv", "--num 0"),
        ("absent.csv -o a.csv", "absent.csv"),
        ("empty.csv -o a.csv", "no rows with text"),
        ("comments.csv --labelled comments.csv -o a.csv", "no text is left to suggest"),
        ("comments.csv --labelled nowhere.csv -o a.csv", "--labelled nowhere.csv"),
        ("comments.csv -o comments.csv --overwrite", "is an input file"),
        ("comments.csv -o a.csv.gz", "compressed files are not written"),
        ("comments.csv -o a.csv --json", "--json is for standard output"),
    ],
)
def test_bad_input_is_refused_and_nothing_written(
    warm: Path, comments: Path, here: Path, arguments: str, said: str
) -> None:
    (here / "empty.csv").write_text("text,id\n")
    assert said in refuse(f"suggest {warm} {arguments}")
    assert not (here / "a.csv").exists()


def test_an_existing_table_is_not_replaced(warm: Path, comments: Path, here: Path) -> None:
    (here / "out.csv").write_text("filled in by hand")
    assert "exists already" in refuse(f"suggest {warm} {comments} -o out.csv")
    assert (here / "out.csv").read_text() == "filled in by hand"


def test_a_table_that_appears_while_texts_are_chosen_is_kept(
    warm: Path, comments: Path, here: Path
) -> None:
    config = SuggestConfig(run=str(warm), file=str(comments), num=3, out="to-label.csv")
    (here / "to-label.csv").write_text("mine")
    with pytest.raises(WarmstartError, match="exists already"):
        suggest(config)
    assert (here / "to-label.csv").read_text() == "mine"


def test_each_group_of_texts_is_chosen_from() -> None:
    generator = np.random.default_rng(0)
    centres = 10 * generator.normal(size=(8, 16))
    vectors = np.repeat(centres, [40, 1, 5, 5, 5, 5, 5, 5], 0)
    vectors = vectors + 0.1 * generator.normal(size=vectors.shape)
    groups = np.repeat(np.arange(8), [40, 1, 5, 5, 5, 5, 5, 5])
    chosen = choose_texts(vectors, None, 8, 0)
    assert sorted(groups[chosen]) == list(range(8))
    assert groups[chosen[0]] == 0, "the largest group comes first"


def test_unsure_texts_are_preferred_and_come_first() -> None:
    generator = np.random.default_rng(1)
    vectors, uncertainty = generator.normal(size=(500, 8)), generator.uniform(size=500)
    chosen = choose_texts(vectors, uncertainty, 30, 0)
    assert len(set(chosen)) == 30
    assert uncertainty[chosen].mean() > choose_mean(vectors, uncertainty)
    assert list(uncertainty[chosen]) == sorted(uncertainty[chosen], reverse=True)


def choose_mean(vectors: np.ndarray, uncertainty: np.ndarray) -> float:
    """Return the mean uncertainty of texts that are spread alone."""
    return float(uncertainty[choose_texts(vectors, None, 30, 0)].mean())


def test_texts_without_any_difference_can_be_chosen() -> None:
    assert sorted(choose_texts(np.zeros((5, 3)), None, 9, 0)) == [0, 1, 2, 3, 4]
    assert choose_texts(np.zeros((0, 3)), None, 9, 0) == []
    assert np.isfinite(directions(np.ones((4, 2)))).all()
    assert (uncertainty_weights(np.zeros(3)) > 0).all()
