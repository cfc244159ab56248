"""--resume and --config: continuing a run, and repeating one."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command_line import (
    MACHINE,
    QUICK,
    SHAPE,
    TINY,
    World,
    read,
    refuse,
    run,
    stop_at,
    succeed,
    weights_of,
)
from toy_pairs import EARLY, FILES, SHORT, Toy
from warmstart.data import shards
from warmstart.data.shards import LocalWorkers, Shard, ShardWriter
from warmstart.files import temporary_path
from warmstart.settings.model import PRESETS

FINE = f"finetune --train {{train}} --valid {{valid}} --from {{base}} -o run {QUICK}"
COMPARE = (
    "compare --train {train} --valid {valid} --from {base} -o run "
    f"--epochs 1 --seeds 0 --trials 1 {MACHINE}"
)

MASKED = TINY.replace("causal", "masked").replace("--max-length 16", "--max-length 24")
TRANSLATE = f"train-translator {FILES} {SHORT}"
RESUMED = {
    "causal": f"pretrain {{texts}} {TINY}",
    "masked": f"pretrain {{texts}} {MASKED} --nsp --mask-rate 0.15",
    "words": f"pretrain {{texts}} {MASKED} --no-nsp --whole-words --mask-rate 0.3",
    "second": f"pretrain {{texts}} --from {{base}} --steps 6 --batch-tokens 64 {MACHINE}",
    "classifier": f"{FINE.replace(' -o run', '')} --batch-size 8",
    "plain": f"{TRANSLATE} --average 1",
    "adamw": f"{TRANSLATE} --average 1 --optimizer adamw",
    "averaged": f"{TRANSLATE} --average 3",
    "separate": f"{TRANSLATE} --vocabulary separate",
    "loss": f"{TRANSLATE} --average 2 --select loss",
    "early": f"{TRANSLATE} {EARLY}",
}


def test_an_absent_folder_starts(world: World, base: Path, here: Path) -> None:
    succeed(f"pretrain {world.texts} -o run {TINY} --resume")
    assert weights_of(here / "run") == weights_of(base)


def test_an_empty_folder_starts(world: World, base: Path, here: Path) -> None:
    (here / "run").mkdir()
    succeed(f"pretrain {world.texts} -o run {TINY}")
    assert weights_of(here / "run") == weights_of(base)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for a run of each kind, trained when it is first needed."""
    return tmp_path_factory.mktemp("uninterrupted")


@pytest.mark.parametrize("step", [1, 5])
@pytest.mark.parametrize("kind", RESUMED)
def test_a_stopped_run_ends_as_an_uninterrupted_one(
    kind: str, step: int, world: World, toy: Toy, base: Path, uninterrupted: Path, here: Path
) -> None:
    command, whole = RESUMED[kind], uninterrupted / kind
    places = {**vars(world), **vars(toy), "base": base}
    if not whole.exists():
        succeed(f"{command} -o {whole}", **places)
    stop_at(step, f"{command} -o run", **places)
    ran = succeed(f"{command} -o run --resume", **places)
    assert f"continuing from step {step} of" in ran.err
    assert weights_of(here / "run") == weights_of(whole)
    ours, other = (read(path / "scores.json")["valid"] for path in (here / "run", whole))
    assert ours == other
    assert not {"cache", "shards", "snapshots"} & {path.name for path in Path("run").iterdir()}


def test_prepared_text_that_was_deleted_is_prepared_again(
    world: World, base: Path, here: Path
) -> None:
    command = f"pretrain {world.texts} -o run {TINY}"
    stop_at(3, command)
    shutil.rmtree(here / "run" / "cache")
    ran = succeed(f"{command} --resume")
    assert "continuing from step 3 of 6" in ran.err
    assert weights_of(here / "run") == weights_of(base)


def test_a_preparation_continues_after_the_last_finished_shard(
    world: World, base: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARS", 2_000)
    write, written = ShardWriter.write, list[str]()

    def recorded(writer: ShardWriter, shard: Shard, *given: Any) -> None:
        if len(written) == 2 and not (here / "run" / "stopped").exists():
            (here / "run" / "stopped").touch()
            signal.raise_signal(signal.SIGTERM)
        write(writer, shard, *given)
        written.append(writer.name_of(shard))

    monkeypatch.setattr(ShardWriter, "write", recorded)
    ran = run(f"pretrain {world.texts} -o run {TINY}")
    assert ran.code == 128 + signal.SIGTERM
    assert ran.said.startswith("warmstart: stopped; continue with: warmstart pretrain --config")
    succeed(f"pretrain {world.texts} -o run {TINY} --resume")
    assert len(written) == len(set(written)) > 4
    assert read(here / "run/data.json") == read(base / "data.json")
    assert weights_of(here / "run") == weights_of(base)
    assert not (here / "run/shards").exists()


def test_shards_outlive_a_lost_process(
    world: World, base: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARS", 2_000)
    write = LocalWorkers.write

    def lost(workers: LocalWorkers, shard: Shard, folder: Path) -> None:
        if shard.number == 3:
            os.kill(workers.pool.submit(os.getpid).result(), signal.SIGKILL)
        write(workers, shard, folder)

    monkeypatch.setattr(LocalWorkers, "write", lost)
    said = refuse(f"pretrain {world.texts} -o run {TINY} --threads 2")
    assert "a process that tokenized was lost" in said
    assert "The text tokenized so far is kept; continue with: warmstart pretrain" in said
    finished = {path.name for path in (here / "run/shards").glob("[0-9]*")}
    assert len(finished) >= 2
    succeed(f"pretrain {world.texts} -o run {TINY} --resume")
    assert read(here / "run/data.json") == read(base / "data.json")


def test_a_finished_run_says_so(world: World, base: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in base.rglob("*")}
    ran = succeed(f"pretrain {world.texts} -o {base} {TINY} --resume")
    assert "already finished" in ran.err
    assert {path: path.stat().st_mtime_ns for path in base.rglob("*")} == before


def test_a_finished_fine_tuning_says_so(world: World, base: Path, warm: Path, here: Path) -> None:
    shutil.copytree(warm, here / "run")
    ran = succeed(f"{FINE} --resume", **vars(world), base=base)
    assert "already finished" in ran.err


def test_a_finished_comparison_says_so(world: World, base: Path, here: Path) -> None:
    succeed(COMPARE, **vars(world), base=base)
    before = (here / "run/results.json").stat().st_mtime_ns
    ran = succeed(f"{COMPARE} --resume", **vars(world), base=base)
    assert "already finished" in ran.err
    assert (here / "run/results.json").stat().st_mtime_ns == before


@pytest.mark.parametrize("flag", ["--steps 7", "--seed 1", "--learning-rate 0.5", "--depth 2"])
def test_a_changed_setting_is_refused_by_name(
    flag: str, world: World, base: Path, here: Path
) -> None:
    said = refuse(f"pretrain {world.texts} -o {base} {TINY} --resume {flag}")
    assert flag.split()[0] in said
    assert flag.split()[1] in said


def test_what_does_not_change_the_result_may_change(world: World, base: Path) -> None:
    succeed(f"pretrain {world.texts} -o {base} {TINY} --resume --device cpu --save-every 3")


def test_another_kind_of_run_is_refused(world: World, warm: Path) -> None:
    assert "finetune" in refuse(f"pretrain {world.texts} -o {warm} {TINY} --resume")


def test_text_that_changed_is_refused(world: World, here: Path) -> None:
    shutil.copy(world.texts, here / "texts.txt")
    stop_at(2, f"pretrain texts.txt -o run {TINY}")
    (here / "texts.txt").write_text("another text\n" * 50)
    assert "texts.txt changed" in refuse(f"pretrain texts.txt -o run {TINY} --resume")


@pytest.mark.parametrize("name", ["train", "valid"])
def test_labelled_texts_that_changed_are_refused(
    name: str, world: World, base: Path, here: Path
) -> None:
    places = {**vars(world), "base": base, name: here / "own.tsv"}
    shutil.copy(getattr(world, name), here / "own.tsv")
    stop_at(2, FINE, **places)
    lines = (here / "own.tsv").read_text().splitlines()
    (here / "own.tsv").write_text("\n".join(lines[:-4]) + "\n")
    assert "own.tsv changed" in refuse(f"{FINE} --resume", **places)


@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_a_comparison_does_not_mix_old_and_new_texts(
    name: str, world: World, base: Path, here: Path
) -> None:
    places = {**vars(world), "base": base, name: here / "own.tsv"}
    shutil.copy(getattr(world, name), here / "own.tsv")
    succeed(f"{COMPARE} --test {{test}}", **places)
    (here / "run/results.json").unlink()
    lines = (here / "own.tsv").read_text().splitlines()
    (here / "own.tsv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    assert "own.tsv changed" in refuse(f"{COMPARE} --test {{test}} --resume", **places)


def test_evaluating_an_unfinished_run_does_not_finish_it(
    world: World, base: Path, here: Path
) -> None:
    command = f"pretrain {world.texts} -o run {TINY}"
    stop_at(3, command)
    succeed(f"evaluate run/checkpoints/step-3 --test {world.test} --columns _,text")
    assert "continuing from step 3" in succeed(f"{command} --resume").err
    assert weights_of(here / "run") == weights_of(base)


def test_a_run_stopped_before_its_first_validation_says_how_to_use_it(
    world: World, here: Path
) -> None:
    stop_at(2, f"pretrain {world.texts} -o run {TINY}")
    assert "continue it with --resume, or name one of its checkpoints" in refuse("generate run")


def test_a_run_killed_before_its_data_was_ready_can_be_started_again(
    world: World, base: Path, here: Path
) -> None:
    (here / "run").mkdir()
    shutil.copy(base / "config.json", here / "run")  # what a kill between two files leaves
    succeed(f"pretrain {world.texts} -o run {TINY} --resume")
    assert weights_of(here / "run") == weights_of(base)


def test_what_a_killed_process_left_half_written_is_removed(
    world: World, base: Path, here: Path
) -> None:
    command = f"pretrain {world.texts} -o run {TINY}"
    stop_at(2, command)
    for name in ("cache", "checkpoints/step-4"):
        temporary_path(here / "run" / name).mkdir()
    temporary_path(here / "run" / "model.safetensors").write_bytes(b"half")
    succeed(f"{command} --resume")
    assert weights_of(here / "run") == weights_of(base)
    assert not list((here / "run").rglob(".*"))


def test_a_resumed_run_keeps_the_shape_it_was_begun_with(
    world: World, base: Path, here: Path
) -> None:
    """A preset may be another shape in a later version; the run's own config says which it has."""
    command = f"pretrain {world.texts} -o run {TINY}"
    stop_at(2, command)
    with pytest.MonkeyPatch.context() as later:
        changed = replace(PRESETS["tiny"], activation="gelu", biases=True)
        later.setitem(PRESETS, "tiny", changed)
        succeed(f"{command} --resume")
    assert weights_of(here / "run") == weights_of(base)


def test_a_settings_file_gives_settings_and_flags_override(
    world: World, base: Path, here: Path
) -> None:
    (here / "job.toml").write_text(
        'objective = "causal"\npreset = "tiny"\n'
        "width = 16\nheads = 2\ndepth = 1\nffn-width = 32\nvocab-size = 300\n"
        'max_length = 16\npositions = "sinusoidal"\nbatch_tokens = 64\nsteps = 99\n'
        f'files = ["{world.texts}"]\n'
        'precision = "fp32"\nthreads = 1\n'
    )
    succeed("pretrain --config job.toml --steps 6 -o run")
    assert weights_of(here / "run") == weights_of(base)


def test_a_flag_wins_over_its_rival_in_a_settings_file(base: Path, here: Path) -> None:
    succeed(f"pretrain --config {base}/config.json --tokens 100 -o run")
    settings = read(here / "run/config.json")["settings"]
    assert (settings["steps"], settings["tokens"]) == (None, 100)


def test_a_run_is_repeated_by_its_config(world: World, base: Path, warm: Path, here: Path) -> None:
    succeed(f"pretrain --config {base}/config.json -o base")
    succeed(f"finetune --config {warm}/config.json -o warm")
    assert weights_of(here / "base") == weights_of(base)
    assert weights_of(here / "warm") == weights_of(warm)
    both = [read(folder / "config.json") for folder in (here / "base", base)]
    assert both[0] == both[1]


def test_the_config_of_another_command_is_refused(base: Path, here: Path) -> None:
    said = refuse(f"finetune --config {base}/config.json -o run {SHAPE}")
    assert "config.json" in said
    assert "pretrain" in said


def test_a_finished_comparison_is_not_judged_by_other_labels(
    world: World, base: Path, here: Path
) -> None:
    valid = here / "valid.tsv"
    shutil.copy(world.valid, valid)
    command = COMPARE.format(train=world.train, valid=valid, base=base)
    succeed(command)
    before = (here / "run" / "results.json").read_bytes()
    assert "nothing to do" in succeed(f"{command} --resume").err
    valid.write_text(valid.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert "changed since the run started" in refuse(f"{command} --resume")
    assert (here / "run" / "results.json").read_bytes() == before
