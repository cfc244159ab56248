"""The parts of a block: all of them, in the model's own order, with its own counts."""

from pathlib import Path

import pytest
from matplotlib.patches import Rectangle

import warmstart
from command_line import refuse, succeed
from warmstart.look.block import ADD, BlockView, StackParts
from warmstart.look.transfer import HeadSwap
from warmstart.model import count
from warmstart.settings.model import PRESETS


def view_of(name: str, tmp_path: Path) -> BlockView:
    return warmstart.look_block(model=name, out=str(tmp_path / "block.svg"))


def num_parameters(stack: StackParts) -> int:
    """Count every part, those of the block once for each block."""
    return sum(part.count * (stack.depth if part in stack.block else 1) for part in stack.parts)


@pytest.mark.parametrize("name", PRESETS)
def test_parts_add_up_to_the_model(name: str, tmp_path: Path) -> None:
    shape = PRESETS[name]
    layers = (
        count.count_translator(shape)
        if shape.decoder_depth
        else [*count.count_backbone(shape), *count.count_language_head(shape)]
    )
    drawn = sum(num_parameters(stack) for stack in view_of(name, tmp_path).stacks)
    others = [layer for layer in layers if layer.name in ("norm_embed", "pooler")]
    assert drawn == sum(layer.count for layer in layers) - sum(layer.count for layer in others)


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("lab", ["attend", ADD, "norm", "ffn", ADD, "norm"]),
        ("tiny", ["norm", "attend", ADD, "norm", "ffn", ADD]),
    ],
)
def test_norms_are_where_the_model_has_them(name: str, order: list[str], tmp_path: Path) -> None:
    (stack,) = view_of(name, tmp_path).stacks
    assert [part.kind for part in stack.block] == order


def test_a_translator_has_two_stacks(tmp_path: Path) -> None:
    encoder, decoder = view_of("vaswani-base", tmp_path).stacks
    assert "cross" not in {part.kind for part in encoder.block}
    assert [part.name for part in decoder.block if part.kind in ("attend", "cross", "ffn")] == [
        "causal self-attention",
        "cross-attention",
        "feed-forward",
    ]


def test_areas_are_to_scale(tmp_path: Path) -> None:
    swap = warmstart.look_transfer(model="lab", out=str(tmp_path / "swap.svg"))
    assert isinstance(swap, HeadSwap)
    squares = [p for p in swap.draw().axes[0].patches if isinstance(p, Rectangle)]
    areas = sorted(square.get_width() * square.get_height() for square in squares)
    kept = [part.total for part in swap.backbone]
    expected = sorted([*kept, *kept, swap.old_head.total, swap.new_head.total])
    assert areas == pytest.approx([num / expected[-1] for num in expected])


def test_the_command_says_what_a_block_has(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "block.png"
    ran = succeed("look block lab -o {out}", out=out)
    assert "242,000 parameters: causal self-attention 66.4%, feed-forward 33.2%" in ran.out
    succeed("look block {base} -o {out}", base=base, out=out)
    assert "neither a preset nor a run" in refuse("look block no-such -o {out}", out=out)
