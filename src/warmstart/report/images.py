"""Figures as PNG and SVG: the same bytes for the same figure."""

import hashlib
import re
import warnings
from io import BytesIO
from pathlib import Path
from typing import Literal

import matplotlib
from matplotlib.figure import Figure

from warmstart.files import write_whole

_DPI = 200
_SALT = "warmstart"  # without one, matplotlib makes random SVG ids


def save_figure(figure: Figure, path_without_suffix: Path) -> list[Path]:
    """Write the figure as PNG and as SVG and return both paths."""
    stem = path_without_suffix.name
    return [
        save_image(figure, path_without_suffix.with_name(f"{stem}{suffix}"))
        for suffix in (".png", ".svg")
    ]


def save_image(figure: Figure, path: Path) -> Path:
    """Write the figure in the format of the file's name, .png or .svg."""
    return write_whole(path, _render(figure, "svg" if path.suffix.lower() == ".svg" else "png"))


def svg_text(figure: Figure) -> str:
    """Return the figure as an SVG element for HTML, with ids that no other figure has.

    Text stays text, so that a reader can select it and the page stays small.
    """
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        whole = _render(figure, "svg").decode()
    element = re.sub(r"<metadata>.*?</metadata>", "", whole[whole.index("<svg") :], flags=re.DOTALL)
    prefix = "f" + hashlib.sha256(element.encode()).hexdigest()[:8]
    return _rename_ids(element, prefix).strip()


def _rename_ids(element: str, prefix: str) -> str:
    """Add a prefix to every id and every reference to one, inside tags only."""

    def rename(tag: re.Match[str]) -> str:
        named = re.sub(r'\bid="', f'id="{prefix}-', tag.group())
        return named.replace('href="#', f'href="#{prefix}-').replace("url(#", f"url(#{prefix}-")

    return re.sub(r"<[^>]+>", rename, element)


def _render(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    author = {"png": "Software", "svg": "Creator"}[kind]  # by which look recognises its figures
    metadata = {author: "warmstart"} | ({} if kind == "png" else {"Date": None})
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": _SALT}), warnings.catch_warnings():
        # A character that the font lacks is drawn as a box, so the warning adds nothing.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format=kind, dpi=_DPI, metadata=metadata, facecolor="white")
    return buffer.getvalue()
