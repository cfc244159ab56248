"""A run folder stands alone, loads anywhere and holds no pickle."""

import json
import shutil
from pathlib import Path

import pytest

from command_line import World, read, run, succeed

FILES = "config.json model.safetensors tokenizer.json data.json metrics.jsonl scores.json README.md"


@pytest.fixture(params=["base", "warm"])
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def test_the_files_of_the_contract_are_there(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert set(FILES.split()) <= names
    assert {path.name for path in next(folder.glob("checkpoints/step-*")).iterdir()} == {
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    }


def test_nothing_else_is_left_behind(folder: Path) -> None:
    known = {*FILES.split(), "checkpoints"}
    known |= {"lsa.safetensors"} if read(folder / "config.json")["command"] == "pretrain" else set()
    assert {path.name for path in folder.iterdir()} == known
    endings = {path.suffix for path in folder.rglob("*") if path.is_file()}
    assert endings.isdisjoint({".pt", ".pth", ".bin", ".pkl", ".pickle", ".tmp", ".partial"})


def test_the_card_has_front_matter(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n")
    front = card.split("---\n")[1]
    assert "library_name: warmstart" in front
    assert "pipeline_tag: text-" in front
    assert f"# {folder.name}" in card
    assert "train_loss" not in card
    assert "elapsed_s" not in card


def test_the_data_is_known_by_checksum_rows_and_fingerprints(folder: Path, world: World) -> None:
    facts = read(folder / "data.json")
    assert facts["fingerprints"]
    for file in facts["files"]:
        assert len(file["sha256"]) == 64
        assert file["rows"] > 0
    text = (folder / "data.json").read_text(encoding="utf-8")
    for path in (world.texts, world.train):  # fingerprints, never the texts
        sentences = path.read_text(encoding="utf-8").split(".")
        assert not any(sentence in text for sentence in sentences if len(sentence) > 12)


def test_the_config_is_whole(folder: Path) -> None:
    config = read(folder / "config.json")
    assert config["command"] in ("pretrain", "finetune")
    assert config["model"]["width"] == 16
    assert "out" not in config["settings"]
    assert "resume" not in config["settings"]


def test_metrics_are_lines_of_numbers_by_step(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert any("valid_loss" in line for line in lines)
    assert any("train_loss" in line for line in lines)
    steps = [line["step"] for line in lines]
    assert steps == sorted(steps)


def test_a_run_works_where_it_is_moved_to(world: World, base: Path, warm: Path, here: Path) -> None:
    before = succeed(f"predict {warm} {world.test} --json").out
    shutil.copytree(warm, here / "first")
    shutil.copytree(base, here / "base")
    (here / "deep").mkdir()
    (here / "first").rename(here / "deep" / "second")
    assert succeed(f"predict deep/second {world.test} --json").out == before
    succeed(f"evaluate deep/second --test {world.test}")
    succeed("generate base")


def test_nothing_in_a_run_needs_the_run_it_came_from(world: World, base: Path, here: Path) -> None:
    shutil.copytree(base, here / "base")
    succeed(
        f"finetune --from base --train {world.train} --valid {world.valid} -o run "
        "--epochs 1 --threads 1 --precision fp32"
    )
    shutil.rmtree(here / "base")
    found = succeed(f"evaluate run --test {world.test} --json").json
    assert found["seen_in_training"] == 0
    against = succeed(f"data {world.texts} --against run --json").json["against"]
    assert against[0]["rows"] > 180


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [("task", None, "has no 'task'"), ("in_force", 3, "in_force=3 must be an object")],
)
def test_a_damaged_configuration_is_refused_when_resuming(
    entry: str, value: object, words: str, base: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "run"
    shutil.copytree(base, damaged)
    config = read(damaged / "config.json") | {entry: value}
    (damaged / "config.json").write_text(json.dumps(config))
    ran = run(f"pretrain --config {damaged}/config.json -o {damaged} --resume")
    assert ran.code == 2
    assert words in ran.said
