"""Write a figure as a picture, or as a page with its text and tables."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from warmstart.report.html import Section, write_page
from warmstart.report.images import save_image


def write_picture(drawing: Figure, title: str, sections: Sequence[Section], out: Path) -> Path:
    """Write the sections as .html, or the drawing alone in another format."""
    if out.suffix.lower() == ".html":
        return write_page(title, sections, out)
    return save_image(drawing, out)
