"""Texts in scripts without spaces between words are not counted as a handful of words."""

import json
import re
from pathlib import Path

import pytest

from command_line import MACHINE, succeed
from warmstart.data.labelled import read_labelled
from warmstart.data.lengths import TextLengths, count_words
from warmstart.recipes.advice import archive_advice

SENTENCES = {  # with their number of words
    "Chinese": ("这本书写得很好，我很喜欢。", 10),
    "Japanese": ("この本はとても面白かったです。", 7),
    "Thai": ("หนังสือเล่มนี้ดีมาก", 5),
}
SPACED = {
    "English": ("The book was good, and I liked it.", 8),
    "Korean": ("이 책은 정말 재미있었습니다.", 4),
    "no word": ("", 0),
}


@pytest.fixture(params=SENTENCES)
def sentence(request: pytest.FixtureRequest) -> str:
    return SENTENCES[request.param][0]


@pytest.mark.parametrize(("text", "num_words"), SENTENCES.values(), ids=SENTENCES)
def test_words_without_spaces_are_estimated(text: str, num_words: int) -> None:
    assert num_words / 2 <= count_words(text) <= 2 * num_words
    long = text * 1000
    assert num_words / 2 <= count_words(long) / 1000 <= 2 * num_words


@pytest.mark.parametrize(("text", "num_words"), SPACED.values(), ids=SPACED)
def test_words_with_spaces_are_counted(text: str, num_words: int) -> None:
    assert count_words(text) == num_words
    assert TextLengths().add([text]).unit == "words"


def test_the_unit_is_that_of_most_of_the_text(sentence: str) -> None:
    english, _ = SPACED["English"]
    assert TextLengths().add([english] * 20 + [sentence]).unit == "words"
    assert TextLengths().add([english, sentence * 20]).unit == "characters"


def test_files_are_reported_in_characters(sentence: str, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{sentence}\n" * 300, encoding="utf-8")
    (file,) = succeed("data {texts} --json", texts=texts).json["files"]
    assert (file["unit"], file["median"]) == ("characters", len(sentence))
    assert file["units"] == 300 * len(sentence)
    assert file["words"] == 300 * count_words(sentence)
    assert "lengths in characters" in succeed("data {texts}", texts=texts).out
    shown = succeed("start {texts}", texts=texts).out
    assert f"300 texts without labels, {300 * len(sentence):,} characters" in shown
    assert f"about {300 * count_words(sentence):,} words of text to pretrain on" in shown


def test_files_in_different_units_say_theirs(sentence: str, tmp_path: Path) -> None:
    for name, text in (("a.txt", sentence), ("b.txt", SPACED["English"][0])):
        (tmp_path / name).write_text(f"{text}\n" * 40, encoding="utf-8")
    shown = succeed(f"data {tmp_path}/a.txt {tmp_path}/b.txt").out
    assert re.search(r"a\.txt\W+characters", shown)
    assert re.search(r"b\.txt\W+words", shown)


def test_much_text_is_enough_to_pretrain_on(sentence: str) -> None:
    document = sentence * 20
    num = 1 + 1_000_000 // count_words(document)
    assert "warmstart pretrain a.txt" in archive_advice([document] * num, "a.txt")
    assert "start from a public model" in archive_advice([document] * (num // 2), "a.txt")


def test_a_column_of_texts_is_found_by_its_content(sentence: str, tmp_path: Path) -> None:
    rows = [f"客{n},{sentence}{n},{('好', '坏')[n % 2]}" for n in range(12)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["客户编号,留言,结果", *rows]) + "\n", encoding="utf-8")
    data = read_labelled(path)
    assert data.texts[3] == f"{sentence}3"
    assert set(data.labels) == {"好", "坏"}


def test_drift_is_in_the_unit_of_the_training_texts(sentence: str, tmp_path: Path) -> None:
    train, new = tmp_path / "train.csv", tmp_path / "new.txt"
    rows = [f"{sentence}{n}号,{'ab'[n % 2]}\n" for n in range(60)]
    train.write_text("text,label\n" + "".join(rows), encoding="utf-8")
    new.write_text("a book\n" * 20)
    model = tmp_path / "model"
    shape = "--preset tiny --width 16 --heads 2 --depth 1 --ffn-width 16 --vocab-size 400"
    succeed(f"finetune --train {train} -o {model} {shape} --epochs 1 {MACHINE}")
    (drift,) = json.loads(succeed(f"data {new} --against {model} --json").out)["drift"]
    assert drift["unit"] == "characters"
    assert drift["new"]["median"] == len("a book")
    assert drift["usual"]["median"] >= len(sentence)
    assert "median length in characters" in succeed(f"data {new} --against {model}").out
