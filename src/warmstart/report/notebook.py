"""Results that show themselves in a notebook: Jupyter asks every value for `_repr_html_`."""

import base64
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from warmstart.report.html import render

IMAGE_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


class Shown:
    """A result that a notebook shows as HTML."""

    def pieces(self) -> Sequence[str]:
        """Return HTML as `Markup`; a plain string becomes a paragraph."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return render("notebook.html", {"pieces": self.pieces()})


class ShownFile(Shown):
    """A result that a notebook shows by the figure or page it was written to."""

    out: Path

    def pieces(self) -> Sequence[str]:
        return [show_file(self.out)]


def show_file(path: Path) -> Markup:
    """Return a figure as an image, or a page in a frame of its own."""
    image_type = IMAGE_TYPES.get(path.suffix.lower())
    if image_type is None:
        return render("frame.html", {"page": path.read_text(encoding="utf-8"), "name": path.name})
    data = base64.b64encode(path.read_bytes()).decode()
    return render("image.html", {"type": image_type, "data": data, "name": path.name})
