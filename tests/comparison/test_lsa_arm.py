"""The arm that has seen the unlabelled text, of a run or without one."""

import shutil
from pathlib import Path

import pytest

from command_line import MACHINE, World, read, run, succeed
from warmstart.tasks.latent_semantics import SPACE_FILE

OPTIONS = f"--labels 12,all --seeds 0,1 --trials 1 {MACHINE}"
WITHOUT_RUN = f"compare --unlabelled {{texts}} --train {{train}} --test {{test}} {OPTIONS}"


def test_text_alone_is_enough_for_a_comparison(world: World, here: Path) -> None:
    ran = succeed(f"{WITHOUT_RUN} -o out", **vars(world))
    result = read(here / "out/results.json")
    assert [arm["name"] for arm in result["arms"]] == ["lsa", "tf-idf"]
    assert {arm["kind"] for arm in result["arms"]} == {"baseline"}
    assert "no pretrained model was compared" in ran.out
    assert "start from a public model, as with `warmstart import" in ran.out
    between = {(found["a"], found["b"]): found["rows"] for found in result["overlaps"]}
    assert between["unlabelled text", "test"] == 0
    settings = {cell["setting"] for cell in result["cells"] if cell["arm"] == "lsa"}
    assert all(setting.startswith("C ") for setting in settings)
    page = (here / "out/report.html").read_text(encoding="utf-8")
    assert "lsa: latent semantic analysis of the unlabelled text" in page
    assert "by epoch" not in page, "a regression has no epochs"
    assert {figure.name for figure in (here / "out").glob("*.png")} == {"labels.png"}
    lines = succeed(f"embed out/models/lsa --text good --normalize {MACHINE}").json
    assert sum(value**2 for value in lines["vector"]) == pytest.approx(1, abs=1e-4)


def test_an_arm_without_settings_to_try_is_scored_on_labels_set_aside(
    world: World, here: Path
) -> None:
    """Else the advice would be whichever arm was tuned, however bad."""
    succeed(f"{WITHOUT_RUN.replace('--trials 1', '--trials 2')} -o out", **vars(world))
    result = read(here / "out/results.json")
    tuned = {arm["arm"]: len(arm["trials"]) for arm in result["tuned"] if arm["labels"] == 12}
    assert tuned == {"lsa": 1, "tf-idf": 2}
    preferred = {s["arm"]: s["preference"] for s in result["summary"]["scores"] if s["labels"] > 12}
    assert result["summary"]["advice"]["arm"] == max(preferred, key=lambda arm: preferred[arm])


def test_a_resumed_comparison_reads_its_analysis(world: World, here: Path) -> None:
    succeed(f"{WITHOUT_RUN} -o out", **vars(world))
    before = read(here / "out/results.json")["cells"]
    for file in ("results.json", "cells/0-baseline-48-1.json"):
        (here / "out" / file).unlink()
    succeed(f"{WITHOUT_RUN} -o out --resume", **vars(world))
    after = read(here / "out/results.json")["cells"]
    assert [cell["predictions"] for cell in before] == [cell["predictions"] for cell in after]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("", "--from is missing: name a pretrained run, or give text with --unlabelled"),
        ("--unlabelled {texts} --arms cold,lsa", "--arms cold,lsa needs --from"),
        ("--unlabelled {here}/tiny.txt", "too little text for an analysis"),
        (
            "--from {here}/bare --arms lsa,tfidf",
            "give the text with --unlabelled, or leave lsa out",
        ),
    ],
)
def test_what_lsa_needs_is_said(
    options: str, complaint: str, world: World, base: Path, here: Path
) -> None:
    (here / "tiny.txt").write_text("one line\n")
    shutil.copytree(base, here / "bare")
    (here / "bare" / SPACE_FILE).unlink()
    ran = run(f"compare {options} --train {{train}} {OPTIONS} -o out", here=here, **vars(world))
    assert ran.code == 2
    assert complaint in ran.said


def test_by_default_it_is_left_out_where_a_run_has_no_analysis(
    world: World, base: Path, here: Path
) -> None:
    shutil.copytree(base, here / "bare")
    (here / "bare" / SPACE_FILE).unlink()
    files = f"--train {world.train} --valid {world.valid}"
    options = f"--epochs 1 --seeds 0 --trials 1 {MACHINE}"
    ran = succeed(f"compare --from bare {files} {options} -o out")
    assert "lsa is left out: no run keeps an analysis of its text" in ran.err
    result = read(here / "out/results.json")
    assert "lsa" not in {arm["name"] for arm in result["arms"]}


def test_a_kept_model_gives_way_to_one_with_more_labels(world: World, here: Path) -> None:
    files = f"--unlabelled {world.texts} --train {world.train} --valid {world.valid}"
    succeed(f"compare {files} --arms lsa,tfidf --labels 8,all --minutes 5 -o out {MACHINE}")
    labels = read(here / "out/models/lsa/scores.json")["labels"]
    assert labels == max(cell["labels"] for cell in read(here / "out/results.json")["cells"])
