"""Several pretrained runs in one comparison: other objectives, shapes, tokenizers, checkpoints."""

import json
import shutil
from pathlib import Path

import pytest

from command_line import MACHINE, SHAPE, TINY, World, read, refuse, run, succeed
from warmstart.runs.saved import pretraining_cost, read_run

OPTIONS = f"--epochs 1 --trials 1 --seeds 0 {MACHINE}"


@pytest.fixture(scope="module")
def masked(world: World, base: Path) -> Path:
    folder = base.parent / "masked"
    words = TINY.replace("--width 16", "--width 24").replace("--vocab-size 300", "--vocab-size 280")
    words = words.replace("--objective causal", "--nsp --document line")
    succeed(f"pretrain {world.texts} -o {folder} {words}")
    return folder


@pytest.fixture(scope="module")
def saved(world: World, base: Path) -> Path:
    folder = base.parent / "saved"
    succeed(f"pretrain {world.texts} -o {folder} {TINY} --save-every 2 --keep 3")
    return folder


@pytest.fixture(scope="module")
def compared(world: World, base: Path, masked: Path, saved: Path) -> Path:
    folder = base.parent / "several"
    runs = f"--from {saved} --from {masked} --from {saved}/checkpoints/step-4"
    files = f"--train {world.train} --valid {world.valid} --test {world.test}"
    succeed(f"compare {runs} {files} {OPTIONS} --pooling cls -o {folder}")
    return folder


def test_every_run_has_its_arms_and_every_shape_one_cold_arm(compared: Path) -> None:
    result = read(compared / "results.json")
    colds = {arm["name"]: arm["cold"] for arm in result["arms"]}
    assert colds == {
        "warm: saved": "cold: saved",
        "warm: masked": "cold: masked",
        "warm: saved step-4": "cold: saved",
        "frozen: saved": "cold: saved",
        "frozen: masked": "cold: masked",
        "frozen: saved step-4": "cold: saved",
        "cold: saved": None,
        "cold: masked": None,
        "lsa": None,
        "tf-idf": None,
    }
    by_name = {arm["name"]: arm for arm in result["arms"]}
    assert by_name["cold: masked"]["parameters"] == by_name["warm: masked"]["parameters"]
    assert by_name["cold: saved"]["parameters"] < by_name["cold: masked"]["parameters"]
    assert any("one cold arm" in note for note in result["notes"])


def test_warm_arms_meet_each_other_and_their_own_cold_arm(compared: Path) -> None:
    summary = read(compared / "results.json")["summary"]
    pairs = {(found["first"], found["second"]) for found in summary["differences"]}
    warm = ("warm: saved", "warm: masked", "warm: saved step-4")
    assert {(warm[0], warm[1]), (warm[0], warm[2]), (warm[1], warm[2])} <= pairs
    own = {"saved": "cold: saved", "masked": "cold: masked", "saved step-4": "cold: saved"}
    assert {pair for pair in pairs if pair[1].startswith("cold")} == {
        (f"{kind}: {name}", cold) for kind in ("warm", "frozen") for name, cold in own.items()
    }
    races = {(race["warm"], race["cold"]) for race in summary["times_to_accuracy"]}
    assert races == {(f"warm: {name}", cold) for name, cold in own.items()}
    assert " is the best of 6 pretrained arms on validation: " in summary["findings"][0]
    page = (compared / "report.html").read_text(encoding="utf-8")
    assert "Which pretrained run to start from" in page


def test_a_checkpoint_counts_what_was_seen_up_to_it(compared: Path, saved: Path) -> None:
    whole, early = (
        pretraining_cost(read_run(path)) for path in (saved, saved / "checkpoints/step-4")
    )
    assert whole[0] == 6 * 64
    assert early[0] == 4 * 64
    assert 0 < early[1] < whole[1]
    arms = {arm["name"]: arm for arm in read(compared / "results.json")["arms"]}
    assert arms["warm: saved step-4"]["pretrain_tokens"] == 4 * 64
    scores = saved / "scores.json"
    kept = scores.read_bytes()
    scores.unlink()  # as in a run that was stopped
    try:
        assert pretraining_cost(read_run(saved / "checkpoints/step-4"))[0] == 4 * 64
    finally:
        scores.write_bytes(kept)


def test_runs_of_one_shape_share_the_cold_arm(
    world: World, base: Path, saved: Path, here: Path
) -> None:
    files = f"--train {world.train} --valid {world.valid}"
    ran = succeed(f"compare --from {saved} --from {base} {files} {OPTIONS} -o out")
    names = [arm["name"] for arm in read(here / "out/results.json")["arms"]]
    assert names == [
        "warm: saved",
        "warm: base",
        "frozen: saved",
        "frozen: base",
        "cold",
        "lsa",
        "tf-idf",
    ]
    assert "is the best of 4 pretrained arms on validation" in ran.out


def test_the_same_run_twice_and_runs_that_are_no_bases_are_refused(
    world: World, base: Path, here: Path
) -> None:
    files = f"--train {world.train} --valid {world.valid}"
    ran = run(f"compare --from {base} --from {base} {files} {OPTIONS} -o out")
    assert "the same run twice" in ran.said
    folder = here / "translator"
    folder.mkdir()
    for file in base.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    config = (folder / "config.json").read_text().replace('"task": "causal"', '"task": "translate"')
    (folder / "config.json").write_text(config)
    for command in ("compare", "finetune"):
        assert "is a translator; start from" in refuse(
            f"{command} --from {folder} {files} {MACHINE} -o out"
        )


def test_shorter_texts_than_the_learned_positions(world: World, here: Path) -> None:
    words = SHAPE.replace("--positions sinusoidal", "--positions learned")
    options = f"{words} --batch-tokens 64 --steps 2 {MACHINE}"
    succeed(f"pretrain {world.texts} -o base {options}")
    files = f"--train {world.train} --valid {world.valid}"
    succeed(f"finetune --from base {files} --max-length 8 --epochs 1 {MACHINE} -o run")
    assert read(here / "run/config.json")["model"]["max_length"] == 8
    assert len(succeed(f"predict run {world.test}").out.split()) == 24


def test_a_second_stage_costs_what_the_first_did_too(world: World, saved: Path, here: Path) -> None:
    succeed(
        f"pretrain {world.texts} --from {saved} -o second --steps 3 --batch-tokens 64 {MACHINE}"
    )
    first, both = (pretraining_cost(read_run(path)) for path in (saved, here / "second"))
    own = read(here / "second" / "scores.json")
    assert both == (first[0] + own["tokens_seen"], first[1] + own["elapsed_s"])


def test_texts_of_an_imported_model_are_called_unknown(
    world: World, base: Path, here: Path
) -> None:
    imported = here / "imported"
    shutil.copytree(base, imported)
    facts = read(imported / "data.json")
    (imported / "data.json").write_text(json.dumps({**facts, "unrecorded": True}))
    succeed(f"pretrain {world.texts} --from {imported} -o child --steps 2 {MACHINE}")
    assert read_run(here / "child").has_unrecorded_texts
    assert not read_run(base).has_unrecorded_texts
    ran = succeed(f"evaluate child --test {world.texts} {MACHINE}")
    assert "not recorded" in ran.err
    assert "not recorded" in succeed(f"data {world.train} --against imported").err
    files = f"--train {world.train} --valid {world.valid}"
    succeed(f"compare --from child {files} {OPTIONS} -o compared")
    notes = read(here / "compared" / "results.json")["notes"]
    assert any("not recorded" in note for note in notes)
