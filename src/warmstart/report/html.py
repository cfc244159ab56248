"""HTML from the Jinja2 templates: every value is escaped unless it is `Markup`.

Matplotlib is loaded when something is drawn: it takes a second.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from warmstart import formats
from warmstart.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARED = "warmstart.report"  # package of the templates that every page shares
IMAGE_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # headers and rows


@dataclass(frozen=True, kw_only=True)
class Section:
    """One titled part of a page."""

    title: str
    pieces: Sequence[str]  # HTML as `Markup`; a plain string becomes a paragraph


@cache
def environment(package: str = SHARED) -> Environment:
    """Return the templates of a package and the shared ones, with the filters they use."""
    templates = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (package, SHARED)]),
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
        "sentence_case": formats.sentence_case,
        "points": formats.points,
        "thousands": formats.count,
        "quantity": formats.quantity,
        "duration": formats.duration,
        "svg": _svg,
    }
    return templates


def render(template: str, values: Mapping[str, object], package: str = SHARED) -> Markup:
    """Fill in a template of a package, or a shared one."""
    return Markup(environment(package).get_template(template).render(values))


def render_block(template: str, block: str, values: Mapping[str, object], package: str) -> Markup:
    """Fill in one block of a template, which can use the macros as `ui`."""
    source = environment(package).get_template(template)
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
    from warmstart.report.style import svg_text

    return Markup(svg_text(drawing))


def _macros() -> Any:
    return environment().get_template("macros.html").module


def write_page(title: str, sections: Sequence[Section], path: Path) -> Path:
    """Write a page that needs no script and no network, whole or not at all."""
    page = render("page.html", {"title": title, "sections": sections})
    return write_whole(path, page.encode())


class Shown(formats.Brief):
    """A result that a notebook shows as HTML."""

    def pieces(self) -> Sequence[str]:
        """Return HTML as `Markup`; a plain string becomes a paragraph."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return render("notebook.html", {"pieces": self.pieces()})


class Drawn(Shown):
    """A result that a notebook shows as its figure."""

    def draw(self) -> "Figure":
        """Draw the figure that the command writes."""
        raise NotImplementedError

    def pieces(self) -> Sequence[str]:
        from warmstart.report.style import image_bytes

        return [image(image_bytes(self.draw(), ".png"), ".png")]


def image(data: bytes, suffix: str) -> Markup:
    """Return an image that holds its own bytes."""
    encoded = base64.b64encode(data).decode()
    return render("image.html", {"type": IMAGE_TYPES[suffix], "data": encoded})
