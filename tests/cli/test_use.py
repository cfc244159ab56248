"""Trained runs in use: predict, generate, evaluate."""

import json
import re
import shutil
from pathlib import Path

import pytest

from command_line import (
    MACHINE,
    World,
    read,
    read_labelled_rows,
    refuse,
    succeed,
    write_labelled,
)
from warmstart.tasks import finetuning as finetuning_task


def test_a_line_in_is_a_line_out_in_order(world: World, warm: Path) -> None:
    texts = world.texts.read_text(encoding="utf-8").splitlines()[:30]
    command = f"predict {warm} --json {MACHINE}"
    forward = succeed(command, "\n".join(texts).encode()).out.splitlines()
    backward = succeed(command, "\n".join(texts[::-1]).encode()).out.splitlines()
    assert len(forward) == len(texts)
    first, second = [json.loads(f) for f in forward], [json.loads(b) for b in backward[::-1]]
    assert [f["label"] for f in first] == [s["label"] for s in second]
    shares = [f["probability"] for f in first]
    assert shares == pytest.approx([s["probability"] for s in second], abs=1e-6)
    assert len(set(shares)) > 20


def test_plain_output_is_the_label_alone(warm: Path) -> None:
    lines = succeed(f"predict {warm}", b"a book\nanother\n").out.splitlines()
    assert len(lines) == 2
    assert set(lines) <= {"negative", "positive"}


def test_an_empty_line_gets_an_empty_answer(warm: Path) -> None:
    ran = succeed(f"predict {warm}", b"a book\n\n \nanother\n")
    assert [bool(line) for line in ran.out.splitlines()] == [True, False, False, True]
    assert "2 rows of 4 without text" in ran.err
    assert succeed(f"predict {warm} --json", b"\n").json["label"] is None


def test_no_input_gives_no_output(warm: Path) -> None:
    assert succeed(f"predict {warm}").out == ""


def test_probabilities_are_by_label_and_sum_to_one(warm: Path) -> None:
    found = succeed(f"predict {warm} --json", b"a book\n").json
    assert set(found) == {"label", "probability", "probabilities"}
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    assert found["probabilities"][found["label"]] == found["probability"]


def test_a_file_and_standard_input_give_the_same(world: World, warm: Path, here: Path) -> None:
    succeed(f"predict {warm} {world.texts} -o labels.txt")
    piped = succeed(f"predict {warm}", world.texts.read_bytes())
    assert (here / "labels.txt").read_text() == piped.out
    assert succeed(f"predict {warm} -", world.texts.read_bytes()).out == piped.out
    assert [p.name for p in here.iterdir()] == ["labels.txt"]


def test_a_table_is_read_by_its_text_column(world: World, warm: Path) -> None:
    rows = read_labelled_rows(world.test)
    plain = succeed(f"predict {warm}", "\n".join(text for _, text in rows).encode())
    assert succeed(f"predict {warm} {world.test}").out == plain.out


def test_a_bad_line_writes_no_file(warm: Path, here: Path) -> None:
    (here / "texts.txt").write_bytes(b"good\n" * 2000 + b"caf\xe9\n")
    assert "texts.txt line 2001" in refuse(f"predict {warm} texts.txt -o labels.txt")
    assert not (here / "labels.txt").exists()


def test_greedy_text_is_always_the_same_and_goes_on_from_the_prompt(base: Path) -> None:
    greedy = f"generate {base} --prompt 'This book' --temperature 0"
    first, second = succeed(greedy).out, succeed(f"{greedy} --seed 5").out
    assert first == second
    assert first.startswith("This book")


def test_seeds_give_different_texts_and_the_same_seed_the_same(base: Path) -> None:
    drawn = [succeed(f"generate {base} --json --seed {seed}").out for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_several_texts_at_once(base: Path) -> None:
    lines = succeed(f"generate {base} --num 3 --json").out.splitlines()
    assert len({json.loads(line)["text"] for line in lines}) == 3


def test_max_tokens_limits_a_text(base: Path) -> None:
    short = succeed(f"generate {base} --json --max-tokens 1 --temperature 0").json["text"]
    longer = succeed(f"generate {base} --json --max-tokens 9 --temperature 0").json["text"]
    assert longer.startswith(short.rstrip("\ufffd"))
    assert len(short) < len(longer)


def test_a_text_that_stops_where_the_model_does_is_said_to(base: Path) -> None:
    longest = read(base / "config.json")["model"]["max_length"]
    ran = succeed(f"generate {base} --temperature 0 --max-tokens 99")
    assert f"reads at most {longest} tokens" in ran.err
    assert "reads no more" not in ran.out
    assert "reads no more" not in succeed(f"generate {base} --temperature 0 --max-tokens 3").err


def test_generated_text_goes_into_a_file(base: Path, here: Path) -> None:
    succeed(f"generate {base} --num 2 -o texts.jsonl --json")
    assert (here / "texts.jsonl").read_text() == succeed(f"generate {base} --num 2 --json").out


def test_evaluate_scores_a_classifier(world: World, warm: Path) -> None:
    found = succeed(f"evaluate {warm} --test {world.test} --json").json
    rows = read_labelled_rows(world.test)
    labels = succeed(f"predict {warm} {world.test}").out.split()
    right = [label == true for label, (true, _) in zip(labels, rows, strict=True)]
    assert found["accuracy"] == pytest.approx(sum(right) / len(right))
    assert found["interval"]["low"] <= found["accuracy"] <= found["interval"]["high"]
    assert sum(map(sum, found["confusion"])) == found["rows"] == len(rows)
    assert found["calibration"]


def test_evaluate_shows_what_it_found(world: World, warm: Path) -> None:
    shown = succeed(f"evaluate {warm} --test {world.test}").out
    for words in ("accuracy", "macro f1", "95% interval", "true \\ predicted", "scores.json"):
        assert words in shown


def test_a_long_evaluation_shows_progress(
    world: World, warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = succeed(f"evaluate {warm} --test {world.test}")
    monkeypatch.setattr(finetuning_task, "SHOWN_TOKENS", 0)
    ran = succeed(f"evaluate {warm} --test {world.test}")
    assert "scoring" not in short.err
    done, total = re.search(r"scoring: (\d+)/(\d+),", ran.err).groups()
    assert done == total > "0"


def test_evaluate_scores_a_language_model(world: World, base: Path) -> None:
    found = succeed(f"evaluate {base} --test {world.test} --json").json
    assert found["interval"]["low"] <= found["perplexity"] <= found["interval"]["high"]
    assert 0 < found["bits_per_byte"] < 16
    assert found["seen_in_training"] == 0


def test_scores_do_not_depend_on_what_is_read_together(world: World, base: Path) -> None:
    command = f"evaluate {base} --test {world.texts} --json {MACHINE}"
    together = succeed(command).json
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr("warmstart.tasks.causal.BATCH_TOKENS", 1)
        alone = succeed(command).json
    for figure in ("loss", "perplexity", "bits_per_byte", "interval"):
        assert together[figure] == pytest.approx(alone[figure], rel=1e-5)


def test_texts_seen_in_training_or_pretraining_are_counted(
    world: World, warm: Path, here: Path
) -> None:
    trained = read_labelled_rows(world.train)[:3]
    seen = world.texts.read_text(encoding="utf-8").splitlines()
    held_back = read_labelled_rows(world.test)[:4]
    # One per cent of the pretraining text is held out, so all of it, not one line, is looked for.
    rows = trained + held_back + [("positive", text) for text in seen]
    write_labelled(here / "leaky.tsv", rows)
    shown = succeed(f"evaluate {warm} --test leaky.tsv").out
    warning = shown.splitlines()[0]  # beside the score, before anybody is pleased with it
    assert warning.startswith("warning: ")
    assert warning.endswith("so its scores are too good: see accuracy unseen")
    found = succeed(f"evaluate {warm} --test leaky.tsv --json").json
    assert 3 + 0.9 * len(seen) < found["seen_in_training"] <= 3 + len(seen)
    assert found["accuracy_unseen"] is not None


def test_every_evaluation_is_in_the_ledger(world: World, warm: Path) -> None:
    before = len(read(warm / "scores.json")["ledger"])
    succeed(f"evaluate {warm} --test {world.test}")
    succeed(f"evaluate {warm} --test {world.valid}")
    ledger = read(warm / "scores.json")["ledger"]
    assert len(ledger) == before + 2
    assert ledger[-1]["file"] == str(world.valid)
    assert len(ledger[-1]["sha256"]) == 64
    assert read(warm / "scores.json")["valid"]


@pytest.mark.parametrize("kind", ["base", "warm"])
def test_a_folder_is_not_evaluated(kind: str, here: Path, request: pytest.FixtureRequest) -> None:
    (here / "texts").mkdir()
    assert "--test texts is a folder" in refuse(
        f"evaluate {request.getfixturevalue(kind)} --test texts"
    )


def test_the_ledger_says_which_weights_were_scored(world: World, base: Path, here: Path) -> None:
    shutil.copytree(base, here / "run")
    for weights in ("run", "run/checkpoints/step-6"):
        succeed(f"evaluate {weights} --test {world.test} {MACHINE}")
    ledger = read(here / "run/scores.json")["ledger"]
    assert [entry["checkpoint"] for entry in ledger[-2:]] == ["best", "checkpoints/step-6"]


@pytest.mark.parametrize("kind", ["base", "warm"])
def test_no_figure_is_shown_twice(kind: str, world: World, request: pytest.FixtureRequest) -> None:
    shown = succeed(f"evaluate {request.getfixturevalue(kind)} --test {world.test}").out
    assert "num texts" not in shown
    assert ("interval of accuracy" if kind == "warm" else "interval of perplexity") in shown
