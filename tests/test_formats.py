import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.formats import (
    code_span,
    duration,
    markdown,
    one_line,
    percent,
    percent_range,
    plain_text,
    points,
    points_range,
    quantity,
    shorten,
    visible,
)


def test_shares_are_written_in_percent_and_points() -> None:
    assert percent(0.8432) == "84.3%"
    assert percent_range(0.8, 0.9) == "80.0 to 90.0%"
    assert points_range(-0.012, 0.008) == "−1.2 to +0.8"


def test_no_difference_has_no_sign() -> None:
    assert points(0.0) == points(-0.0001) == points(0.0001) == "0.0"


def test_one_is_singular() -> None:
    assert quantity(1, "label") == "1 label"
    assert quantity(1600, "label") == "1,600 labels"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.97, "10 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (7260, "2 h 01 min"),
    ],
)
def test_durations_roll_over(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.text(), st.integers(3, 40))
def test_short_names_fit_and_keep_both_ends(name: str, width: int) -> None:
    short = shorten(name, width)
    assert len(short) <= width
    assert short[:1] == name[:1]
    assert short[-1:] == name[-1:]


def test_controls_and_marks_of_direction_are_shown() -> None:
    assert visible("\x1b[2J\x07 \x9b \u202e \u2066 \u200f \udcff \n \u2028") == (
        r"\x1b[2J\x07 \x9b \u202e \u2066 \u200f \udcff \n \u2028"
    )
    ordinary = "été\tتجربة 中文 👩\u200d👧 ½"
    assert visible(ordinary) == ordinary


@given(st.text())
def test_one_line_is_one_line_and_can_be_printed(text: str) -> None:
    assert len(f"{one_line(text)}\n".splitlines()) == 1
    assert not any(ord(character) < 32 and character != "\t" for character in visible(text))
    visible(text).encode()


HOSTILE = [
    "<script>alert(1)</script>",
    "a | b",
    "[a](javascript:b)",
    "![a](http://a.b/c)",
    "http://a.b/c",
    "a@b.c",
    "`code`",
    "**bold** __bold__ ~~gone~~",
    "line\n# heading\r\n```",
    "&lt; &amp;amp; \\",
    "\x1b[31m",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_a_text_as_it_is(text: str) -> None:
    written = markdown(text)
    assert not re.search(r"[<>\n\r\x1b]|(?<!\\)[`*\[\]|]|(?<!\\)://|(?<!\\)@", written)
    assert markdown(plain_text(written)) == written
    if visible(text) == text:
        assert plain_text(written) == text


@given(st.text())
def test_what_markdown_writes_is_read_back(text: str) -> None:
    assert plain_text(markdown(text)) == visible(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_code_stays_code(text: str) -> None:
    """The text between the first and the last fence holds no fence of the same length."""
    written = code_span(text)
    fence = re.match("`+", written)
    assert fence
    inner = written[len(fence[0]) : -len(fence[0])]
    assert not re.search(rf"(?<!`){fence[0]}(?!`)", inner)
    assert not re.search(r"\n|(?<!\\)\|", inner)
