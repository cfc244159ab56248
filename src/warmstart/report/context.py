"""How alike a word is to itself in other sentences: a figure by layer, and a page.

Draws what it is given; knows nothing about models.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from warmstart.report.markup import Html, Section, bullets, element, figure, paragraph, table
from warmstart.report.page import write_page
from warmstart.report.style import FAINT, INK, WIDTH, EndLabel, styled, write_end_labels

_FEW_PAIRS = 6  # up to here every pair has a name in figure and tables
_FEW_SENTENCES = 6  # up to here the heat maps show numbers
_MOST_MAPS = 4  # layers shown as heat maps
_HUES = ("#d5521c", "#2166ac", "#2a9d8f", "#b8860b", "#5e1f3a", "#4f8f3a")


@dataclass(frozen=True, kw_only=True)
class WordReport:
    """Cosine similarities of one word between sentences."""

    run: str
    word: str
    sentences: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]  # where the word stands in each sentence
    pieces: tuple[tuple[str, ...], ...]  # the tokens it is split into there
    similarities: tuple[tuple[tuple[float, ...], ...], ...]  # (layers, S, S); layer 0: embeddings
    others: tuple[float, ...]  # mean over other tokens of different sentences, by layer

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of sentences, counted from 0."""
        return list(combinations(range(len(self.sentences)), 2))

    def of_pair(self, pair: tuple[int, int]) -> list[float]:
        """Return the similarity of two sentences' words by layer."""
        return [layer[pair[0]][pair[1]] for layer in self.similarities]

    def means(self) -> list[float]:
        """Return the mean over all pairs by layer."""
        return [float(np.mean(row)) for row in zip(*map(self.of_pair, self.pairs), strict=True)]

    def named_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs to show one by one: all, where they are few."""
        return self.pairs if len(self.pairs) <= _FEW_PAIRS else []

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "means": self.means()}


def table_rows(report: WordReport) -> Iterator[tuple[str, ...]]:
    """Yield the cells under `table_headers`, a row for each layer."""
    named = [report.of_pair(pair) for pair in report.named_pairs()]
    for layer, (mean, other) in enumerate(zip(report.means(), report.others, strict=True)):
        every = [report.of_pair(pair)[layer] for pair in report.pairs]
        shown = [row[layer] for row in named] or [min(every), max(every)]
        numbers = [f"{value:.2f}" for value in (*shown, mean, other)]
        yield (str(layer), *numbers)


def table_headers(report: WordReport) -> tuple[str, ...]:
    """Return the headers over `table_rows`."""
    named = [pair_name(pair) for pair in report.named_pairs()] or ["least", "most"]
    return ("layer", *named, "mean", "other words")


def pair_name(pair: tuple[int, int]) -> str:
    """Name two sentences by their numbers."""
    return f"{pair[0] + 1}–{pair[1] + 1}"


@styled
def draw_context(report: WordReport) -> Figure:
    """Draw similarity by layer, heat maps of some layers, and the sentences."""
    num = len(report.sentences)
    text = 0.17 * num + 0.1
    drawing = Figure(figsize=(WIDTH, 5.1 + text), layout="constrained")
    layers = _shown_layers(len(report.similarities))
    grid = drawing.add_gridspec(3, len(layers), height_ratios=[3.0, 2.0, text])
    _draw_lines(drawing.add_subplot(grid[0, :]), report)
    for column, layer in enumerate(layers):
        _draw_map(drawing.add_subplot(grid[1, column]), report, layer)
    listed = drawing.add_subplot(grid[2, :])
    listed.axis("off")
    for place, line in enumerate(_excerpts(report)):
        listed.text(0, 1 - (place + 0.5) / num, line, va="center", transform=listed.transAxes)
    return drawing


def _shown_layers(num: int) -> list[int]:
    return sorted({round(x) for x in np.linspace(0, num - 1, min(num, _MOST_MAPS))})


def _draw_lines(axes: Axes, report: WordReport) -> None:
    layers = range(len(report.similarities))
    last = layers[-1]
    axes.set_xlim(-0.03 * last, last * 1.03)
    named = report.named_pairs()
    ends = []
    for place, pair in enumerate(report.pairs):
        values = report.of_pair(pair)
        colour = _HUES[place % len(_HUES)] if named else FAINT
        axes.plot(layers, values, color=colour, linewidth=1.3 if named else 0.7, alpha=0.85)
        if named:
            name = pair_name(pair)
            ends.append(EndLabel(text=name, colour=colour, x=last, y=values[-1]))
    means = report.means()
    if len(report.pairs) > 1:
        axes.plot(layers, means, color=INK, linewidth=2.4, marker="o", markersize=3.5)
        ends.append(EndLabel(text="mean", colour=INK, x=last, y=means[-1]))
    axes.plot(layers, report.others, color=FAINT, linestyle="--", linewidth=1.4)
    ends.append(EndLabel(text="other words", colour=FAINT, x=last, y=report.others[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("layer (0: embeddings)")
    axes.set_ylabel("cosine similarity")
    axes.set_title(f"“{report.word}” in {len(report.sentences)} sentences")
    write_end_labels(axes, ends, share=0.5)


def _draw_map(axes: Axes, report: WordReport, layer: int) -> None:
    values = np.array(report.similarities[layer])
    num = len(values)
    axes.imshow(values, cmap="YlOrRd", vmin=min(0.0, float(values.min())), vmax=1.0)
    axes.grid(visible=False)
    axes.set_title("embeddings" if layer == 0 else f"layer {layer}")
    step = 1 if num <= _FEW_SENTENCES else 2
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(range(0, num, step), [str(k + 1) for k in range(0, num, step)])
    if num <= _FEW_SENTENCES:
        for row, column in np.ndindex(num, num):
            value = values[row, column]
            colour = "white" if value > 0.6 else INK
            axes.text(
                column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=6
            )


def _excerpts(report: WordReport, width: int = 92) -> Iterator[str]:
    """Yield every sentence on one line, cut around the word, which stands in brackets."""
    for number, (text, (start, end)) in enumerate(
        zip(report.sentences, report.spans, strict=True), 1
    ):
        room = max(10, (width - (end - start)) // 2)
        before, after = " ".join(text[:start].split()), " ".join(text[end:].split())
        left = f"…{before[-room:]}" if len(before) > room else before
        right = f"{after[:room]}…" if len(after) > room else after
        gap = " " if text[start - 1 : start].isspace() else ""
        space = " " if text[end : end + 1].isspace() else ""
        yield f"{number}  {left}{gap}[{text[start:end]}]{space}{right}"


def write_context_page(report: WordReport, path: Path) -> Path:
    """Write figure, table and sentences as one page."""
    caption = (
        "Cosine similarity of the word's vector between sentences after each layer; a word split"
        " into several tokens counts with their mean. The dashed line is the mean similarity of"
        " the other words between the same sentences: the level at which all words look alike."
    )
    sentences = Section(title="The sentences", pieces=[bullets(_marked(report))])
    similarity = Section(
        title="Similarity by layer",
        pieces=[
            figure(draw_context(report), caption),
            table(table_headers(report), table_rows(report)),
        ],
    )
    title = f"“{report.word}” in context"
    about = paragraph(f"Read by {report.run}.", css="soft")
    intro = Section(title="What this shows", pieces=[_sentence(report), about])
    return write_page(title, [intro, similarity, sentences], path)


def _sentence(report: WordReport) -> str:
    means = report.means()
    return f"{context_words(report.word, means, report.others)}."


def context_words(word: str, means: list[float], others: tuple[float, ...]) -> str:
    """Say how the similarity goes from the embeddings to the last layer."""
    return (
        f"“{word}” in different sentences: mean similarity {means[0]:.2f} at the embeddings, "
        f"{means[-1]:.2f} after the last layer (other words: {others[-1]:.2f})"
    )


def _marked(report: WordReport) -> Iterator[Html]:
    for number, (text, (start, end), pieces) in enumerate(
        zip(report.sentences, report.spans, report.pieces, strict=True), 1
    ):
        tokens = f" ({' '.join(pieces)})" if len(pieces) > 1 else ""
        yield Html.joined(
            (f"{number}: {text[:start]}", element("b", text[start:end]), text[end:], tokens)
        )
