"""What to run is said from what there is."""

import json
import re
from pathlib import Path

import pytest

from command_line import TINY, World, refuse, run, succeed
from warmstart.recipes.advice import (
    ENGLISH_MODEL,
    MULTILINGUAL_MODEL,
    archive_advice,
    few_tokens_advice,
    guess_language,
    little_text_advice,
    next_steps,
)
from warmstart.recipes.prepare_files import report_data
from warmstart.settings.using import DataConfig

SENTENCES = {
    "English": "The story of this book is good and it was written for the young.",
    "French": "Le livre est une histoire qui parle des enfants et que je ne lirai pas.",
    "German": "Das Buch ist nicht gut und ich habe es mit der Zeit auf den Tisch gelegt.",
    "Spanish": "El libro es una historia que los niños leen con las manos para el padre.",
    "Chinese": "这本书写得很好，我很喜欢。",
    "Japanese": "この本はとても面白かったです。",
    "Thai": "หนังสือเล่มนี้ดีมาก",
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive.txt"
    path.write_text("The service of this shop was good and it is near.\n" * 300)
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    rows = [f"{'good' if i % 2 else 'bad'},comment number {i} is short\n" for i in range(60)]
    path = tmp_path / "labels.csv"
    path.write_text("label,text\n" + "".join(rows))
    return path


@pytest.mark.parametrize(("language", "text"), SENTENCES.items(), ids=SENTENCES)
def test_languages_are_told_apart(language: str, text: str) -> None:
    assert guess_language([text]) == language


@pytest.mark.parametrize("texts", [[], [""], ["12 34"], ["xqz vrk plm"]])
def test_no_language_is_made_up(texts: list[str]) -> None:
    assert guess_language(texts) is None


def test_little_text_leads_to_a_public_model(archive: Path, labels: Path) -> None:
    done = succeed("start {archive} {labels}", archive=archive, labels=labels)
    assert "300 texts without labels, 3,300 words" in done.out
    assert "60 labelled texts of 2 classes" in done.out
    assert "language: English" in done.out
    lines = [line.strip() for line in done.out.splitlines() if "warmstart" in line]
    assert lines[0].startswith(f"warmstart compare --unlabelled {archive} --train {labels}")
    assert lines[1].startswith("warmstart import hf:")
    assert lines[2].startswith("warmstart compare --from runs/public")
    assert lines[3].startswith(f"warmstart review --train {labels}")


def test_files_without_labels_need_some(archive: Path) -> None:
    steps = json.loads(succeed("start {archive} --json", archive=archive).out)["steps"]
    commands = [step["command"].split()[0] for step in steps]
    assert commands == ["import", "suggest", "serve"]
    assert "which texts to label first" in steps[1]["purpose"]
    assert steps[2]["command"].endswith("--label to-label.csv")


def test_few_labels_lead_to_more_of_them(archive: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("label,text\n" + "good,it is near\nbad,it is far away\n" * 4)
    alone = succeed("start {few}", few=few).out
    assert "8 are too few to compare anything with" in alone
    assert "warmstart" not in alone
    lines = succeed("start {few} {archive}", few=few, archive=archive).out.splitlines()
    commands = [line.split()[1] for line in lines if line.strip().startswith("warmstart ")]
    assert commands == ["import", "suggest", "serve"]
    assert any(f"--labelled {few}" in line for line in lines)


MISLEADING = {
    "one class": ("text,label\n" + "a good text,good\n" * 40, "all have the label 'good'"),
    "ids as labels": (
        "text,label\n" + "".join(f"a text number {n},k{n}\n" for n in range(40)),
        "no label of .* occurs twice",
    ),
    "header alone": ("text,label\n", "is empty, or only a header"),
    "empty": ("", "is empty, or only a header"),
    "carriage returns": (
        "text,label\ra good text,good\ra bad text,bad\r",
        r"carriage return \(CR\) alone",
    ),
}


@pytest.mark.parametrize(("content", "sentence"), MISLEADING.values(), ids=MISLEADING)
def test_files_from_which_nothing_is_learned(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(content.encode())
    done = run("start {path}", path=path)
    assert re.search(sentence, done.out + done.err)
    assert "warmstart compare" not in done.out
    assert "semicolon" not in done.err


def test_texts_with_several_labels_are_not_counted_by_label(tmp_path: Path) -> None:
    rows = [
        f"text number {n},{('joy|love', 'anger', 'love|fear', 'joy|fear')[n % 4]}\n"
        for n in range(40)
    ]
    path = tmp_path / "several.csv"
    path.write_text("text,label\n" + "".join(rows))
    shown = succeed("start {path}", path=path).out
    assert "40 labelled texts with 70 labels of 4 kinds" in shown
    assert "review" not in shown


def test_the_data_report_ends_with_the_next_command(archive: Path, labels: Path) -> None:
    done = succeed("data {archive} {labels}", archive=archive, labels=labels)
    assert done.out.splitlines()[-1].startswith("next: warmstart compare --unlabelled")


def test_labels_that_occur_once_are_named_and_the_commands_run(
    archive: Path, tmp_path: Path
) -> None:
    rows = [f"text number {n},{('happy', 'sad')[n % 2]}\n" for n in range(60)]
    path = tmp_path / "typed.csv"
    path.write_text("text,label\n" + "".join(rows) + "a fine day,Happy\nwell done,hapy\n")
    steps = json.loads(succeed("start {a} {b} --json", a=archive, b=path).out)["steps"]
    assert not steps[0]["command"]
    assert "'Happy', 'hapy'; the labels 'Happy' (1) and 'happy' (30)" in steps[0]["purpose"]
    assert "--folds" not in steps[1]["command"]
    said = refuse(f"compare --train {path} --unlabelled {archive} --folds 3 -o {tmp_path}/out")
    assert "'Happy' (1) and 'happy' (30) differ only in case" in said


def test_the_comparison_with_a_public_model_has_all_arms_and_an_end(
    archive: Path, labels: Path
) -> None:
    command = steps_of("start {archive} {labels}", archive=archive, labels=labels)[2]
    assert f"--unlabelled {archive}" in command
    assert "--minutes 10" in command


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    rows = [
        f"{900 + i};comment number {i} is short;{('web', 'mail')[i % 2]};"
        f"{('happy', 'sad', 'angry')[i % 3]}\n"
        for i in range(60)
    ]
    path = tmp_path / "survey.csv"
    path.write_text("id;comment;channel;my, mood\n" + "".join(rows))
    return path


def steps_of(command: str, **places: object) -> list[str]:
    steps = json.loads(succeed(f"{command} --json", **places).out)["steps"]
    return [step["command"] for step in steps]


def test_columns_that_may_be_the_label_are_named_with_the_flag(survey: Path, archive: Path) -> None:
    done = succeed("start {archive} {survey}", archive=archive, survey=survey)
    assert "60 texts without labels (or the label is 'channel' or 'my, mood')" in done.out
    first, second, *others = steps_of("start {archive} {survey}", archive=archive, survey=survey)
    assert others[-1].startswith("serve")
    assert first == f"start {archive} {survey} --columns text=comment,label=channel"
    assert "60 labelled texts of 2 classes" in succeed(first).out
    assert "60 labelled texts of 3 classes" in succeed(second).out
    said = succeed("data {survey}", survey=survey).out.splitlines()[-1]
    assert said.startswith(f"next: warmstart start {survey} --columns")


def test_commands_keep_how_the_columns_were_named(survey: Path, archive: Path) -> None:
    flags = "--columns 'text=comment,\"label=my, mood\"' --delimiter ';'"
    commands = steps_of(f"start {{archive}} {{survey}} {flags}", archive=archive, survey=survey)
    reading = [command for command in commands if str(survey) in command]
    assert [command.split()[0] for command in reading] == ["compare", "compare", "review"]
    assert all(flags in command for command in reading)
    assert "3 classes" in succeed(f"start {reading[2].split('--train ')[1].split(' -o ')[0]}").out
    few = survey.with_name("few.csv")
    few.write_text("".join(survey.read_text().splitlines(keepends=True)[:9]))
    commands = steps_of(f"start {{archive}} {{few}} {flags}", archive=archive, few=few)
    (suggest,) = (command for command in commands if command.startswith("suggest"))
    assert flags in suggest


def test_another_table_may_lack_the_label_that_is_named(survey: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("day,comment\n" + "".join(f"d{i},the comment {i}\n" for i in range(40)))
    flags = "--columns text=comment,label=channel"
    done = succeed(f"start {{other}} {{survey}} {flags}", other=other, survey=survey)
    assert "40 texts without labels" in done.out
    assert "60 labelled texts" in done.out
    command = "start {other} {survey} --columns label=mod,text=comment"
    refused = run(command, other=other, survey=survey)
    assert refused.code == 2
    assert "no column mod (there: " in refused.said


def test_dates_are_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "archive.csv"
    for day in ("2026-11-{:02}", "{}.11.26", "11/{}/2026", "2026-11-{:02}T08:00:00"):
        rows = (f"the comment {i} is short,{day.format(i % 20 + 1)}\n" for i in range(60))
        path.write_text("comment,when\n" + "".join(rows))
        assert "60 texts without labels" in succeed("start {path}", path=path).out


def test_few_labels_are_all_scored(archive: Path, labels: Path) -> None:
    first, *_ = steps_of("start {archive} {labels}", archive=archive, labels=labels)
    assert first == f"compare --unlabelled {archive} --train {labels} --folds 5 -o first"


def test_labels_in_a_file_of_their_own_stay_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("".join(f"a good text {i}\n" for i in range(40)))
    (tmp_path / "labels.txt").write_text("good\nbad\n" * 20)
    texts, labels = (str(tmp_path / name) for name in ("texts.txt", "labels.txt"))
    config = DataConfig(files=(texts,), labels=(labels,))
    steps = next_steps(report_data(config), config, ENGLISH_MODEL)
    commands = [step.command for step in steps]
    assert f"review --train {texts} --train-labels {labels} -o suspects.csv" in commands


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = run("start {file}", file=tmp_path / "absent.txt")
    assert done.code == 2
    assert "absent.txt" in done.err


def test_enough_text_needs_no_advice() -> None:
    text = "word " * 1_000
    assert little_text_advice(4_000_000, ()) is None
    assert little_text_advice(3_000_000, [text] * 1_000) is None
    advice = little_text_advice(1_560_000, [text] * 120)  # by tokens of pieces of words
    assert advice is not None
    assert "120,000 words" in advice
    assert "import hf:" in advice


@pytest.mark.parametrize(("language", "text"), SENTENCES.items(), ids=SENTENCES)
def test_the_public_model_reads_the_language(language: str, text: str, tmp_path: Path) -> None:
    name = ENGLISH_MODEL if language == "English" else MULTILINGUAL_MODEL
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{text}\n" * 50, encoding="utf-8")
    importing = f"import {name} -o runs/public"
    assert steps_of("start {texts}", texts=texts)[0] == importing
    assert importing in succeed("data {texts}", texts=texts).out
    assert importing in archive_advice([text], "texts.txt")
    assert importing in str(little_text_advice(1_000, [text]))


def test_a_short_pretraining_is_told_what_to_expect(world: World, tmp_path: Path) -> None:
    assert few_tokens_advice(700_000_000) is None
    done = succeed(f"pretrain {{texts}} -o {{out}} {TINY}", texts=world.texts, out=tmp_path / "run")
    assert "tokens: expect lsa of the same text" in done.err


def test_tokens_are_not_called_words(archive: Path, base: Path) -> None:
    done = succeed("data {archive} --tokenizer {base}", archive=archive, base=base)
    assert "lengths in tokens" in done.out
    assert "about 3,300 words of text" in done.out


def test_a_file_of_one_class_leads_to_no_training(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("label,text\n" + "".join(f"good,comment {i}\n" for i in range(60)))
    done = succeed("start {path}", path=path)
    assert "60 labelled texts of 1 class," in done.out
    assert "all have the label 'good'" in done.out
    assert "warmstart" not in done.out


@pytest.mark.parametrize(
    ("num_words", "advice"), [(1_000, "start from a public model"), (1_000_000, "pretrain a.txt")]
)
def test_what_may_beat_simple_methods_depends_on_the_text(num_words: int, advice: str) -> None:
    assert advice in archive_advice(["word " * 500] * (num_words // 500), "a.txt")


def test_a_pretraining_after_simple_methods_is_not_promised_to_pay_on_a_cpu() -> None:
    assert "on a CPU expect lsa to stay ahead" in archive_advice(["word " * 1_000_000], "a.txt")
