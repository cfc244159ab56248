"""The parts of a block, and how blocks make an encoder, a decoder or a language model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from warmstart.formats import percent, shorten
from warmstart.look.commands import LookBlockConfig
from warmstart.look.transfer import AREA_NOTE, SQUARE, draw_area, fill_in_sizes, size_letters
from warmstart.model import count
from warmstart.model.count import Layer
from warmstart.report.html import Drawn, Table
from warmstart.report.style import FAINT, INK, save_image, styled
from warmstart.runs.saved import find_model
from warmstart.settings.model import ModelConfig, decoder_config, encoder_config

COLOURS = {
    "embed": "#f8dcc4",
    "attend": "#f5c9a8",
    "cross": "#e8a878",
    "ffn": "#cfdff0",
    "norm": "#e9e4d4",
    "head": "#c5e3df",
}
ADD = "add"  # the sum of a residual connection: a circle, not a box
BOX, GAP = 2.9, 0.2  # width of a box, and space between boxes, in units of the axes
COLUMN = BOX + 2.9  # from one stack to the next: squares, counts and the arrow to the decoder
HEIGHTS = {"norm": 0.36, ADD: 0.28}
TALL = 0.6  # height of the other boxes
INCHES = 0.74  # of a unit


@dataclass(frozen=True, kw_only=True)
class BlockPart:
    """One box of the picture, or the sum of a residual connection."""

    kind: str  # a key of COLOURS, or ADD
    name: str
    formula: str = ""
    count: int = 0

    @property
    def height(self) -> float:
        """Return the height of the box."""
        return HEIGHTS.get(self.kind, TALL)


@dataclass(frozen=True, kw_only=True)
class StackParts:
    """An encoder, a decoder or a language model, from the tokens up."""

    name: str
    below: tuple[BlockPart, ...]  # embeddings
    block: tuple[BlockPart, ...]
    depth: int  # equal blocks
    above: tuple[BlockPart, ...]  # final norm, head

    @property
    def parts(self) -> tuple[BlockPart, ...]:
        """Return every part once, from the tokens up."""
        return (*self.below, *self.block, *self.above)


@dataclass(frozen=True, kw_only=True)
class BlockView(Drawn):
    """The stacks of a model, drawn part by part."""

    name: str  # preset or run
    stacks: tuple[StackParts, ...]

    @property
    def sentence(self) -> str:
        """Return what the last stack's block is made of, without a full stop."""
        stack = self.stacks[-1]
        total = sum(part.count for part in stack.block)
        shares = ", ".join(
            f"{part.name} {percent(part.count / total)}"
            for part in stack.block
            if part.kind not in (ADD, "norm")
        )
        return f"one block of the {stack.name} has {total:,} parameters: {shares}, the rest norms"

    def table(self) -> Table:
        """Return headers, and a row for each part with parameters."""
        rows = [
            (stack.name, part.name, part.formula, f"{part.count:,}")
            for stack in self.stacks
            for part in stack.parts
            if part.kind != ADD
        ]
        return ("stack", "part", "formula", "parameters"), rows

    @styled
    def draw(self) -> Figure:
        """Draw the stacks side by side, with squares whose areas are the parameters."""
        top = max(sum(part.height + GAP for part in stack.parts) for stack in self.stacks) + 0.25
        right = COLUMN * (len(self.stacks) - 1) + BOX + 2.1
        size = (INCHES * (right + 0.6), INCHES * (top + 0.6) + 0.6)
        drawing = Figure(figsize=size, layout="constrained")
        axes = drawing.add_subplot()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(-0.6, right)
        axes.set_ylim(-0.55, top + 0.05)
        largest = max(part.count for stack in self.stacks for part in stack.parts)
        ends = [
            _draw_stack(axes, stack, COLUMN * number, largest)
            for number, stack in enumerate(self.stacks)
        ]
        if len(ends) > 1:
            _draw_cross(axes, ends[0][-1], ends[1][self.stacks[1].parts.index(_cross(self))])
        drawing.suptitle(f"{shorten(self.name, 40)}: {' and '.join(s.name for s in self.stacks)}")
        drawing.supxlabel(AREA_NOTE, fontsize=7.5, color=FAINT)
        return drawing


def look_block(config: LookBlockConfig) -> BlockView:
    """Show what a block is made of, and what stands below and above the blocks."""
    shape, _ = find_model(config.model)
    view = BlockView(name=config.model, stacks=tuple(_stacks(shape)))
    save_image(view.draw(), Path(config.out))
    return view


def _stacks(shape: ModelConfig) -> list[StackParts]:
    if not shape.decoder_depth:
        layers = [*count.count_backbone(shape), *count.count_language_head(shape)]
        name = "decoder-only model" if shape.is_causal else "encoder-only model"
        return [_stack(name, shape, layers)]
    layers = count.count_translator(shape)

    def part(name: str) -> list[Layer]:
        prefix = f"{name}."
        return [
            replace(layer, name=layer.name.removeprefix(prefix))
            for layer in layers
            if layer.name.startswith(prefix)
        ]

    head = [layer for layer in layers if layer.name.startswith("head.")]
    target = decoder_config(shape)
    decoder = part("decoder")
    if shape.shared:
        decoder.insert(0, Layer("embed", "0 (the encoder's)", 0))
    return [
        _stack("encoder", encoder_config(shape), part("encoder")),
        _stack("decoder", target, [*decoder, *head]),
    ]


def _stack(name: str, shape: ModelConfig, layers: Sequence[Layer]) -> StackParts:
    sizes = size_letters(shape)

    def box(kind: str, title: str, *prefixes: str) -> BlockPart:
        chosen = [layer for layer in layers if layer.name.startswith(prefixes)]
        formula = " + ".join(
            fill_in_sizes(layer.formula, sizes) for layer in chosen if layer.formula
        )
        return BlockPart(
            kind=kind, name=title, formula=formula, count=sum(layer.count for layer in chosen)
        )

    attention = "causal self-attention" if shape.is_causal else "self-attention"
    sublayers = [("attend", attention), ("cross", "cross-attention"), ("ffn", "feed-forward")]
    block: list[BlockPart] = []
    last = f"blocks.{shape.depth - 1}"  # the first may lack a norm
    for kind, title in sublayers:
        sublayer = box(kind, title, f"{last}.{kind}.")
        if not sublayer.count:
            continue
        norm = box("norm", "norm", f"{last}.norm_{kind}")
        add = BlockPart(kind=ADD, name="+")
        block += [norm, sublayer, add] if shape.norm_position == "pre" else [sublayer, add, norm]
    encoding = shape.position_encoding or "no"
    positions = "rotary" if encoding == "rope" else encoding
    above = [box("norm", "final norm", "norm_final")] if shape.norm_position == "pre" else []
    if any(layer.name.startswith("head.") for layer in layers):
        above.append(box("head", "linear, softmax", "head."))
    return StackParts(
        name=name,
        below=(box("embed", f"embedding, {positions} positions", "embed"),),
        block=tuple(block),
        depth=shape.depth,
        above=tuple(above),
    )


def _cross(view: BlockView) -> BlockPart:
    return next(part for part in view.stacks[1].parts if part.kind == "cross")


def _draw_stack(
    axes: Axes, stack: StackParts, left: float, largest: int
) -> list[tuple[float, float]]:
    """Draw one stack; return the left edge and the middle of every part."""
    y, places = 0.0, []
    middle = left + BOX / 2
    axes.text(middle, -0.38, "tokens", ha="center", va="center", color=FAINT, size=7.5)
    for part in stack.parts:
        axes.annotate("", (middle, y), (middle, y - GAP), arrowprops=_arrow(INK, 0.8))
        _draw_part(axes, part, (left, y), largest)
        places.append((left, y + part.height / 2))
        y += part.height + GAP
    axes.annotate("", (middle, y), (middle, y - GAP), arrowprops=_arrow(INK, 0.8))
    has_head = any(part.kind == "head" for part in stack.above)
    top = "probabilities of tokens" if has_head else "encoder output"
    axes.text(middle, y + 0.14, top, ha="center", va="center", color=FAINT, size=7.5)
    _draw_frame(axes, stack, left, places)
    _draw_residuals(axes, stack, places)
    return [*places, (middle, y + 0.3)]


def _draw_part(axes: Axes, part: BlockPart, corner: tuple[float, float], largest: int) -> None:
    (x, y), height = corner, part.height
    if part.kind == ADD:
        centre = (x + BOX / 2, y + height / 2)
        axes.add_patch(Circle(centre, height / 2, facecolor="white", edgecolor=INK, linewidth=0.9))
        axes.text(*centre, "+", ha="center", va="center_baseline", size=9)
        return
    style = "round,pad=0,rounding_size=0.06"
    colour = COLOURS[part.kind]
    axes.add_patch(
        FancyBboxPatch((x, y), BOX, height, boxstyle=style, facecolor=colour, edgecolor=colour)
    )
    has_formula = height >= TALL and part.count > 0
    name_y = y + height * (0.68 if has_formula else 0.5)
    axes.text(x + BOX / 2, name_y, part.name, ha="center", va="center", weight="bold", size=7.5)
    if has_formula:
        size = 5.5 if len(part.formula) < 44 else 4.8
        axes.text(x + BOX / 2, y + 0.28 * height, part.formula, ha="center", va="center", size=size)
    at = x + BOX + 0.24 + SQUARE / 2
    draw_area(axes, (at, y + height / 2), part.count, largest, colour)
    shown = "shared" if "(" in part.formula else f"{part.count:,}"
    axes.text(at + SQUARE / 2 + 0.06, y + height / 2, shown, va="center", color=FAINT, size=6.5)


def _draw_frame(
    axes: Axes, stack: StackParts, left: float, places: Sequence[tuple[float, float]]
) -> None:
    """Draw a frame around the block that is repeated, and how often."""
    first = len(stack.below)
    last = first + len(stack.block) - 1
    low = places[first][1] - stack.parts[first].height / 2 - 0.14
    high = places[last][1] + stack.parts[last].height / 2 + 0.1
    style = "round,pad=0,rounding_size=0.12"
    frame = FancyBboxPatch((left - 0.42, low), BOX + 0.54, high - low, boxstyle=style)
    frame.set(facecolor="none", edgecolor=FAINT, linestyle="--", linewidth=0.8)
    axes.add_patch(frame)
    axes.text(left - 0.04, high + 0.05, f"{stack.depth} ×", ha="right", va="bottom", size=9)


def _draw_residuals(axes: Axes, stack: StackParts, places: Sequence[tuple[float, float]]) -> None:
    """Draw the lines around each sublayer, and the norm before it, to its sum."""
    steps = 2 if stack.block[0].kind == "norm" else 1
    for number, part in enumerate(stack.parts):
        if part.kind == ADD:
            left, height = places[number]
            first = number - steps
            start = places[first][1] - stack.parts[first].height / 2 - 0.55 * GAP
            x, middle = left - 0.2, left + BOX / 2
            axes.plot([middle, x, x], [start, start, height], color=INK, linewidth=0.8)
            axes.annotate(
                "", (middle - part.height / 2, height), (x, height), arrowprops=_arrow(INK, 0.8)
            )


def _arrow(colour: str, width: float) -> dict[str, Any]:
    """Return the look of an arrow that touches both of its ends."""
    return {
        "arrowstyle": "-|>",
        "color": colour,
        "linewidth": width,
        "mutation_scale": 6 + 2 * width,
        "shrinkA": 0,
        "shrinkB": 0,
    }


def _draw_cross(axes: Axes, top: tuple[float, float], cross: tuple[float, float]) -> None:
    """Draw what the decoder reads of the encoder: keys and values."""
    (x, y), (left, height) = top, cross
    bend = left - 0.66
    colour = COLOURS["cross"]
    axes.plot([x, x, bend, bend], [y, y + 0.16, y + 0.16, height], color=colour, linewidth=1.6)
    axes.annotate("", (left, height), (bend, height), arrowprops=_arrow(colour, 1.6))
    axes.text(
        (x + bend) / 2, y + 0.3, "keys, values", ha="center", va="center", color=colour, size=7
    )
