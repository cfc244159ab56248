from pathlib import Path

import pytest

from command_line import (
    QUICK,
    SHAPE,
    World,
    read,
    read_labelled_rows,
    refuse,
    run,
    succeed,
    weights_of,
)

FILES = "--train {train} --valid {valid}"


@pytest.mark.parametrize(
    ("start", "arm"),
    [("--from {base}", "warm"), ("--from {base} --frozen", "frozen"), (SHAPE, "cold")],
)
def test_the_three_starts(start: str, arm: str, world: World, base: Path, here: Path) -> None:
    ran = succeed(f"finetune {FILES} {start} -o run {QUICK}", **vars(world), base=base)
    config = read(here / "run/config.json")
    assert config["arm"] == arm
    assert config["classes"] == ["negative", "positive"]
    assert "validation accuracy" in ran.out
    assert "warmstart predict run" in ran.out
    assert "negative " in ran.err  # the balance of the training data


def test_a_frozen_base_stays_as_it_was(world: World, base: Path, here: Path) -> None:
    from safetensors.torch import load_file

    succeed(f"finetune {FILES} --from {base} --frozen -o run {QUICK}", **vars(world))
    before, after = load_file(base / "model.safetensors"), load_file(here / "run/model.safetensors")
    backbone = [name for name in after if name.startswith("backbone.")]
    assert backbone
    assert all(before[name].equal(after[name]) for name in backbone)


def test_a_checkpoint_is_a_place_to_start_from(world: World, base: Path, here: Path) -> None:
    for start, out in ((base, "a"), (base / "checkpoints/step-6", "b")):
        succeed(f"finetune {FILES} --from {start} -o {out} {QUICK}", **vars(world))
    assert weights_of(here / "a") == weights_of(here / "b")


def test_truncation_is_counted_and_said(world: World, base: Path, here: Path) -> None:
    ran = succeed(f"finetune {FILES} --from {base} -o run {QUICK}", **vars(world))
    assert "48 of 48 texts" in ran.err
    assert "16 tokens and keep only their beginning and end" in ran.err
    assert read(here / "run/config.json")["settings"]["truncate"] == "middle"  # for later versions
    ran = succeed(f"finetune {FILES} --from {base} -o long {QUICK} --max-length 999", **vars(world))
    assert f"all 48 texts in {world.train} fit into 999 tokens" in ran.err


def test_a_run_of_an_earlier_version_goes_on_with_its_truncation(
    world: World, base: Path, here: Path
) -> None:
    command = f"finetune {FILES} --from {base} -o run {QUICK}"
    succeed(f"{command} --truncate head", **vars(world))  # the default then
    weights = weights_of(here / "run")
    (here / "run/scores.json").unlink()
    succeed(f"{command} --resume", **vars(world))
    assert weights_of(here / "run") == weights
    ran = run(f"{command} --resume --truncate tail", **vars(world))
    assert ran.code == 2
    assert "--truncate was 'head', now 'tail'" in ran.err


def test_the_folder_to_write_is_not_suggested_to_start_from(world: World, here: Path) -> None:
    ran = run(f"finetune {FILES} --from best -o best2 {QUICK}", **vars(world))
    assert ran.code == 2
    assert "best does not exist: there is nothing like it" in ran.err
    assert not (here / "best2").exists()


def test_two_aligned_files_equal_one_table(
    world: World, base: Path, warm: Path, here: Path
) -> None:
    options = []
    for name in ("train", "valid"):
        rows = read_labelled_rows(getattr(world, name))
        (here / f"{name}.txt").write_text("".join(f"{text}\n" for _, text in rows))
        (here / f"{name}.labels").write_text("".join(f"{label}\n" for label, _ in rows))
        options.append(f"--{name} {name}.txt --{name}-labels {name}.labels")
    succeed(f"finetune {' '.join(options)} --from {base} -o run {QUICK}")
    assert weights_of(here / "run") == weights_of(warm)


def test_columns_in_file_order_need_no_header(
    world: World, base: Path, warm: Path, here: Path
) -> None:
    for name in ("train", "valid"):
        rows = read_labelled_rows(getattr(world, name))
        (here / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    files = "--train train.tsv --valid valid.tsv --columns label,text"
    succeed(f"finetune {files} --from {base} -o run {QUICK}")
    assert weights_of(here / "run") == weights_of(warm)


def test_texts_split_into_pieces_go_all_the_way(here: Path) -> None:
    """The lab's form: a vocabulary of pieces, texts of pieces, labels in files of their own."""
    (here / "vocabulary.txt").write_text("\n".join(["▁a", "▁good", "▁bad", "▁bo", "ok", "▁film"]))
    lines = ["▁a ▁good ▁bo ok", "▁a ▁bad ▁bo ok", "▁good ▁film", "▁bad ▁film"] * 5
    (here / "texts").write_text("".join(f"{line}\n" for line in lines))
    (here / "labels").write_text("1\n0\n" * 10)
    shape = SHAPE.replace("--vocab-size 300", "--tokenizer vocabulary.txt")
    succeed(
        f"finetune --train texts --train-labels labels --valid texts --valid-labels labels "
        f"--pieces -o run {shape} --epochs 30 --learning-rate 0.01 --threads 1 --precision fp32"
    )
    succeed("predict run texts --pieces -o found")
    assert (here / "found").read_text() == (here / "labels").read_text()
    found = succeed("evaluate run --test texts --test-labels labels --pieces --json").json
    assert found["accuracy"] == 1
    assert found["seen_in_training"] == len(lines)
    assert "--pieces" in refuse("predict run", "▁a ▁good".encode())


@pytest.mark.parametrize("flag", ["--vocab-size 999", "--depth 2", "--norm layer"])
def test_a_warm_start_ignores_no_flag_silently(
    flag: str, world: World, base: Path, here: Path
) -> None:
    assert flag.split()[0] in refuse(
        f"finetune {FILES} --from {base} -o run {QUICK} {flag}", **vars(world)
    )


def test_a_brought_tokenizer_and_a_vocabulary_size_exclude_each_other(
    world: World, base: Path, here: Path
) -> None:
    command = f"finetune {FILES} --preset tiny --tokenizer {base} --vocab-size 999 -o run {QUICK}"
    assert "--vocab-size" in refuse(command, **vars(world))
