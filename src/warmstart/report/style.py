"""What all figures share: colours, thin axes, labels at line ends, and how images are written."""

import hashlib
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warmstart.files import write_whole

INK = "#333333"  # INK, FAINT and FONT are in figures.mplstyle too
FAINT = "#8a8a8a"
WIDTH, HEIGHT = 6.6, 3.7  # inches
FONT = 8.5  # points
DPI = 200
SALT = "warmstart"  # without one, matplotlib makes random SVG ids

# Hues that colour-blind readers can tell apart; arms of one kind are shades of one hue.
SHADES: dict[str, tuple[str, ...]] = {
    "warm": ("#d5521c", "#efa02b", "#8f2416", "#f08a6c", "#b8860b", "#5e1f3a"),
    "frozen": ("#2a9d8f", "#5fc2ae", "#146056", "#8fbf4d", "#4f8f3a", "#86aaa4"),
    "cold": ("#2166ac", "#74a9d8", "#123a66", "#9a8fd0"),
    "baseline": ("#757575", "#a6a6a6", "#4a4a4a", "#a89f8c"),
    "self": ("#7b4ea3", "#b58fd0", "#4f2d70"),
}
_SETTINGS = Path(__file__).parent / "templates" / "figures.mplstyle"

# decorates a function that draws
styled = matplotlib.rc_context(
    matplotlib.rc_params_from_file(_SETTINGS, use_default_template=False)
)


@dataclass(frozen=True, kw_only=True)
class EndLabel:
    """A name at the right edge of the axes, linked to the end of its line."""

    text: str
    colour: str
    x: float  # end of the named line, in data units
    y: float


def new_axes(height: float = HEIGHT) -> tuple[Figure, Axes]:
    """Return a new figure with one pair of axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def spread_out(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move values at least `gap` apart within the limits, with the least squared change.

    When there is no room for all, the gap shrinks.
    """
    order = sorted(range(len(values)), key=lambda index: values[index])
    gap = min(gap, (high - low) / max(len(values) - 1, 1))
    slack = [values[index] - rank * gap for rank, index in enumerate(order)]
    ceiling = high - (len(values) - 1) * gap
    moved = [0.0] * len(values)
    for rank, index in enumerate(order):
        moved[index] = min(max(_monotone(slack, rank), low), ceiling) + rank * gap
    return moved


def _monotone(values: Sequence[float], rank: int) -> float:
    """Return one value of the rising sequence nearest to `values` in squares (min-max formula)."""

    def lowest_mean(start: int) -> float:
        ends = range(rank + 1, len(values) + 1)
        return min(sum(values[start:end]) / (end - start) for end in ends)

    return max(lowest_mean(start) for start in range(rank + 1))


def write_end_labels(axes: Axes, labels: Sequence[EndLabel], share: float = 1.0) -> None:
    """Name lines at the right edge, moved apart where they would overlap.

    `share` is the share of the figure's height that these axes take.
    """
    height = axes.figure.bbox.height / axes.figure.dpi  # inches, of which axes take about 0.78
    line = 1.35 * FONT / (72 * 0.78 * height * share)
    axes.autoscale_view()  # else limits that follow the data are those of empty axes
    starts = [axes.transLimits.transform(axes.transScale.transform((e.x, e.y))) for e in labels]
    heights = [float(start[1].clip(0, 1)) for start in starts]
    ends = spread_out(heights, line, 0, 1)
    for label, (x, _), y, end in zip(labels, starts, heights, ends, strict=True):
        axes.plot(
            [x, 1.012, 1.03],
            [y, end if x > 0.995 else y, end],
            transform=axes.transAxes,
            color=label.colour,
            linewidth=0.6,
            alpha=0.6,
            clip_on=False,
            scalex=False,
            scaley=False,
        )
        axes.text(1.037, end, label.text, color=label.colour, va="center", transform=axes.transAxes)


def save_figure(figure: Figure, path_without_suffix: Path) -> list[Path]:
    """Write the figure as PNG and as SVG and return both paths."""
    stem = path_without_suffix.name
    return [
        save_image(figure, path_without_suffix.with_name(f"{stem}{suffix}"))
        for suffix in (".png", ".svg")
    ]


def save_image(figure: Figure, path: Path) -> Path:
    """Write the figure in the format of the file's name, .png or .svg."""
    return write_whole(path, image_bytes(figure, path.suffix.lower()))


def svg_text(figure: Figure) -> str:
    """Return the figure as an SVG element for HTML, with ids that no other figure has.

    Text stays text, so that a reader can select it and the page stays small.
    """
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        whole = image_bytes(figure, ".svg").decode()
    element = re.sub(r"<metadata>.*?</metadata>", "", whole[whole.index("<svg") :], flags=re.DOTALL)
    prefix = "f" + hashlib.sha256(element.encode()).hexdigest()[:8]
    return _rename_ids(element, prefix).strip()


def _rename_ids(element: str, prefix: str) -> str:
    """Add a prefix to every id and every reference to one, inside tags only."""

    def rename(tag: re.Match[str]) -> str:
        named = re.sub(r'\bid="', f'id="{prefix}-', tag.group())
        return named.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")

    return re.sub(r"<[^>]+>", rename, element)


def image_bytes(figure: Figure, suffix: str) -> bytes:
    """Return the figure as a .png or .svg file, marked as ours and the same each time."""
    author = {".png": "Software", ".svg": "Creator"}[suffix]  # by which look recognises its figures
    metadata = {author: "warmstart"} | ({} if suffix == ".png" else {"Date": None})
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": SALT}), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box, so the warning adds nothing.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=suffix[1:], dpi=DPI, metadata=metadata, facecolor="white")
    return buffer.getvalue()
