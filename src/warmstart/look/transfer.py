"""What replacing the head keeps, throws away and adds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from warmstart.errors import WarmstartError
from warmstart.formats import shorten
from warmstart.look.commands import LookTransferConfig
from warmstart.model import count
from warmstart.model.count import Layer
from warmstart.report.html import Drawn, Table
from warmstart.report.style import FAINT, INK, WIDTH, save_image, styled
from warmstart.runs.saved import find_model
from warmstart.settings.model import ModelConfig

KEPT, FROZEN, GONE, NEW = "#f5c9a8", "#cfdff0", "#ececec", "#2a9d8f"
BOX, GAP = 2.4, 1.4  # width of a box and space between the stacks, in units of the axes
GREY = "#c4c4c4"  # of what is thrown away, as a square
LINE = 0.24  # height of a line of text
SQUARE = 1.0  # side of the largest square of parameters
AREA_NOTE = "squares: their areas are the numbers of parameters, to scale"


@dataclass(frozen=True, kw_only=True)
class ModelPart:
    """One part of a model, as a box in a picture: its matrices, and how many parameters it has."""

    name: str
    shapes: tuple[str, ...]  # of its layers, as products of sizes
    count: int  # parameters of one of the equal parts
    times: int = 1  # equal parts on top of each other

    @property
    def total(self) -> int:
        """Return the parameters of all equal parts."""
        return self.count * self.times


@dataclass(frozen=True, kw_only=True)
class HeadSwap(Drawn):
    """A pretrained model and the classifier that starts from it."""

    name: str  # preset or run
    backbone: tuple[ModelPart, ...]  # from the tokens up
    old_head: ModelPart
    new_head: ModelPart
    is_frozen: bool  # only the new head is trained

    @property
    def kept(self) -> int:
        """Return the parameters that the classifier starts with."""
        return sum(part.total for part in self.backbone)

    @property
    def trainable(self) -> int:
        """Return the parameters that fine-tuning changes."""
        return self.new_head.total + (0 if self.is_frozen else self.kept)

    @property
    def sentence(self) -> str:
        """Return the three counts, without a full stop."""
        trained = "only the head is trained" if self.is_frozen else "all are trained"
        return (
            f"{self.kept:,} parameters are kept, {self.old_head.total:,} thrown away, "
            f"{self.new_head.total:,} added: {self.kept + self.new_head.total:,} in all, of which "
            f"{self.trainable:,} are trained ({trained})"
        )

    def table(self) -> Table:
        """Return headers, and a row for each part."""
        treatment = "copied, frozen" if self.is_frozen else "copied, then trained"
        treated = [(part, treatment) for part in self.backbone]
        treated += [(self.old_head, "thrown away"), (self.new_head, "new, random, trained")]
        rows = [(s.name, "; ".join(s.shapes), f"{s.total:,}", how) for s, how in treated]
        return ("part", "formula", "parameters", "in the classifier"), rows

    @styled
    def draw(self) -> Figure:
        """Draw both models side by side."""
        heights = [_height(part) for part in self.backbone]
        head = max(_height(self.old_head), _height(self.new_head))
        top = sum(heights) + head + 0.35 * (len(heights) + 1)
        side = SQUARE + 0.2
        inches = WIDTH / (2 * BOX + GAP + 2 * side)  # of a unit
        drawing = Figure(figsize=(WIDTH, inches * (top + 1) + 0.75), layout="constrained")
        axes = drawing.add_subplot()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(-side, 2 * BOX + GAP + side)
        axes.set_ylim(-0.5, top + 0.45)
        right, y = BOX + GAP, 0.0
        colour, treatment = (FROZEN, "frozen") if self.is_frozen else (KEPT, "then trained")
        for part, height in zip(self.backbone, heights, strict=True):
            _draw_box(axes, part, (0, y, height), KEPT)
            _draw_box(axes, part, (right, y, height), colour)
            if part.total:
                _draw_arrow(axes, y + height / 2, f"copied,\n{treatment}")
            self._draw_areas(axes, part, part, y + height / 2)
            y += height + 0.35
        _draw_box(axes, self.old_head, (0, y, head), GONE)
        _draw_box(axes, self.new_head, (right, y, head), NEW)
        self._draw_areas(axes, self.old_head, self.new_head, y + head / 2)
        axes.text(BOX + GAP / 2, y + head / 2, "replaced", ha="center", va="center", color=FAINT)
        for x, text in ((0, shorten(f"{self.name}: pretrained", 34)), (right, "classifier")):
            axes.text(x + BOX / 2, top + 0.2, text, ha="center", weight="bold")
            axes.text(x + BOX / 2, -0.35, "tokens", ha="center", color=FAINT)
        caption = self.sentence.replace(": ", ":\n", 1)
        drawing.supxlabel(f"{caption}\n{AREA_NOTE}", fontsize=8)
        return drawing

    def _draw_areas(self, axes: Axes, old: ModelPart, new: ModelPart, y: float) -> None:
        """Draw the squares of a part of both models, beside their boxes."""
        largest = max(part.total for part in (*self.backbone, self.old_head, self.new_head))
        offset = 0.1 + SQUARE / 2
        kept = FROZEN if self.is_frozen else KEPT
        draw_area(axes, (-offset, y), old.total, largest, KEPT if old is new else GREY)
        colour = kept if old is new else NEW
        draw_area(axes, (2 * BOX + GAP + offset, y), new.total, largest, colour)


def look_transfer(config: LookTransferConfig) -> HeadSwap:
    """Show what changes when a pretrained model becomes a classifier."""
    shape, _ = find_model(config.model)
    if shape.decoder_depth:
        raise WarmstartError(f"{config.model} is a translator; name a model that reads one text")
    sizes = {**size_letters(shape), "C": config.labels}
    swap = HeadSwap(
        name=config.model,
        backbone=_backbone(shape, sizes),
        old_head=_part("language-model head", count.count_pretraining_heads(shape), sizes),
        new_head=_part(
            f"classifier, {config.labels} classes",
            count.count_classification_head(shape, config.labels),
            sizes,
        ),
        is_frozen=config.frozen,
    )
    save_image(swap.draw(), Path(config.out))
    return swap


def _backbone(shape: ModelConfig, sizes: dict[str, int]) -> tuple[ModelPart, ...]:
    """Return embeddings, blocks and what follows them; equal blocks are one part."""
    names = {"embed": "embedding", "norm_final": "final norm"}

    def part(layer: Layer) -> str:
        return ".".join(layer.name.split(".")[:2]) if "blocks." in layer.name else layer.name

    groups = groupby(count.count_backbone(shape), key=part)
    return merge_equal_blocks(
        [_part(names.get(name, name), list(layers), sizes) for name, layers in groups]
    )


def _part(name: str, layers: Sequence[Layer], sizes: dict[str, int]) -> ModelPart:
    shapes = tuple(
        f"{layer.name.split('.', 2)[-1] if 'blocks.' in layer.name else layer.name}: "
        f"{fill_in_sizes(layer.formula, sizes)}"
        for layer in layers
        if layer.count
    )
    return ModelPart(name=name, shapes=shapes, count=sum(layer.count for layer in layers))


def size_letters(shape: ModelConfig) -> dict[str, int]:
    """Return the sizes that formulas of parameters name by letters."""
    return {
        "V": shape.vocab_size,
        "D": shape.width,
        "F": shape.ffn_width,
        "L": shape.max_length,
    }


def fill_in_sizes(formula: str, sizes: dict[str, int]) -> str:
    """Return a formula with sizes in place of their letters: 3D becomes 600 for a D of 200."""

    def number(match: re.Match[str]) -> str:
        return f"{int(match[1] or 1) * sizes[match[2]]:,}"

    return re.sub(r"\b(\d*)([VDFCL])\b", number, formula)


def _height(part: ModelPart) -> float:
    return LINE * (2 + len(part.shapes)) + 0.12


def _draw_box(axes: Axes, part: ModelPart, corner: tuple[float, float, float], colour: str) -> None:
    x, y, height = corner
    style = "round,pad=0,rounding_size=0.06"
    ink = "white" if colour == NEW else INK
    edge = FAINT if colour == GONE else colour
    dashed = "--" if colour == GONE else "-"
    box = FancyBboxPatch(
        (x, y), BOX, height, boxstyle=style, facecolor=colour, edgecolor=edge, linestyle=dashed
    )
    axes.add_patch(box)
    count = f"{part.times} · {part.count:,}" if part.times > 1 else f"{part.count:,}"
    lines = [part.name, *part.shapes, count]
    for number, line in enumerate(lines):
        middle = y + height / 2 + LINE * ((len(lines) - 1) / 2 - number)
        weight = "bold" if number in (0, len(lines) - 1) else "normal"
        size = 8 if weight == "bold" else 6.5
        axes.text(
            x + BOX / 2, middle, line, ha="center", va="center", color=ink, weight=weight, size=size
        )


def draw_area(
    axes: Axes, centre: tuple[float, float], count: int, largest: int, colour: str
) -> None:
    """Draw a square whose area is a number of parameters, to the scale of the largest."""
    side = SQUARE * (count / largest) ** 0.5
    x, y = centre
    axes.add_patch(Rectangle((x - side / 2, y - side / 2), side, side, color=colour, linewidth=0))


def _draw_arrow(axes: Axes, y: float, text: str) -> None:
    arrow = {"arrowstyle": "->", "color": FAINT, "linewidth": 1.0}
    axes.annotate("", (BOX + GAP - 0.12, y), (BOX + 0.12, y), arrowprops=arrow)
    axes.text(BOX + GAP / 2, y + 0.08, text, ha="center", va="bottom", fontsize=7, color=FAINT)


def merge_equal_blocks(parts: list[ModelPart]) -> tuple[ModelPart, ...]:
    """Merge equal neighbouring parts into one part."""
    groups = (list(group) for _, group in groupby(parts, key=lambda s: (s.shapes, s.count)))
    return tuple(
        group[0]
        if len(group) == 1
        else ModelPart(
            name=f"{len(group)} blocks",
            shapes=group[0].shapes,
            count=group[0].count,
            times=len(group),
        )
        for group in groups
    )
