"""Figures -> PNG and SVG, the same bytes for the same figure.

Knows nothing about what a figure shows.
"""

import hashlib
import re
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from warmstart.files import write_whole

_DPI = 200
_SALT = "warmstart"  # matplotlib draws its SVG ids at random unless given one


def save_figure(figure: Figure, path_without_suffix: Path) -> list[Path]:
    """Write the figure as PNG and as SVG and return both paths."""
    stem = path_without_suffix.name
    png = _render(figure, "png", {"Software": None})
    svg = _render(figure, "svg", {"Date": None, "Creator": None})
    return [
        write_whole(path_without_suffix.with_name(f"{stem}.png"), png),
        write_whole(path_without_suffix.with_name(f"{stem}.svg"), svg),
    ]


def save_image(figure: Figure, path: Path) -> Path:
    """Write the figure in the format its name asks for, .png or .svg."""
    is_svg = path.suffix.lower() == ".svg"
    metadata = {"Date": None, "Creator": None} if is_svg else {"Software": None}
    return write_whole(path, _render(figure, "svg" if is_svg else "png", metadata))


def svg_text(figure: Figure) -> str:
    """Return the figure as an SVG element for HTML, its ids unlike any other figure's.

    Text stays text, so that a reader can select it and the page stays small.
    """
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        whole = _render(figure, "svg", {"Date": None, "Creator": None}).decode()
    element = re.sub(r"<metadata>.*?</metadata>", "", whole[whole.index("<svg") :], flags=re.DOTALL)
    prefix = "f" + hashlib.sha256(element.encode()).hexdigest()[:8]
    return _rename_ids(element, prefix).strip()


def _rename_ids(element: str, prefix: str) -> str:
    """Put a prefix before every id and every reference to one, inside tags only."""

    def rename(tag: re.Match[str]) -> str:
        named = re.sub(r'\bid="', f'id="{prefix}-', tag.group())
        return named.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")

    return re.sub(r"<[^>]+>", rename, element)


def _render(figure: Figure, kind: str, metadata: dict[str, Any]) -> bytes:
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": _SALT}), warnings.catch_warnings():
        # A letter that the font lacks becomes a box, which everybody can see.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=metadata, facecolor="white")
    return buffer.getvalue()
