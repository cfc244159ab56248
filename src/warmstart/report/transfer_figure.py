"""What a head replacement replaces, as a picture: two stacks of boxes with shapes and counts."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from warmstart.formats import shorten
from warmstart.report.html import Section, figure, table
from warmstart.report.style import FAINT, INK, WIDTH, styled
from warmstart.results.training_views import HeadSwap, ModelPart

KEPT, FROZEN, GONE, NEW = "#f5c9a8", "#cfdff0", "#ececec", "#2a9d8f"
BOX, GAP = 2.4, 1.4  # width of a box and space between the stacks, in units of the axes
LINE = 0.24  # height of a line of text
HEADERS = ("part", "shapes", "parameters", "in the classifier")


def transfer_sections(swap: HeadSwap) -> list[Section]:
    """Return the section of a page about one replacement."""
    caption = (
        "Left: the pretrained model, tokens below, answers above. Right: the classifier that starts"
        " from it. Boxes of the same colour have the same weights at the start."
    )
    pieces = [f"{swap.sentence}.", figure(draw_transfer(swap), caption)]
    rows = table(HEADERS, transfer_rows(swap), left=[1, 3])
    return [Section(title="The swap", pieces=[*pieces, rows])]


def transfer_rows(swap: HeadSwap) -> list[tuple[str, str, str, str]]:
    """Return a row for each part under `HEADERS`."""
    treatment = "copied, frozen" if swap.is_frozen else "copied, then trained"
    treated = [(part, treatment) for part in swap.backbone]
    treated += [(swap.old_head, "thrown away"), (swap.new_head, "new, random, trained")]
    return [(s.name, "; ".join(s.shapes), f"{s.total:,}", how) for s, how in treated]


@styled
def draw_transfer(swap: HeadSwap) -> Figure:
    """Draw both models side by side."""
    heights = [_height(part) for part in swap.backbone]
    head = max(_height(swap.old_head), _height(swap.new_head))
    top = sum(heights) + head + 0.35 * (len(heights) + 1)
    drawing = Figure(figsize=(WIDTH, 0.95 * top + 0.9), layout="constrained")
    axes = drawing.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(-0.1, 2 * BOX + GAP + 0.1)
    axes.set_ylim(-0.5, top + 0.45)
    right, y = BOX + GAP, 0.0
    colour, treatment = (FROZEN, "frozen") if swap.is_frozen else (KEPT, "then trained")
    for part, height in zip(swap.backbone, heights, strict=True):
        _draw_box(axes, part, (0, y, height), KEPT)
        _draw_box(axes, part, (right, y, height), colour)
        if part.total:
            _draw_arrow(axes, y + height / 2, f"copied,\n{treatment}")
        y += height + 0.35
    _draw_box(axes, swap.old_head, (0, y, head), GONE)
    _draw_box(axes, swap.new_head, (right, y, head), NEW)
    axes.text(BOX + GAP / 2, y + head / 2, "replaced", ha="center", va="center", color=FAINT)
    for x, text in ((0, shorten(f"{swap.name}: pretrained", 34)), (right, "classifier")):
        axes.text(x + BOX / 2, top + 0.2, text, ha="center", weight="bold")
        axes.text(x + BOX / 2, -0.35, "tokens", ha="center", color=FAINT)
    drawing.supxlabel(swap.sentence.replace(": ", ":\n", 1), fontsize=8)
    return drawing


def _height(part: ModelPart) -> float:
    return LINE * (2 + len(part.shapes)) + 0.12


def _draw_box(axes: Axes, part: ModelPart, place: tuple[float, float, float], colour: str) -> None:
    x, y, height = place
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


def _draw_arrow(axes: Axes, y: float, text: str) -> None:
    arrow = {"arrowstyle": "->", "color": FAINT, "linewidth": 1.0}
    axes.annotate("", (BOX + GAP - 0.12, y), (BOX + 0.12, y), arrowprops=arrow)
    axes.text(BOX + GAP / 2, y + 0.08, text, ha="center", va="bottom", fontsize=7, color=FAINT)
