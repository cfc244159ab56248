"""Pieces of HTML in which every plain string is escaped, and the page that holds them.

`Html` is text that is already safe; anything else is taken for plain text. Knows nothing about
comparisons.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Self

from matplotlib.figure import Figure

from warmstart.report.images import svg_text


class Html(str):
    """Text that is safe to put into a page as it is."""

    __slots__ = ()

    @classmethod
    def joined(cls, pieces: Iterable[str], separator: str = "") -> Self:
        """Join pieces, escaping those that are plain."""
        return cls(separator.join(safe(piece) for piece in pieces))


def safe(text: str) -> Html:
    """Escape plain text; leave `Html` as it is."""
    return text if isinstance(text, Html) else Html(escape(text))


@dataclass(frozen=True, kw_only=True)
class Section:
    """One titled part of a page; its pieces stand below each other."""

    title: str
    pieces: Sequence[str]  # what the functions below return; plain strings become paragraphs


def element(tag: str, *content: str, css: str = "") -> Html:
    """Wrap content in a tag, with a CSS class if given."""
    opening = f'<{tag} class="{css}">' if css else f"<{tag}>"
    return Html(f"{opening}{Html.joined(content)}</{tag}>")


def paragraph(*content: str, css: str = "") -> Html:
    """Return one paragraph."""
    return element("p", *content, css=css)


def box(*content: str) -> Html:
    """Return a warning that a reader cannot miss."""
    return element("div", *(paragraph(text) for text in content), css="box")


def bullets(items: Iterable[str]) -> Html:
    """Return a list of points."""
    return element("ul", *(element("li", item) for item in items))


def folded(title: str, *pieces: str) -> Html:
    """Return pieces that open when their title is clicked."""
    return element("details", element("summary", title), *pieces)


def swatch(colour: str, text: str) -> Html:
    """Return text behind a small mark in the colour it has in the figures."""
    mark = Html(f'<i class="swatch" style="background:{escape(colour)}"></i>')
    return element("span", mark, text, css="arm")


def figure(drawing: Figure, caption: str) -> Html:
    """Return a drawing as inline SVG with its caption."""
    picture = Html(f'<div role="img" aria-label="{escape(caption)}">{svg_text(drawing)}</div>')
    return element("figure", picture, element("figcaption", caption))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], align: str | None = None) -> Html:
    """Return a table; `align` has one letter a column, l or r (first left, others right)."""
    align = align or "l" + "r" * (len(headers) - 1)
    if len(align) != len(headers) or set(align) - set("lr"):
        raise ValueError(f"align={align!r} must be {len(headers)} letters l or r")
    head = element("thead", _row("th", headers, align))
    body = element("tbody", *(_row("td", row, align) for row in rows))
    return element("div", element("table", head, body), css="scroll")


def _row(tag: str, cells: Sequence[str], align: str) -> Html:
    pairs = zip(cells, align, strict=True)
    return element("tr", *(element(tag, cell, css=letter) for cell, letter in pairs))


def document(title: str, sections: Sequence[Section]) -> Html:
    """Return the whole page: no script, nothing fetched from elsewhere."""
    numbered = list(enumerate(sections, start=1))
    links = (Html(f'<a href="#s{place}">{safe(part.title)}</a>') for place, part in numbered)
    parts = (_section(place, part) for place, part in numbered)
    return Html.joined(
        (
            Html('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">\n'),
            element("title", title),
            Html(f"\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"),
            element("h1", title),
            element("nav", *links),
            *parts,
            Html("\n</main>\n</body>\n</html>\n"),
        )
    )


def _section(place: int, section: Section) -> Html:
    pieces = (piece if isinstance(piece, Html) else paragraph(piece) for piece in section.pieces)
    content = Html.joined((element("h2", section.title), *pieces), "\n")
    return Html(f'\n<section id="s{place}">\n{content}\n</section>\n')


CSS = """
:root { color-scheme: light; --ink: #2b2b2b; --soft: #6a6a6a; --line: #e3e3e3; --warm: #d5521c; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--ink); line-height: 1.55; font-size: 16px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 900px; margin: 0 auto; padding: 2.5rem 1.5rem 5rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 3rem 0 .8rem; padding-top: 1.1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.8rem 0 .4rem; }
p, ul { margin: .6rem 0; max-width: 46rem; overflow-wrap: anywhere; }
ul { padding-left: 1.2rem; }
li { margin: .2rem 0; }
nav { display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; font-size: .85rem; }
nav a { color: var(--soft); text-decoration: none; }
nav a:hover { color: var(--warm); text-decoration: underline; }
.headline { font-size: 1.15rem; line-height: 1.5; font-weight: 500; margin: .8rem 0;
  border-left: 4px solid var(--warm); padding-left: 1.1rem; }
.box { border-left: 4px solid #e0a100; background: #fff8e6; padding: .5rem 1.1rem; margin: 1rem 0; }
.box p { margin: .35rem 0; }
figure { margin: 1.4rem 0; }
figure svg { width: 100%; height: auto; display: block; }
figcaption, .soft { color: var(--soft); font-size: .86rem; }
figcaption { margin-top: .3rem; max-width: 46rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums;
  min-width: 60%; }
th { font-weight: 600; color: var(--soft); font-size: .8rem; vertical-align: bottom;
  border-bottom: 1.5px solid #bdbdbd; line-height: 1.3; }
td { border-bottom: 1px solid var(--line); vertical-align: top; }
th, td { padding: .38rem .6rem; }
th:first-child, td:first-child { padding-left: .1rem; }
.l { text-align: left; }
.r { text-align: right; }
td.r { white-space: nowrap; }
.arm { white-space: nowrap; }
.swatch { display: inline-block; width: .68em; height: .68em; border-radius: 50%;
  margin-right: .5em; }
details { margin: 1rem 0; }
summary { cursor: pointer; color: var(--soft); font-size: .92rem; }
@media print { main { max-width: none; padding: 0; } nav { display: none; }
  h2 { break-after: avoid; } figure, tr, .box { break-inside: avoid; }
  .scroll { overflow: visible; } }
"""
