"""Predictions before, during and after training; what replacing a head changes."""

from pathlib import Path

import pytest

import warmstart
from command_line import MACHINE, SHAPE, World, refuse, run, succeed
from warmstart.look.training import pick_evenly
from warmstart.settings.model import PRESETS


@pytest.fixture(scope="module")
def moving(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "moving"
    saving = "--batch-tokens 64 --steps 6 --save-every 2 --keep 9 --learning-rate 0.02"
    command = f"pretrain {{texts}} -o {{out}} --objective causal {SHAPE} {saving} {MACHINE}"
    succeed(command, texts=world.texts, out=folder)
    return folder


def test_every_moment_is_shown(moving: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.svg"
    ran = succeed("look training {run} --text 'The story' -o {out}", run=moving, out=out)
    for name in ("random weights", "step 2", "step 4", "trained"):
        assert name in ran.out
    assert "step 6" not in ran.out  # the trained weights themselves


def test_moments_are_those_of_the_checkpoints(moving: Path, tmp_path: Path) -> None:
    look = warmstart.look_training(
        run=str(moving), text="The", out=str(tmp_path / "t.png"), top_k=3, precision="fp32"
    )
    first, *middle, last = look.moments
    assert first.words != last.words
    for name, moment in (("checkpoints/step-4", middle[1]), ("", last)):
        model = warmstart.load(moving / name)
        assert moment.words == model.probable_words("The", 3)
        assert len(moment.words) == 3


def test_probable_words_of_a_masked_model(masked: Path, tmp_path: Path) -> None:
    model = warmstart.load(masked)
    (filled,) = model.fill_mask(["A [MASK] book."], 4)
    assert model.probable_words("A [MASK] book.", 4) == filled.masks[0]
    command = "look training {run} --text 'A fine book.' -o {out}"
    ran = run(command, run=masked, out=tmp_path / "t.png")
    assert (ran.code, "has no masked word" in ran.said) == (2, True)


def test_a_classifier_predicts_no_words(warm: Path, tmp_path: Path) -> None:
    assert "to predict words you need a language model" in refuse(
        "look training {run} --text A -o {out}", run=warm, out=tmp_path / "t.png"
    )


@pytest.mark.parametrize(
    ("values", "num", "expected"),
    [(range(3), 4, [0, 1, 2]), (range(8), 4, [1, 3, 5, 7]), (range(5), 1, [4]), ((), 4, [])],
)
def test_spaced(values: range, num: int, expected: list[int]) -> None:
    assert pick_evenly(values, num) == expected


@pytest.mark.parametrize(
    "preset", [name for name, shape in PRESETS.items() if not shape.decoder_depth]
)
@pytest.mark.parametrize("frozen", [True, False])
def test_a_new_head_changes_what_params_counts(preset: str, frozen: bool, tmp_path: Path) -> None:
    out = str(tmp_path / "t.svg")
    swap = warmstart.look_transfer(model=preset, labels=5, frozen=frozen, out=out)
    before = warmstart.count_parameters(model=preset)
    after = warmstart.count_parameters(model=preset, head="classifier", labels=5, frozen=frozen)
    assert swap.kept + swap.old_head.total == before.total
    assert swap.kept + swap.new_head.total == after.total
    assert swap.trainable == after.trainable
    assert swap.draw().axes


def test_shapes_are_numbers(tmp_path: Path) -> None:
    ran = succeed("look transfer lab --frozen -o {out}", out=tmp_path / "t.png")
    assert "402 are trained" in ran.out
    assert "200·600 + 600" in ran.out
    swap = warmstart.look_transfer(model="lab", out=str(tmp_path / "t.png"))
    drawn = [text.get_text() for text in swap.draw().axes[0].texts]
    assert "4 · 242,000" in drawn


def test_a_translator_has_no_head_to_replace(tmp_path: Path) -> None:
    ran = run("look transfer vaswani-base -o {out}", out=tmp_path / "t.png")
    assert (ran.code, "is a translator" in ran.said) == (2, True)
