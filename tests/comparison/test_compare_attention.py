"""A comparison shows the warm and the cold model on one text, and where they disagree."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import MACHINE, TINY, World, read, read_labelled_rows, succeed
from warmstart.comparison.attention import MAX_SHOWN_TOKENS, choose_attention_row
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.compare import CompareResult, compare

FILES = "--train {train} --valid {valid} --test {test}"
OPTIONS = f"--labels 12,all --epochs 1 --trials 1 --seeds 1,0 {MACHINE}"
ATTENTION = "Attention on one text"


@pytest.fixture(scope="module")
def compared(world: World, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seen") / "out"
    succeed(f"compare --from {base} {FILES} {OPTIONS} -o {folder}", **vars(world))
    return folder


def again(folder: Path, world: World, base: Path) -> CompareResult:
    """Go on with a comparison in Python."""
    files = {name: str(getattr(world, name)) for name in ("train", "valid", "test")}
    return compare(
        CompareConfig(
            from_runs=(str(base),),
            **files,
            out=str(folder),
            resume=True,
            labels=("12", "all"),
            epochs=1,
            trials=1,
            seeds=(1, 0),
            threads=1,
            precision="fp32",
        )
    )


def unfinish(folder: Path, copy: Path) -> Path:
    """Copy a comparison as it was before its last files."""
    shutil.copytree(folder, copy)
    (copy / "results.json").unlink()
    (copy / "report.html").unlink()
    return copy


def page_of(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def test_the_report_shows_both(compared: Path, world: World, base: Path) -> None:
    page = page_of(compared)
    result = again(compared, world, base)
    found, example = result.contrast, result.attention
    assert example is not None
    disagree = f"Where {found.first} and {found.second} disagree"
    order = ["Verdict", "Paired differences", disagree, ATTENTION, "Tuning"]
    assert [page.index(f"<h2>{title}") for title in order] == sorted(
        page.index(f"<h2>{title}") for title in order
    )
    label, text = read_labelled_rows(world.test)[example.row]
    assert example.label == label
    for arm in ("warm", "cold"):
        words = example.maps[arm].by_word().keys.pieces
        assert (words[1], words[-2]) == (text.split()[0], text.split()[-1])  # the middle is cut
    assert page.count(f">{text.split()[0]}</span>") >= 2
    cells = {(cell["arm"], cell["labels"], cell["seed"]): cell for cell in _cells(compared)}
    for arm in ("warm", "cold"):
        weights = example.maps[arm].weights
        assert weights.shape[:2] == (1, 2)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        seed = read(compared / "models" / arm / "scores.json")["seed"]
        predicted = cells[arm, 48, seed]["predictions"]["test"][example.row]
        assert example.predictions[arm] == ("negative", "positive")[predicted]


def test_disagreements_are_those_of_the_best_two_arms(
    compared: Path, world: World, base: Path
) -> None:
    result = again(compared, world, base)
    best = result.summary.preferred(48)[:2]
    assert [result.contrast.first, result.contrast.second] == best
    cells = {(cell["arm"], cell["labels"], cell["seed"]): cell for cell in _cells(compared)}
    first, second = (cells[arm, 48, 1]["predictions"]["test"] for arm in best)
    rows = [text for (_, text), a, b in zip(_rows(world), first, second, strict=True) if a != b]
    assert [row.text for row in result.contrast.disagreements] == rows
    assert f"disagree on {len(rows)} of 24 texts" in page_of(compared)


def _rows(world: World) -> list[tuple[str, str]]:
    return read_labelled_rows(world.test)


def _cells(folder: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = read(folder / "results.json")["cells"]
    return cells


def test_a_resumed_comparison_shows_the_same_attention(
    compared: Path, world: World, base: Path, here: Path
) -> None:
    copy = unfinish(compared, here / "copy")
    (copy / "cells/2-cold-48-1.json").unlink()  # trained again, and the same
    first, second = (again(folder, world, base).attention for folder in (compared, copy))
    assert first is not None
    assert second is not None
    assert second.predictions == first.predictions
    for arm, attention in first.maps.items():
        np.testing.assert_array_equal(second.maps[arm].weights, attention.weights)
    assert page_of(copy)[page_of(copy).index(f"<h2>{ATTENTION}") :].count("<svg") == 1
    figures = [{**cell, "epochs": 0, "elapsed_s": 0} for cell in _cells(compared)]
    assert [{**cell, "epochs": 0, "elapsed_s": 0} for cell in _cells(copy)] == figures


def test_without_the_models_the_report_has_no_attention(
    compared: Path, world: World, base: Path, here: Path
) -> None:
    copy = unfinish(compared, here / "copy")
    shutil.rmtree(copy / "models/cold")
    assert again(copy, world, base).attention is None
    assert ATTENTION not in page_of(copy)
    assert "<h2>Where " in page_of(copy)


def test_pairs_are_shown_as_the_model_reads_them(world: World, here: Path) -> None:
    for name in ("train", "valid"):
        rows = read_labelled_rows(getattr(world, name))[:12]
        lines = [f"{text}\t{text[:9]}\t{label}" for label, text in rows]
        Path(f"{name}.tsv").write_text("\n".join(["text\ttext2\tlabel", *lines]) + "\n")
    words = TINY.replace("--max-length 16", "--max-length 40")
    succeed(f"pretrain {world.texts} -o bert {words} --objective masked --nsp --document line")
    files = "--train train.tsv --valid valid.tsv"
    options = f"--labels all --epochs 1 --trials 1 --seeds 0 {MACHINE}"
    succeed(f"compare --from bert {files} {options} -o out")
    page = page_of(here / "out")
    shown = page[page.index(f"<h2>{ATTENTION}") :]
    words = re.findall(r'class="token"[^>]*>([^<]*)<', shown[: shown.index("Entropy")])
    assert words.count(words[-1]) == 2  # each text has its end


def test_the_next_command_follows_the_advice(world: World, base: Path, here: Path) -> None:
    succeed(f"pretrain {world.texts} -o other {TINY} --clip 0.5 --seed 5")
    files = f"--train {world.train} --valid {world.valid}"
    options = f"--epochs 2 --trials 1 --seeds 0,1 --arms warm,frozen --save none {MACHINE}"
    ran = succeed(f"compare --from other --from {base} {files} {options} -o out")
    result = read(here / "out/results.json")
    scores = result["summary"]["scores"]
    best = max(scores, key=lambda score: score["choosing"]["accuracy"])["arm"]
    assert result["summary"]["advice"]["arm"] == best
    arm = next(arm for arm in result["arms"] if arm["name"] == best)
    frozen = " --frozen" if arm["kind"] == "frozen" else ""
    assert f"next: warmstart finetune --from {arm['source']}{frozen} --train" in ran.out
    assert (
        f"{best} is the best of 4 pretrained arms on validation" in result["summary"]["findings"][0]
    )


def test_an_arm_that_cannot_be_fine_tuned_has_no_next_command(
    world: World, base: Path, here: Path
) -> None:
    files = f"--train {world.train} --valid {world.valid}"
    options = f"--epochs 1 --trials 1 --seeds 0 --arms cold,tfidf --save none {MACHINE}"
    ran = succeed(f"compare --from {base} {files} {options} -o out")
    assert "no pretrained model was compared" in ran.out.splitlines()[0]
    assert "next:" not in ran.out


@pytest.mark.parametrize(
    ("sizes", "max_length", "row"),
    [
        ([3, 60, 10, 9], 64, 2),  # the first that fits
        ([16, 16, 15, 9], 16, 2),  # one that was surely not cut
        ([3, 5, 5], 64, 1),  # else the nearest
        ([90, 70, 99], 99, 1),
        ([4], 4, 0),
        ([MAX_SHOWN_TOKENS + 1, 500], 512, None),
    ],
)
def test_one_text_is_chosen_by_its_length(
    sizes: list[int], max_length: int, row: int | None
) -> None:
    assert choose_attention_row([[0] * size for size in sizes], max_length) == row
