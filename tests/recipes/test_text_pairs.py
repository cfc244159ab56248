"""Pairs of texts through every command that takes labelled ones."""

from pathlib import Path

import pytest

from command_line import MACHINE, QUICK, World, read, read_labelled_rows, refuse, run, succeed

FILES = "--train train.tsv --valid valid.tsv"


def _write_pairs(world: World, folder: Path) -> None:
    for name in ("train", "valid", "test"):
        rows = read_labelled_rows(getattr(world, name))
        pairs = zip(rows, [*rows[1:], rows[0]], strict=True)
        lines = [f"{a}\t{b}\t{'same' if k == m else 'other'}" for (k, a), (m, b) in pairs]
        (folder / f"{name}.tsv").write_text("\n".join(["text\ttext2\tlabel", *lines]) + "\n")


@pytest.fixture(scope="module")
def paired(world: World, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paired")
    _write_pairs(world, folder)
    files = f"--train {folder}/train.tsv --valid {folder}/valid.tsv"
    succeed(f"finetune --from {base} {files} -o {folder}/run {QUICK}")
    return folder


def test_a_classifier_of_pairs_is_trained_used_and_scored(paired: Path) -> None:
    assert read(paired / "run/config.json")["pairs"] is True
    labels = succeed(f"predict {paired}/run {paired}/test.tsv").out.split()
    assert len(labels) == 24
    assert set(labels) <= {"same", "other"}
    first = (paired / "test.tsv").read_text().splitlines()[1].rpartition("\t")[0]
    assert succeed(f"predict {paired}/run", first.encode()).out.split() == labels[:1]
    scores = succeed(f"evaluate {paired}/run --test {paired}/test.tsv --json").json
    assert scores["rows"] == 24
    assert scores["seen_in_training"] == 0
    again = succeed(f"evaluate {paired}/run --test {paired}/train.tsv --json").json
    assert again["seen_in_training"] == 48


def test_columns_name_pairs_without_a_header(paired: Path, here: Path) -> None:
    lines = (paired / "test.tsv").read_text().splitlines()[1:]
    swapped = ["\t".join(line.split("\t")[::-1]) for line in lines]
    (here / "bare.tsv").write_text("\n".join(swapped) + "\n")
    command = f"predict {paired}/run bare.tsv --columns _,text2,text"
    assert succeed(command).out == succeed(f"predict {paired}/run {paired}/test.tsv").out


def test_what_is_cut_is_said(paired: Path, base: Path, here: Path) -> None:
    files = f"--train {paired}/train.tsv --valid {paired}/valid.tsv"
    ran = succeed(f"finetune --from {base} {files} -o run --max-length 12 {QUICK} --epochs 1")
    assert "48 pairs to train on" in ran.err
    part = "their beginning and end, the longer text truncated first"
    assert f"12 tokens and keep only {part}" in ran.err


def test_pairs_and_single_texts_do_not_mix(
    paired: Path, world: World, base: Path, warm: Path, here: Path
) -> None:
    files = f"--train {paired}/train.tsv --valid {world.valid}"
    said = refuse(f"finetune --from {base} {files} -o run {QUICK}")
    assert "pairs" in said
    assert str(world.valid) in said
    ran = run(f"predict {warm} {paired}/test.tsv --columns text,text2,_")
    assert "was trained on single texts, not on pairs" in ran.said
    ran = run(f"predict {paired}/run", b"only one text\n")
    assert "line 1: 1 field, but 2 expected" in ran.said


def test_a_comparison_of_pairs_knows_leaked_pairs(paired: Path, base: Path, here: Path) -> None:
    lines = (paired / "train.tsv").read_text().splitlines()
    tests = (paired / "test.tsv").read_text().splitlines()[1:]
    turned = "\t".join([lines[4].split("\t")[k] for k in (1, 0, 2)])  # not the same pair
    (here / "test.tsv").write_text("\n".join([lines[0], *lines[1:4], turned, *tests[:8]]) + "\n")
    files = f"--train {paired}/train.tsv --valid {paired}/valid.tsv --test test.tsv"
    options = f"--epochs 1 --trials 1 --seeds 0 {MACHINE}"
    succeed(f"compare --from {base} {files} {options} -o out")
    result = read(here / "out/results.json")
    between = {(found["a"], found["b"]): found["rows"] for found in result["overlaps"]}
    assert between["train", "test"] == 3
    assert result["splits"][-1]["shared"][:3] == [0, 1, 2]
    assert [arm["name"] for arm in result["arms"]] == ["warm", "frozen", "cold", "lsa", "tf-idf"]


def test_the_data_report_counts_both_texts(paired: Path) -> None:
    report = succeed(f"data {paired}/train.tsv {paired}/train.tsv --json").json
    assert report["files"][0]["rows"] == 48
    assert report["files"][0]["repeats"] == 0
