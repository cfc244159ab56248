import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.formats import (
    duration,
    one_line,
    percent,
    percent_range,
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
