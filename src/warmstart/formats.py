"""Write numbers and names the same way in every message, table and figure."""

import html
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from math import floor, log10
from typing import Any

# Everything that moves the cursor, changes colours or the direction of the text, or is half a
# character. Tabs stay.
_CONTROLS = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Marks of Markdown inside a line; a colon and an @ turn addresses into links.
_MARKS = re.compile(r"[\\`*_\[\]|~#]|:(?=//)|@")
MOST_CHOICES = 5  # in one sentence
MOST_CHARS = 60  # of a value in a `repr`
_LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # as str.splitlines has them


def shell_line(words: Sequence[str]) -> str:
    """Write a command so that the shell of this system reads these words."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def list_choices(names: Sequence[str]) -> str:
    """Write the first names as a choice: 'a', 'b' or 'c'."""
    shown = [repr(shorten(name)) for name in names[:MOST_CHOICES]]
    shown += ["another column"] * (len(names) > MOST_CHOICES)
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def percent(share: float) -> str:
    """Write a share of one as a percentage."""
    return f"{100 * share:.1f}%"


def points(share: float) -> str:
    """Write a difference of shares as signed percentage points."""
    text = f"{100 * share:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def unsigned_points(share: float) -> str:
    """Write percentage points with a minus sign but no plus sign."""
    return points(share).removeprefix("+")


def significant(number: float, like: float | None = None) -> str:
    """Write a number to three digits, or to the place of the third digit of another number.

    Thousands are separated and not rounded.
    """
    size = abs(number if like is None else like)
    if size == 0:
        return "0"
    if not 1e-5 <= size < 1e15:
        return f"{number:.2e}".replace("-", "−", number < 0)
    places = max(2 - floor(log10(size)), 0)
    text = f"{number:,.{places}f}"
    return text.replace("-", "−" if float(text.replace(",", "")) else "")


def percent_range(low: float, high: float) -> str:
    """Write an interval of shares with one percent sign."""
    return f"{100 * low:.1f} to {100 * high:.1f}%"


def points_range(low: float, high: float) -> str:
    """Write an interval of differences in percentage points."""
    return f"{points(low)} to {points(high)}"


def count(number: int) -> str:
    """Write a whole number with a thousands separator."""
    return f"{number:,}"


def quantity(number: int, noun: str) -> str:
    """Write a number with its noun, which takes an s in the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def sentence_case(phrase: str) -> str:
    """Write a phrase with a capital letter at its beginning."""
    return f"{phrase[:1].upper()}{phrase[1:]}"


def duration(seconds: float) -> str:
    """Write a time in its two largest units."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def shorten(text: str, width: int = 26) -> str:
    """Cut the middle out of a name that is too long for a figure."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"


def visible(text: str) -> str:
    """Write control characters and marks of direction as escapes, so that a terminal shows them."""
    return _CONTROLS.sub(_escape, text)


def one_line(text: str) -> str:
    """Write line breaks as escapes, so that one line stays one line."""
    return _LINE_BREAKS.sub(_escape, text)


def markdown(text: str) -> str:
    """Write a text in Markdown, also in a table, so that no part of it is taken for a mark."""
    return _MARKS.sub(r"\\\g<0>", html.escape(visible(text), quote=False))


def plain_text(text: str) -> str:
    """Return the text that `markdown` wrote."""
    return html.unescape(re.sub(rf"\\({_MARKS.pattern})", r"\1", text))


def code_span(text: str) -> str:
    """Write a text as code in Markdown, also in a table; it may have backticks of its own."""
    shown = visible(text).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


class Brief:
    """A dataclass whose `repr` fits in a few lines: long values are named by their type."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:  # or a dataclass would write one with everything in it
            setattr(cls, "__repr__", Brief.__repr__)  # noqa: B010 (mypy refuses the assignment)

    def __repr__(self) -> str:
        fields = getattr(type(self), "__dataclass_fields__", {})
        values = (f"{name}={_brief(getattr(self, name))}" for name in fields)
        return f"{type(self).__name__}({', '.join(values)})"


def _brief(value: Any) -> str:
    text = repr(value)
    if len(text) <= MOST_CHARS:
        return text
    num = f" of {len(value):,}" if hasattr(value, "__len__") else ""
    return f"<{type(value).__name__}{num}>"
