import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from warmstart.comparison.report import arm_colours, draw_differences, draw_epochs, draw_labels
from warmstart.report.style import EndLabel, save_figure, spread_out, svg_text, write_end_labels
from warmstart.report.training_figure import draw_training

EIGHT = (
    ("warm: base", "warm"),
    ("warm: a run whose name goes on for very long indeed", "warm"),
    ("warm: c", "warm"),
    ("frozen: base", "frozen"),
    ("frozen: b", "frozen"),
    ("frozen: c", "frozen"),
    ("cold", "cold"),
    ("tf-idf", "baseline"),
)
SHAPES: dict[str, dict[str, Any]] = {
    "usual": {},
    "one of everything": {"subsets": (400,), "seeds": (0,), "num_epochs": 1, "has_test": False},
    "eight arms": {"arms": EIGHT, "subsets": (400,), "num_epochs": 20, "num_texts": 80},
    "two arms": {"arms": (("warm", "warm"), ("cold", "cold")), "attainable": None},
    "validated now and then": {"subsets": (100,), "num_epochs": 10, "epochs_apart": 4},
    "five classes": {"class_names": tuple("abcde"), "subsets": (50, 1500, 1600)},
    "no epochs": {"arms": (("tf-idf", "baseline"),)},
    "all equal": {"skill": dict.fromkeys(("warm", "frozen", "cold", "baseline"), (1.9, 1.9, 0.1))},
}


@pytest.fixture(scope="module", params=SHAPES)
def shaped(request: pytest.FixtureRequest, builder: Callable) -> Any:
    return builder(**{"num_texts": 80, **SHAPES[request.param]})


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Return the pairs of texts that cover each other."""
    figure.draw_without_rendering()
    axes = figure.axes[0]
    ticks = axes.get_xticklabels() + axes.get_yticklabels()
    texts = [text for text in [*axes.texts, *ticks] if text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent().shrunk(0.98, 0.98)) for text in texts]
    return [
        (a, b)
        for place, (a, first) in enumerate(boxes)
        for b, second in boxes[place + 1 :]
        if first.overlaps(second)
    ]


def test_no_text_covers_another_or_leaves_the_figure(shaped: Any) -> None:
    for draw in (draw_epochs, draw_labels, draw_differences):
        figure = draw(*shaped)
        assert overlaps(figure) == []
        for text in figure.axes[0].texts:
            box = text.get_window_extent()
            assert box.x0 >= -1
            assert box.x1 <= figure.bbox.width + 1


def test_what_is_drawn_is_finite_and_in_sight(shaped: Any) -> None:
    for draw in (draw_epochs, draw_labels):
        axes = draw(*shaped).axes[0]
        data = [line for line in axes.lines if line.get_transform() == axes.transData]
        for (low, high), read in (
            (axes.get_xlim(), Line2D.get_xdata),
            (axes.get_ylim(), Line2D.get_ydata),
        ):
            values = [float(value) for line in data for value in read(line)]
            assert all(math.isfinite(value) and low <= value <= high for value in values)


def test_an_arm_keeps_its_colour_and_no_two_share_one(shaped: Any) -> None:
    comparison, summary = shaped
    colours = arm_colours(comparison.arms)
    assert len(set(colours.values())) == len(comparison.arms)
    for draw in (draw_epochs, draw_labels):
        drawn = {line.get_color() for line in draw(comparison, summary).axes[0].lines}
        assert set(colours.values()) <= drawn


def test_epochs_can_be_drawn_at_any_subset(built: Any) -> None:
    comparison, summary = built
    titles = [
        draw_epochs(comparison, summary, n).axes[0].get_title("left") for n in comparison.subsets
    ]
    assert len(set(titles)) == len(comparison.subsets)


def test_chance_is_what_always_guessing_one_class_gets(built: Any) -> None:
    split = built[0].choosing_split
    guesses = [split.classes.count(guess) / len(split.classes) for guess in (0, 1)]
    assert built[0].chance(split) == max(guesses)


@given(
    st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=8),
    st.floats(0.01, 0.12),
)
def test_labels_spread_out_in_order_and_inside(values: list[float], gap: float) -> None:
    moved = spread_out(values, gap, 0.0, 1.0)
    assert all(-1e-9 <= value <= 1 + 1e-9 for value in moved)
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(sorted(moved)))
    order = sorted(range(len(values)), key=lambda place: values[place])
    assert [moved[place] for place in order] == sorted(moved)


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread_out([0.2, 0.9, 0.5], 0.1, 0, 1) == pytest.approx([0.2, 0.9, 0.5])


def training(losses: list[float]) -> list[dict[str, float]]:
    """Return the lines of a metrics.jsonl."""
    return [{"step": step, "train_loss": loss} for step, loss in enumerate(losses)]


@pytest.mark.parametrize("steps", [0, 1, 7, 500])
def test_a_loss_curve_of_any_length_is_drawn(steps: int) -> None:
    losses = [10 * math.exp(-step / 90) + 2 for step in range(steps)]
    figure = draw_training([*training(losses), {"step": steps, "valid_loss": 2.5}])
    assert overlaps(figure) == []
    assert svg_text(figure).startswith("<svg")


def test_a_loss_that_is_not_a_number_does_not_spoil_the_curve() -> None:
    figure = draw_training(training([3.0, math.nan, 2.0]))
    ys = [float(y) for line in figure.axes[0].lines for y in line.get_ydata()]
    assert ys
    assert all(map(math.isfinite, ys))


@pytest.mark.parametrize("fall", [0.001, 0.05, 0.11])
def test_perplexity_ticks_are_exponentials_of_the_loss(fall: float) -> None:
    figure = draw_training(training([12 - step * fall for step in range(100)]))
    assert overlaps(figure) == []
    losses, perplexities = figure.axes
    low, high = perplexities.get_ylim()
    ticks = [t for t in perplexities.get_yticklabels() if low <= t.get_position()[1] <= high]
    assert len(ticks) > 1
    for tick in ticks:
        loss = math.log(float(tick.get_text().replace(",", "")))
        height = perplexities.transData.transform((0, tick.get_position()[1]))[1]
        assert losses.transData.transform((0, loss))[1] == pytest.approx(height, abs=0.5)


def test_png_and_svg_are_written_whole_and_the_same_each_time(built: Any, tmp_path: Path) -> None:
    first = save_figure(draw_labels(*built), tmp_path / "a" / "labels.v1")
    second = save_figure(draw_labels(*built), tmp_path / "b" / "labels.v1")
    assert [path.name for path in first] == ["labels.v1.png", "labels.v1.svg"]
    assert sorted(first) == sorted((tmp_path / "a").iterdir())
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()


def test_drawing_leaves_matplotlib_as_it_was(built: Any) -> None:
    before = dict(matplotlib.rcParams)
    svg_text(draw_epochs(*built))
    assert dict(matplotlib.rcParams) == before


def test_a_name_is_never_read_as_a_formula(builder: Callable) -> None:
    comparison, summary = builder(
        arms=(("warm: $x^$", "warm"), ("cold", "cold")), subsets=(50,), num_texts=40
    )
    assert "$x^$" in svg_text(draw_epochs(comparison, summary))


def test_end_labels_start_where_their_lines_end() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 4], [0.2, 0.7])
    write_end_labels(axes, [EndLabel(text="a", colour="black", x=4, y=0.7)])
    figure.draw_without_rendering()
    leader = axes.lines[-1].get_xydata()[0]
    assert axes.transAxes.inverted().transform(axes.transData.transform((4, 0.7))) == pytest.approx(
        leader
    )
