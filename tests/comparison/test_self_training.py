"""The arm that labels unlabelled texts for itself."""

from pathlib import Path
from typing import Any

import pytest

from command_line import MACHINE, World, read, run, succeed
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import plan_experiment
from warmstart.comparison.self_training import SelfArm
from warmstart.data.copies import find_matches
from warmstart.data.fingerprints import fingerprints_of

FILES = "--train {train} --test {test} --unlabelled {texts}"
OPTIONS = (
    f"--labels 12 --seeds 0,1 --epochs 1 --trials 1 --arms warm,self --self-texts 24 {MACHINE}"
)


@pytest.fixture(scope="module")
def compared(world: World, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("self") / "out"
    succeed(f"compare --from {base} {FILES} {OPTIONS} -o {folder}", **vars(world))
    return folder


def answers(folder: Path, arm: str = "self") -> list[Any]:
    cells = read(folder / "results.json")["cells"]
    return [cell["predictions"] for cell in cells if cell["arm"] == arm]


def test_it_is_an_arm_like_every_other(compared: Path, world: World, here: Path) -> None:
    result = read(compared / "results.json")
    assert [arm["name"] for arm in result["arms"]] == ["warm", "self"]
    assert {cell["labels"] for cell in result["cells"]} == {12}
    assert result["arms"][1]["parameters"] == result["arms"][0]["parameters"]
    verdicts = {(v["first"], v["second"]) for v in result["summary"]["verdicts"]}
    assert ("self", "warm") in verdicts
    page = (compared / "report.html").read_text(encoding="utf-8")
    assert "those that it, further fine-tunings and LSA give to unlabelled texts" in page
    assert succeed(f"predict {compared}/models/self --text good {MACHINE}").out.strip()


def test_a_killed_comparison_ends_as_another_one_with_the_same_seeds(
    compared: Path, world: World, base: Path, here: Path
) -> None:
    command = f"compare --from {base} {FILES} {OPTIONS} -o out"
    succeed(f"{command} --processes 2", **vars(world))
    assert answers(here / "out") == answers(compared)
    for file in ("results.json", "cells/1-self-12-1.json"):
        (here / "out" / file).unlink()
    succeed(f"{command} --resume", **vars(world))
    assert answers(here / "out") == answers(compared)
    assert answers(here / "out", "warm") == answers(compared, "warm")


def test_no_labelled_text_is_among_those_it_labels(world: World, base: Path, here: Path) -> None:
    """Neither of the test and validation texts, nor of those that are trained on."""
    labelled = [file.read_text(encoding="utf-8") for file in (world.train, world.valid, world.test)]
    rows = [line.split("\t") for text in labelled for line in text.splitlines()[1:]]
    texts = [max(row, key=len) for row in rows]
    copies = [text.upper() for text in texts]  # near-copies, too
    unlabelled = world.texts.read_text(encoding="utf-8") + "\n".join(texts + copies) + "\n"
    (here / "mixed.txt").write_text(unlabelled, encoding="utf-8")
    files = {name: str(path) for name, path in vars(world).items() if name != "texts"}
    config = CompareConfig(
        from_runs=(str(base),),
        unlabelled=("mixed.txt",),
        train=(files["train"],),
        valid=files["valid"],
        test=files["test"],
        arms=("warm", "self"),
        threads=1,
        out="out",
        task="classify",
        truncate="middle",
    )
    (arm,) = (p.arm for p in plan_experiment(config).arms if isinstance(p.arm, SelfArm))
    assert len(arm.pool) >= 100
    assert not find_matches(fingerprints_of(arm.pool.texts), fingerprints_of(texts)).both.any()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--unlabelled {train} --arms warm,self", "0 unlabelled texts besides the labelled ones"),
        ("--unlabelled {texts} --pieces --arms warm,self", "not split into pieces"),
        ("--unlabelled {texts} --task regress --arms warm,self", "leave self out"),
    ],
)
def test_what_it_needs_is_said(
    options: str, complaint: str, world: World, base: Path, here: Path
) -> None:
    if "regress" in options:
        rows = [f"{number % 7}.5\tthe text number {number}" for number in range(60)]
        (here / "numbers.tsv").write_text("\n".join(["label\ttext", *rows]) + "\n")
    train = "numbers.tsv" if "regress" in options else "{train}"
    ran = run(
        f"compare --from {{base}} --train {train} {options} --trials 1 --seeds 0 -o out {MACHINE}",
        base=base,
        **vars(world),
    )
    assert ran.code == 2
    assert complaint in ran.said
