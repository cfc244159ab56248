"""HTML from the Jinja2 templates: every value is escaped unless it is `Markup`.

Matplotlib is loaded when something is drawn: it takes a second.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from warmstart import formats
from warmstart.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def folded(title: str, piece: Markup) -> Markup:
    """Return HTML that opens when its title is clicked."""
    return _macros().folded(title, piece)


def _svg(drawing: "Figure") -> Markup:
    from warmstart.report.images import svg_text

    return Markup(svg_text(drawing))


def _macros() -> Any:
    return environment().get_template("macros.html").module


def write_page(title: str, sections: Sequence[Section], path: Path) -> Path:
    """Write a page that needs no script and no network, whole or not at all."""
    page = render("page.html", {"title": title, "sections": sections})
    return write_whole(path, page.encode())


def write_picture(drawing: "Figure", title: str, sections: Sequence[Section], path: Path) -> Path:
    """Write the sections as a page where the file is .html, else the drawing alone."""
    if path.suffix.lower() == ".html":
        return write_page(title, sections, path)
    from warmstart.report.images import save_image

    return save_image(drawing, path)
