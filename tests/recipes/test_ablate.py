"""`pretrain --ablate`: what is broken on purpose is marked wherever it appears."""

import json
from pathlib import Path

import pytest

import warmstart
from command_line import QUICK, TINY, World, read, refuse, succeed

MARK = "ABLATED: trained without the causal mask"


@pytest.fixture(scope="module")
def broken(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("broken") / "run"
    ran = succeed(f"pretrain {world.texts} -o {folder} {TINY} --ablate mask")
    assert MARK in ran.err
    return folder


def test_a_run_says_what_it_lacks(broken: Path, base: Path) -> None:
    assert read(broken / "config.json")["settings"]["ablate"] == "mask"
    assert read(broken / "config.json")["model"]["ablated"] == "mask"
    assert "ablated" not in read(base / "config.json")["model"]
    assert MARK in (broken / "README.md").read_text()
    assert MARK in warmstart.load(broken).description
    assert MARK in succeed(f"generate {broken} --max-tokens 2").err


def test_what_starts_from_it_says_so_too(world: World, broken: Path, here: Path) -> None:
    files = f"--train {world.train} --valid {world.valid}"
    succeed(f"finetune --from {broken} {files} -o warm {QUICK}")
    assert MARK in (here / "warm/README.md").read_text()
    succeed(
        f"compare --from {broken} {files} -o compared --arms warm,tfidf --seeds 0 --trials 1 "
        f"{QUICK}"
    )
    assert MARK in (here / "compared/report.html").read_text()
    for card in here.glob("compared/models/*/README.md"):
        assert (MARK in card.read_text()) == (card.parent.name != "tf-idf")
    succeed(f"pretrain {world.texts} --from {broken} -o second --steps 2 --batch-tokens 64")
    assert read(here / "second/config.json")["model"]["ablated"] == "mask"


REFUSED = {
    "export": ("export {broken} -o out", MARK),
    "serve": ("serve {broken}", MARK),
    "masked": ("pretrain {texts} -o out --objective masked --ablate mask", "--objective causal"),
    "second stage": ("pretrain {texts} --from {base} -o out --ablate norm", "--ablate norm"),
    "unknown part": ("pretrain {texts} -o out --ablate heart", "heart"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str, world: World, broken: Path, base: Path, here: Path) -> None:
    command, words = REFUSED[case]
    assert words in refuse(command, broken=broken, base=base, texts=world.texts)
    assert not (here / "out").exists()


def test_without_warmup_the_first_step_has_the_full_rate(world: World, here: Path) -> None:
    options = f"{TINY} --warmup 1 --log-every 1 --learning-rate 0.01"
    for part, share in (("nothing", 1 / 6), ("warmup", 1.0)):
        succeed(f"pretrain {world.texts} -o {part} {options} --ablate {part}")
        first = (here / part / "metrics.jsonl").read_text().splitlines()[0]
        assert json.loads(first)["learning_rate"] == pytest.approx(0.01 * share)
