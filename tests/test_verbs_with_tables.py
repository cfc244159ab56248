"""The verbs as a notebook calls them: tables in, tables out, and messages in Python's words."""

import logging
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import warmstart
from command_line import World, read, read_labelled_rows, weights_of
from warmstart import WarmstartError
from warmstart.settings.python_words import python_words
from warmstart.settings.training import FinetuneConfig

QUICK: dict[str, Any] = {"epochs": 2, "threads": 1, "precision": "fp32"}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def frame(world: World) -> pd.DataFrame:
    """Return labelled texts as a survey has them: other names, another order, gaps."""
    rows = pd.DataFrame(read_labelled_rows(world.train), columns=["sentiment", "comment"])
    gaps = pd.DataFrame({"sentiment": [None, "positive"], "comment": ["No label.", None]})
    return pd.concat([rows, gaps]).assign(id=range(1, len(rows) + 3)).sample(frac=1, random_state=0)


def test_a_frame_trains_what_its_file_does(
    masked: Path, frame: pd.DataFrame, here: Path, world: World
) -> None:
    valid = pl.read_csv(world.valid, separator="\t")
    held = warmstart.finetune(from_run=masked, train=frame, valid=valid, out="held", **QUICK)
    frame.to_json("train.jsonl", orient="records", lines=True)
    file = {"train": "train.jsonl", "valid": world.valid}
    warmstart.finetune(from_run=masked, **file, out="filed", **QUICK)
    assert weights_of(here / "held") == weights_of(here / "filed")
    assert (held.unread.without_text, held.unread.without_label) == (1, 1)
    assert "1 row without text, 1 row without label" in held._repr_html_()
    assert held.model.predict(frame["comment"].dropna()[:2])[0].label in held.model.classes


def test_a_run_is_resumed_with_the_same_frame_alone(
    masked: Path, frame: pd.DataFrame, here: Path
) -> None:
    job: dict[str, Any] = {"from_run": masked, "out": "run", **QUICK}
    first = warmstart.finetune(train=frame, **job)
    again = warmstart.finetune(train=frame.copy(), resume=True, **job)
    assert (again.valid, again.unread) == (first.valid, first.unread)
    assert Path(read(here / "run/data.json")["files"][0]["path"]).is_file()
    with pytest.raises(WarmstartError, match="started with other settings: train was "):
        warmstart.finetune(train=frame[:-1], resume=True, **job)


def test_predictions_become_a_frame(warm: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    predicted = warmstart.predict(run=warm, file=frame, columns={"text": "comment"})
    table = predicted.to_pandas()
    assert table["comment"].isna().tolist() == [answer is None for answer in predicted]
    assert table["id"].tolist() == frame["id"].tolist()
    labels = [None if answer is None else answer.label for answer in predicted]
    assert pl.DataFrame(predicted.to_arrow())["label"].to_list() == labels
    html = predicted._repr_html_()
    assert f"{len(frame):,} predictions; the first 10 are shown" in html
    assert html.count("<tr") == 11
    assert "probability_" not in html
    texts = frame["comment"].dropna()
    assert warmstart.load(warm).predict(texts).to_pandas()["label"].tolist() == [
        *filter(None, labels)
    ]
    assert not (tmp_path / "cache").exists()  # what is used once is not kept


def test_start_writes_calls_that_run_with_the_tables(
    world: World, frame: pd.DataFrame, here: Path
) -> None:
    files = [pd.Series(world.texts.read_text().splitlines(), name="comment"), frame]
    found = warmstart.start(files=files)
    assert "files[1] (DataFrame): 48 labelled texts of 2 classes, 1 without a label" in str(found)
    assert "parquet" not in str(found) + found._repr_html_()
    first, *_, last = (step.command for step in found.steps)
    assert first == 'warmstart.compare(unlabelled=files[0], train=files[1], folds=5, out="first")'
    assert last == 'warmstart.review(train=files[1], out="suspects.csv")'
    reviewed = eval(last, {"warmstart": warmstart, "files": files})
    assert {suspect.file for suspect in reviewed} == {"train (DataFrame)"}
    assert all(frame["comment"].iloc[row.line - 1] == row.text for row in reviewed)
    assert "--" not in str(warmstart.start(files={"text": ["a", "b"], "label": ["x", "x"]}))


def test_texts_alone_are_read_by_every_verb(world: World, masked: Path, here: Path) -> None:
    texts = world.texts.read_text().splitlines()[:40]
    vectors = warmstart.embed(run=masked, file=texts).vectors
    assert vectors is not None
    assert vectors.shape == (40, 16)
    chosen = warmstart.suggest(run=masked, file=pd.Series(texts), num=3)
    assert len(pl.DataFrame(chosen)) == 3
    tokenizer = warmstart.make_tokenizer(files={"text": texts}, out="tokenizer", vocab_size=270)
    assert tokenizer is not None


@pytest.mark.parametrize(
    "columns", [{"text": "a", "label": "b"}, "text=a,label=b", ["text=a", "label=b"]]
)
def test_columns_are_named_as_a_program_likes(columns: Any, masked: Path, here: Path) -> None:
    rows = [{"a": f"{i} is fine", "b": f"{i % 2}", "c": f"and {i} other words"} for i in range(20)]
    run = warmstart.finetune(from_run=masked, train=rows, columns=columns, out="run", **QUICK)
    assert read(run.run / "config.json")["settings"]["columns"] == ["text=a", "label=b"]


FRAME = pd.DataFrame({"a": ["one two three", "four five six"] * 5, "b": ["x", "y"] * 5})
MISUSES: dict[str, tuple[dict[str, Any], str]] = {
    "no column": (
        {"train": FRAME, "columns": {"text": "c", "label": "b"}},
        r'train \(DataFrame\): no column c \(there: a, b\); use columns="ROLE=NAME"',
    ),
    "a doubt": (
        {"train": FRAME.assign(c=FRAME["b"])},
        r'name them, for example columns="text=a,label=b"$',
    ),
    "a cell": (
        {"train": pd.DataFrame({"text": [1, 2] * 5, "label": ["x", "y"] * 5})},
        r"train \(DataFrame\) row 1: text is 1, not a string",
    ),
    "a range": ({"train": FRAME, "epochs": 0}, "^epochs=0 is not allowed"),
    "a switch": ({"train": FRAME, "frozen": True}, "^frozen=True needs from_run"),
    "nothing": ({}, "^train is missing"),
    "sentences": ({"train": ["A fine book.", "Is it? " * 99]}, r'write train=\{"text": \[...\]\}$'),
    "pairs": ({"train": [("a", "b")]}, "columns have no names; give a DataFrame"),
    "a frame as a path": ({"train": FRAME, "tokenizer": FRAME}, "^tokenizer must be text, not a b"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_errors_name_keywords_and_tables(misuse: str, here: Path) -> None:
    keywords, problem = MISUSES[misuse]
    with pytest.raises(WarmstartError, match=problem):
        warmstart.finetune(**{"out": "run", **keywords})


def test_values_without_keywords_are_refused() -> None:
    with pytest.raises(WarmstartError, match=r"write finetune\(train=…, out=…, from_run=…\)"):
        warmstart.finetune("runs/base", "clean.csv")  # type: ignore[misc]


def test_a_table_without_a_keyword_is_not_printed(frame: pd.DataFrame) -> None:
    with pytest.raises(WarmstartError, match="takes keywords, not a DataFrame, 'out' without a"):
        warmstart.finetune(frame, "out")  # type: ignore[misc]


def test_what_is_returned_has_a_short_repr(
    warm: Path, frame: pd.DataFrame, world: World, here: Path
) -> None:
    columns = {"text": "comment", "label": "sentiment"}
    compared = warmstart.compare(
        unlabelled=[world.texts],
        train=frame,
        columns=columns,
        out="quick",
        labels=["16"],
        seeds=[0],
    )
    results = (
        compared,
        compared.model,
        warmstart.load(warm),
        warmstart.predict(run=warm, file=frame, columns={"text": "comment"}),
        warmstart.report_data(files=[frame], columns=columns),
        warmstart.review(train=frame, columns=columns),
    )
    for result in results:
        assert len(repr(result)) < 1000
    assert "more]" in repr(results[3])


@pytest.mark.parametrize("text", [None, float("nan"), 5])
def test_a_text_that_is_none_is_named(text: Any, warm: Path, masked: Path) -> None:
    problem = rf"texts\[1\] is {text}, not a string"
    with pytest.raises(WarmstartError, match=f"predict: {problem}"):
        warmstart.load(warm).predict(["ok", text])
    with pytest.raises(WarmstartError, match=f"embed: {problem}"):
        warmstart.load(masked).embed(["ok", text])


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_is_not_taken_for_the_names_of_its_columns(kind: Any, warm: Path) -> None:
    with pytest.raises(WarmstartError, match="give one column of it"):
        warmstart.load(warm).predict(kind({"text": ["fine"]}))


def test_messages_are_logged(warm: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "warmstart"):
        warmstart.predict(run=warm, file=["fine", None])
    assert "file (list): text from 'text'" in caplog.messages
    assert "1 row of 2 without text: no label" in caplog.messages


def test_commands_in_messages_keep_their_flags(warm: Path, here: Path) -> None:
    with pytest.raises(WarmstartError, match=r"trains$") as raised:
        warmstart.generate(run=warm)
    assert "`warmstart pretrain`" in str(raised.value)


@pytest.mark.slow
def test_a_comparison_of_frames_is_a_frame(
    masked: Path, frame: pd.DataFrame, world: World, here: Path
) -> None:
    test = pl.read_csv(world.test, separator="\t")
    quick = {"arms": "frozen,tfidf", "labels": "20,all", "seeds": [0, 1], "trials": 1, "threads": 1}
    result = warmstart.compare(from_runs=masked, train=frame, test=test, out="c", **quick)  # type: ignore[arg-type]
    table = result.to_pandas()
    assert set(table["arm"]) == {"frozen", "tf-idf"}
    assert table["accuracy"].between(table["low"], table["high"]).all()
    assert result.model.predict(test["text"])[0].label in result.model.classes


def test_labels_of_a_frame_are_reviewed(world: World, here: Path) -> None:
    frame = pd.DataFrame(read_labelled_rows(world.train), columns=["label", "text"])
    found = warmstart.review(train=frame, folds=2, threads=1)
    assert found.num_texts == len(frame)
    assert found.to_pandas().to_dict("records") == found.records()


@pytest.mark.parametrize(
    ("message", "in_python"),
    [
        ("195 steps fit into --minutes 1.5", "195 steps fit into minutes=1.5"),
        ("--epochs 0 is not allowed", "epochs=0 is not allowed"),
        ("--pooling cls fits, --pooling is", 'pooling="cls" fits, pooling is'),
        ("use --frozen here, or --from, or -o", "use frozen=True here, or from_run, or out"),
        (
            "--seed 1,2 and --other 3 and `tar --seed 4`",
            "seed 1,2 and --other 3 and `tar --seed 4`",
        ),
        ("the end is --seed 7.", "the end is seed=7."),
    ],
)
def test_flags_with_their_values_become_keywords(message: str, in_python: str) -> None:
    assert python_words(FinetuneConfig, {})(message) == in_python
