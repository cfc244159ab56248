"""Predictions at several moments of a training, side by side."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from warmstart.formats import shorten
from warmstart.report.html import Section, figure, table
from warmstart.report.style import INK, SHADES, styled
from warmstart.results.moments import Moment, TrainingMoments

PANEL, ROW = 1.75, 0.3  # inches


def moment_sections(moments: TrainingMoments) -> list[Section]:
    """Return the section of a page about one text."""
    caption = (
        "The most probable words at each moment, with their probabilities. A model with random"
        " weights finds all words nearly equally probable."
    )
    words = table(("moment", "words"), moment_rows(moments), left=[1])
    pieces = [f"{moments.sentence}.", figure(draw_moments(moments), caption), words]
    return [Section(title=f"“{shorten(moments.text, 80)}”", pieces=pieces)]


def moment_rows(moments: TrainingMoments) -> list[tuple[str, str]]:
    """Return each moment with its words."""

    def said(moment: Moment) -> str:
        return "; ".join(f"{word.word} {word.probability:.1%}" for word in moment.words)

    return [(moment.name, said(moment)) for moment in moments.moments]


@styled
def draw_moments(moments: TrainingMoments) -> Figure:
    """Draw a panel of bars for each moment."""
    columns = len(moments.moments)
    num_words = max(len(moment.words) for moment in moments.moments)
    size = (max(4.0, PANEL * columns), ROW * num_words + 1.1)
    drawing = Figure(figsize=size, layout="constrained")
    drawing.suptitle(f"{shorten(moments.run, 40)}: “{shorten(moments.text, 70)}”")
    highest = max(word.probability for moment in moments.moments for word in moment.words)
    grid = drawing.subplots(1, columns, squeeze=False)[0]
    for axes, moment in zip(grid, moments.moments, strict=True):
        _draw_moment(axes, moment, highest, is_last=moment is moments.moments[-1])
        axes.set_ylim(num_words - 0.4, -0.6)
    return drawing


def _draw_moment(axes: Axes, moment: Moment, highest: float, is_last: bool) -> None:
    shares = [word.probability for word in moment.words]
    colour = SHADES["warm"][0] if is_last else SHADES["cold"][1]
    axes.barh(range(len(shares)), shares, color=colour, height=0.78, alpha=0.55)
    for row, word in enumerate(moment.words):
        text = f"{shorten(word.word, 12)}  {word.probability:.1%}"
        axes.text(0.02 * highest, row, text, va="center", color=INK, fontsize=7.5)
    axes.set_title(moment.name)
    axes.set_xlim(0, 1.05 * highest)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
