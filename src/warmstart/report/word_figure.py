"""Similarity of one word between sentences: a figure by layer, and a page."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from warmstart.report.html import Section, figure, render, soft, table, write_picture
from warmstart.report.style import FAINT, INK, WIDTH, EndLabel, styled, write_end_labels
from warmstart.results.model_views import WordSimilarity

MAX_PAIRS = 6  # named one by one in figure and tables
MAX_NUMBERS = 6  # sentences up to which the heat maps show numbers
MAX_HEAT_MAPS = 4
COLOURS = ("#d5521c", "#2166ac", "#2a9d8f", "#b8860b", "#5e1f3a", "#4f8f3a")
EXCERPT = 92  # characters of a sentence below the figure


def write_word_similarity(word: WordSimilarity, out: Path) -> None:
    """Write the similarities as a figure, or as a page with tables."""
    write_picture(draw_word(word), f"“{word.word}” in context", word_sections(word), out)


def word_sections(word: WordSimilarity) -> list[Section]:
    """Return the sections of a page about one word."""
    caption = (
        "Cosine similarity of the word's vectors between sentences after each layer. A word that is"
        " split into several tokens is represented by their mean. The dashed line is the mean"
        " similarity of the other words between the same sentences: the level that any two words"
        " reach."
    )
    similarity = [figure(draw_word(word), caption), table(table_headers(word), table_rows(word))]
    marked = [
        {"before": text[:start], "word": text[start:end], "after": text[end:], "pieces": pieces}
        for text, (start, end), pieces in zip(word.sentences, word.spans, word.pieces, strict=True)
    ]
    sentences = render("marked_sentences.html", {"sentences": marked})
    return [
        Section(title="Summary", pieces=[f"{word.sentence}.", soft(f"Model: {word.run}.")]),
        Section(title="Similarity by layer", pieces=similarity),
        Section(title="The sentences", pieces=[sentences]),
    ]


def named_pairs(word: WordSimilarity) -> list[tuple[int, int]]:
    """Return the pairs of sentences to show one by one: all, or none when there are many."""
    return word.pairs if len(word.pairs) <= MAX_PAIRS else []


def table_rows(word: WordSimilarity) -> Iterator[tuple[str, ...]]:
    """Yield the cells under `table_headers`, a row for each layer."""
    for layer, (mean, other) in enumerate(zip(word.means(), word.others, strict=True)):
        values = [word.of_pair(pair)[layer] for pair in word.pairs]
        shown = values if named_pairs(word) else [min(values), max(values)]
        yield (str(layer), *(f"{value:.2f}" for value in (*shown, mean, other)))


def table_headers(word: WordSimilarity) -> tuple[str, ...]:
    """Return the headers over `table_rows`."""
    named = [_pair_name(pair) for pair in named_pairs(word)] or ["lowest", "highest"]
    return ("layer", *named, "mean", "other words")


def _pair_name(pair: tuple[int, int]) -> str:
    return f"{pair[0] + 1}–{pair[1] + 1}"


@styled
def draw_word(word: WordSimilarity) -> Figure:
    """Draw similarity by layer, heat maps of some layers, and the sentences."""
    num = len(word.sentences)
    text = 0.17 * num + 0.1
    drawing = Figure(figsize=(WIDTH, 5.1 + text), layout="constrained")
    last = len(word.similarities) - 1
    layers = sorted({round(x) for x in np.linspace(0, last, min(last + 1, MAX_HEAT_MAPS))})
    grid = drawing.add_gridspec(3, len(layers), height_ratios=[3.0, 2.0, text])
    _draw_lines(drawing.add_subplot(grid[0, :]), word)
    for column, layer in enumerate(layers):
        _draw_map(drawing.add_subplot(grid[1, column]), word, layer)
    listed = drawing.add_subplot(grid[2, :])
    listed.axis("off")
    for index, line in enumerate(_excerpts(word)):
        listed.text(0, 1 - (index + 0.5) / num, line, va="center", transform=listed.transAxes)
    return drawing


def _draw_lines(axes: Axes, word: WordSimilarity) -> None:
    layers = range(len(word.similarities))
    last = layers[-1]
    axes.set_xlim(-0.03 * last, last * 1.03)
    named = named_pairs(word)
    ends = []
    for index, pair in enumerate(word.pairs):
        values = word.of_pair(pair)
        colour = COLOURS[index % len(COLOURS)] if named else FAINT
        axes.plot(layers, values, color=colour, linewidth=1.3 if named else 0.7, alpha=0.85)
        if named:
            ends.append(EndLabel(text=_pair_name(pair), colour=colour, x=last, y=values[-1]))
    means = word.means()
    if len(word.pairs) > 1:
        axes.plot(layers, means, color=INK, linewidth=2.4, marker="o", markersize=3.5)
        ends.append(EndLabel(text="mean", colour=INK, x=last, y=means[-1]))
    axes.plot(layers, word.others, color=FAINT, linestyle="--", linewidth=1.4)
    ends.append(EndLabel(text="other words", colour=FAINT, x=last, y=word.others[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("layer (0: embeddings)")
    axes.set_ylabel("cosine similarity")
    axes.set_title(f"“{word.word}” in {len(word.sentences)} sentences")
    write_end_labels(axes, ends, share=0.5)


def _draw_map(axes: Axes, word: WordSimilarity, layer: int) -> None:
    values = np.array(word.similarities[layer])
    num = len(values)
    axes.imshow(values, cmap="YlOrRd", vmin=min(0.0, float(values.min())), vmax=1.0)
    axes.grid(visible=False)
    axes.set_title("embeddings" if layer == 0 else f"layer {layer}")
    step = 1 if num <= MAX_NUMBERS else 2
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(range(0, num, step), [str(k + 1) for k in range(0, num, step)])
    if num <= MAX_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            label = axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6)
            label.set_color("white" if value > 0.6 else INK)


def _excerpts(word: WordSimilarity) -> Iterator[str]:
    """Yield every sentence on one line, cut around the word, which is in brackets."""
    for number, (text, (start, end)) in enumerate(zip(word.sentences, word.spans, strict=True), 1):
        room = max(10, (EXCERPT - (end - start)) // 2)
        before, after = " ".join(text[:start].split()), " ".join(text[end:].split())
        left = f"…{before[-room:]}" if len(before) > room else before
        right = f"{after[:room]}…" if len(after) > room else after
        gap = " " if text[start - 1 : start].isspace() else ""
        space = " " if text[end : end + 1].isspace() else ""
        yield f"{number}  {left}{gap}[{text[start:end]}]{space}{right}"
