"""One word in several sentences: how similar its vectors are, layer by layer."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from warmstart import progress
from warmstart.batching.truncation import truncate
from warmstart.data.corpus import read_texts
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.look.commands import LookWordConfig
from warmstart.report.html import Drawn, Table
from warmstart.report.style import FAINT, INK, WIDTH, EndLabel, save_image, styled, write_end_labels
from warmstart.settings.shared import Truncate
from warmstart.tasks.registry import load_transformer
from warmstart.tasks.text_model import TransformerModel
from warmstart.tasks.vectors import TextBatches, token_vectors
from warmstart.textfiles import file_or_stream
from warmstart.tokenization.tokenizer import SPACE_MARK, join_pieces
from warmstart.tokenization.words import find_spans

MAX_SENTENCES = 12  # that a table and a figure can show
BATCH_TOKENS = 8192  # padded, in one forward pass
MAX_PAIRS = 6  # named one by one in figure and tables
MAX_NUMBERS = 6  # sentences up to which the heat maps show numbers
MAX_HEAT_MAPS = 4
COLOURS = ("#d5521c", "#2166ac", "#2a9d8f", "#b8860b", "#5e1f3a", "#4f8f3a")
EXCERPT = 92  # characters of a sentence below the figure


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence, and its tokens."""

    sentence: str
    span: tuple[int, int]  # of the word in the sentence
    ids: list[int]  # of the sentence with special tokens, truncated to the model's length
    positions: list[int]  # of the word's tokens in it
    tokens: tuple[str, ...]  # of the word, readable


@dataclass(frozen=True, kw_only=True)
class WordSimilarity(Drawn):
    """Cosine similarities of one word's vectors between sentences."""

    run: str
    word: str
    sentences: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]  # of the word in each sentence
    tokens: tuple[tuple[str, ...], ...]  # that it is split into there
    similarities: tuple[tuple[tuple[float, ...], ...], ...]  # (layers, S, S); layer 0: embeddings
    others: tuple[float, ...]  # mean over other tokens of different sentences, by layer

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of sentences, counted from 0."""
        return list(combinations(range(len(self.sentences)), 2))

    def of_pair(self, pair: tuple[int, int]) -> list[float]:
        """Return the similarity between two sentences by layer."""
        return [layer[pair[0]][pair[1]] for layer in self.similarities]

    def means(self) -> list[float]:
        """Return the mean similarity over all pairs, by layer."""
        return [float(np.mean(row)) for row in zip(*map(self.of_pair, self.pairs), strict=True)]

    @property
    def sentence(self) -> str:
        """Return how the similarity changes from the embeddings to the last layer, no full stop."""
        means = self.means()
        return (
            f"“{self.word}” in different sentences: mean similarity {means[0]:.2f} at the "
            f"embeddings, {means[-1]:.2f} after the last layer (other words: {self.others[-1]:.2f})"
        )

    @property
    def named_pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of sentences to show one by one: all, or none when there are many."""
        return self.pairs if len(self.pairs) <= MAX_PAIRS else []

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "means": self.means()}

    def table(self) -> Table:
        """Return headers, and a row for each layer."""
        named = [_pair_name(pair) for pair in self.named_pairs] or ["lowest", "highest"]
        rows = []
        for layer, (mean, other) in enumerate(zip(self.means(), self.others, strict=True)):
            values = [self.of_pair(pair)[layer] for pair in self.pairs]
            shown = values if self.named_pairs else [min(values), max(values)]
            rows.append((str(layer), *(f"{value:.2f}" for value in (*shown, mean, other))))
        return ("layer", *named, "mean", "other words"), rows

    @styled
    def draw(self) -> Figure:
        """Draw similarity by layer, heat maps of some layers, and the sentences."""
        num = len(self.sentences)
        text = 0.17 * num + 0.1
        drawing = Figure(figsize=(WIDTH, 5.1 + text), layout="constrained")
        last = len(self.similarities) - 1
        layers = sorted({round(x) for x in np.linspace(0, last, min(last + 1, MAX_HEAT_MAPS))})
        grid = drawing.add_gridspec(3, len(layers), height_ratios=[3.0, 2.0, text])
        _draw_lines(drawing.add_subplot(grid[0, :]), self)
        for column, layer in enumerate(layers):
            _draw_map(drawing.add_subplot(grid[1, column]), self, layer)
        listed = drawing.add_subplot(grid[2, :])
        listed.axis("off")
        for index, line in enumerate(_excerpts(self)):
            listed.text(0, 1 - (index + 0.5) / num, line, va="center", transform=listed.transAxes)
        return drawing


def look_word(config: LookWordConfig, standard_input: BinaryIO | None = None) -> WordSimilarity:
    """Show how similar one word's vectors are between sentences, layer by layer."""
    texts = read_texts(file_or_stream(config.file, standard_input), config)
    model = load_transformer(config.run, config)
    read = model.text_reader(config.pieces)
    rule = config.truncate or model.truncate
    similarity = compare_word(model, config.word.strip(), map(read, texts), rule)
    if config.out is not None:
        save_image(similarity.draw(), Path(config.out))
    return similarity


def compare_word(
    predictor: TransformerModel, word: str, texts: Iterator[str], rule: Truncate
) -> WordSimilarity:
    """Compare a word's vectors between the sentences that contain it."""
    occurrences: list[Occurrence] = []
    num_texts = num_matches = 0
    for text in texts:
        num_texts += 1
        occurrence = _find_word(predictor, word, text, rule)
        if occurrence is not None:
            num_matches += 1
            if num_matches <= MAX_SENTENCES:
                occurrences.append(occurrence)
    if len(occurrences) < 2:
        where = "one text" if occurrences else "no text"
        raise WarmstartError(
            f"{word!r} occurs in {where} of {num_texts:,}; a comparison needs two or more"
        )
    if num_matches > len(occurrences):
        progress.say(
            f"{quantity(num_matches, 'text')} contain {word}: the first {MAX_SENTENCES} "
            "are compared"
        )
    similarities, others = _similarities(predictor, occurrences)
    return WordSimilarity(
        run=predictor.name,
        word=word,
        sentences=tuple(occurrence.sentence for occurrence in occurrences),
        spans=tuple(occurrence.span for occurrence in occurrences),
        tokens=tuple(occurrence.tokens for occurrence in occurrences),
        similarities=tuple(tuple(tuple(row) for row in layer.tolist()) for layer in similarities),
        others=tuple(others.tolist()),
    )


def _find_word(
    predictor: TransformerModel, word: str, text: str, rule: Truncate
) -> Occurrence | None:
    """Return the first occurrence of the word; None if there is none within the model's length."""
    tokenizer = predictor.tokenizer
    is_split = tokenizer.kind == "pieces"
    shown = unicodedata.normalize("NFC", join_pieces(text) if is_split else text)
    match = re.search(_pattern(word), shown, re.IGNORECASE)
    if match is None:
        return None
    whole = tokenizer.encode([text])[0]
    remaining = truncate(range(len(whole)), predictor.config.max_length - 2, rule)
    spans = find_spans(tokenizer, shown, whole)
    start, end = match.span()
    indexes = [index for index, (a, b) in enumerate(spans) if a < end and b > start]
    if not indexes or not set(indexes) <= set(remaining):
        return None
    ids = [*tokenizer.start, *(whole[index] for index in remaining), tokenizer.eos]
    positions = [len(tokenizer.start) + remaining.index(index) for index in indexes]
    pieces = tokenizer.pieces([whole[index] for index in indexes])
    readable = tuple(piece.replace(SPACE_MARK, "") or piece for piece in pieces)
    return Occurrence(shown, (start, end), ids, positions, readable)


def _pattern(word: str) -> str:
    """Return the pattern of a whole word; scripts without spaces have no word boundaries."""
    shown = unicodedata.normalize("NFC", word)
    has_boundary = [char.isalnum() and ord(char) < 0x2E80 for char in (shown[0], shown[-1])]
    before, after = (r"(?<!\w)", r"(?!\w)")
    return f"{before * has_boundary[0]}{re.escape(shown)}{after * has_boundary[1]}"


def _similarities(
    predictor: TransformerModel, occurrences: list[Occurrence]
) -> tuple[Tensor, Tensor]:
    """Return the word's cosines (layers, S, S), and the mean cosine of other tokens (layers,)."""
    backbone = predictor.backbone
    layers = range(backbone.config.depth + 1)
    ids = [occurrence.ids for occurrence in occurrences]
    batches = TextBatches(BATCH_TOKENS, predictor.tokenizer.pad, predictor.runtime)
    states = token_vectors(backbone, ids, batches, layers)
    pairs = list(zip(states, occurrences, strict=True))
    means = [state[:, word.positions].double().mean(1) for state, word in pairs]
    units = F.normalize(torch.stack(means, 1), dim=-1)  # (layers, S, D)
    sums, counts, first = [], [], len(predictor.tokenizer.start)
    for state, word in pairs:
        rest = [p for p in range(first, len(word.ids) - 1) if p not in word.positions]
        sums.append(F.normalize(state[:, rest].double(), dim=-1).sum(1))  # (layers, D)
        counts.append(len(rest))
    # The mean over pairs of tokens from different sentences, from the sum of each sentence.
    by_sentence = torch.stack(sums, 1)  # (layers, S, D)
    products = by_sentence.sum(1).square().sum(-1) - by_sentence.square().sum((1, 2))
    num_pairs = sum(counts) ** 2 - sum(count**2 for count in counts)  # each pair twice
    return units @ units.transpose(1, 2), products / max(1, num_pairs)


def _pair_name(pair: tuple[int, int]) -> str:
    return f"{pair[0] + 1}–{pair[1] + 1}"


def _draw_lines(axes: Axes, word: WordSimilarity) -> None:
    layers = range(len(word.similarities))
    last = layers[-1]
    axes.set_xlim(-0.03 * last, last * 1.03)
    named = word.named_pairs
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
