"""HTML from the Jinja2 templates: every value is escaped unless it is `Markup`.

Matplotlib is loaded when something is drawn: it takes a second.
"""

import base64
import hashlib
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import matplotlib
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from warmstart import formats
from warmstart.files import write_whole


@dataclass(frozen=True, kw_only=True)
class Section:
    """One titled part of a page."""

    title: str
    pieces: Sequence[str]  # HTML as `Markup`; a plain string becomes a paragraph


@cache
def environment() -> Environment:
    """Return the templates with the filters they use."""
    templates = Environment(
        loader=PackageLoader("warmstart.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    templates.filters |= {
        "percent": formats.percent,
        "percent_range": formats.percent_range,
        "points": formats.points,
        "thousands": formats.count,
        "counted": formats.counted,
        "duration": formats.duration,
        "svg": _svg,
    }
    return templates


def render(template: str, values: Mapping[str, object]) -> Markup:
    """Fill in a template."""
    return Markup(environment().get_template(template).render(values))


def render_block(template: str, block: str, values: Mapping[str, object]) -> Markup:
    """Fill in one block of a template, which can use the macros as `ui`."""
    source = environment().get_template(template)
    context = source.new_context({**values, "ui": _macros()})
    return Markup("".join(source.blocks[block](context)))


def table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = ()
) -> Markup:
    """Return a table; columns are right-aligned, except the first and those in `left`."""
    rows = list(rows)
    if any(len(row) != len(headers) for row in rows):
        raise ValueError(f"rows of {set(map(len, rows))} cells under {len(headers)} headers")
    return _macros().table(headers, rows, left)


def figure(drawing: "Figure", caption: str) -> Markup:
    """Return a drawing as inline SVG with its caption."""
    return _macros().figure(drawing, caption)


def bullets(items: Iterable[str]) -> Markup:
    """Return a list of points."""
    return _macros().bullets(items)


def soft(text: str) -> Markup:
    """Return a paragraph in small, pale type."""
    return _macros().soft(text)


def _svg(drawing: "Figure") -> Markup:

    return Markup(svg_text(drawing))


def _macros() -> Any:
    return environment().get_template("macros.html").module


def write_page(title: str, sections: Sequence[Section], path: Path) -> Path:
    """Write a page that needs no script and no network, whole or not at all."""
    page = render("page.html", {"title": title, "sections": sections})
    return write_whole(path, page.encode())


IMAGE_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # headers and rows


class Shown:
    """A result that a notebook shows as HTML."""

    def pieces(self) -> Sequence[str]:
        """Return HTML as `Markup`; a plain string becomes a paragraph."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return render("notebook.html", {"pieces": self.pieces()})


class Drawn(Shown):
    """A result that a notebook shows as its figure."""

    def draw(self) -> Figure:
        """Draw the figure that the command writes."""
        raise NotImplementedError

    def pieces(self) -> Sequence[str]:
        return [image(_render(self.draw(), "png"), ".png")]


def show_file(path: Path) -> Markup:
    """Return a figure as an image, or a page in a frame of its own."""
    if path.suffix.lower() in IMAGE_TYPES:
        return image(path.read_bytes(), path.suffix.lower(), path.name)
    return render("frame.html", {"page": path.read_text(encoding="utf-8"), "name": path.name})


def image(data: bytes, suffix: str, name: str = "figure") -> Markup:
    """Return the bytes of an image as HTML."""
    encoded = base64.b64encode(data).decode()
    return render("image.html", {"type": IMAGE_TYPES[suffix], "data": encoded, "name": name})


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
