"""Questions and passages as a model reads them, and the parts of a passage that it scores.

A row is a question and a passage. Passages that are too long are read in windows that overlap, each
with the whole question. A position that has read everything stands for "no answer": the first, or
in a causal model the last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.data.labelled import Dataset, WordSpan
from warmstart.model.backbone import Layout
from warmstart.model.models import SpanFinder
from warmstart.settings.model import ModelConfig
from warmstart.tasks.vectors import TextBatches, pack_for, padded_batches

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_EDGES = 30  # tokens that may begin a part, and that may end it, for each row
MOST_SPANS = 20  # parts kept for each question
UNSPACED = ((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x2E80, 0xABFF))  # scripts


@dataclass(frozen=True)
class SpanScores:
    """The best parts of a passage for a question."""

    passage: str
    spans: Ints  # (N, 2) first character, and the one after the last
    odds: Floats  # (N,) log odds of each over "no answer", best first

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        """Return the numbers, which must be finite."""
        return self.odds

    @property
    def best_odds(self) -> float:
        """Return the log odds of the best part; low where a passage has none."""
        return float(self.odds[0]) if len(self.odds) else -np.inf

    @property
    def best_span(self) -> WordSpan | None:
        """Return the best part; None: no answer is likelier."""
        return tuple(self.spans[0].tolist()) if self.best_odds > 0 else None

    @property
    def best_text(self) -> str:
        """Return the characters of the best part, whether or not it is likelier than no answer."""
        return self.text_of(*self.spans[0]) if len(self.spans) else ""

    def text_of(self, start: int, end: int) -> str:
        """Return the characters of a part."""
        return self.passage[start:end]

    def shift(self, threshold: float) -> "SpanScores":
        """Return the same parts with their log odds over a threshold."""
        return replace(self, odds=self.odds - threshold)

    def probabilities(self) -> Floats:
        """Return the probability of "no answer", then that of each part."""
        scores = np.array([0.0, *self.odds])
        shares = np.exp(scores - scores.max())
        return np.asarray(shares / shares.sum())


def is_inside_word(text: str, position: int) -> bool:
    """Tell whether a position lies between two letters of a word, or two digits of a number."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if before.isdigit() and after.isdigit():
        return True
    return before.isalpha() and after.isalpha() and not (_is_unspaced(before + after))


def _is_unspaced(letters: str) -> bool:
    return any(low <= ord(letter) <= high for letter in letters for low, high in UNSPACED)


def windows(ids: Sequence[int], start: int, max_length: int) -> Iterator[tuple[list[int], int]]:
    """Yield the rows in which a passage is read, and its first token in each of them.

    `ids` are a question, and from `start` on a passage and an end token.
    """
    head, passage = ids[:start], ids[start:-1]
    room = max_length - len(head) - 1
    if len(passage) <= room:
        yield list(ids), 0
        return
    for first in [*range(0, len(passage) - room, max(1, room // 2)), len(passage) - room]:
        yield [*head, *passage[first : first + room], ids[-1]], first


def tokens_of_answer(tokens: Sequence[WordSpan], start: int, end: int) -> WordSpan | None:
    """Return the first and the last token of an answer; None: no token is in it."""
    inside = [i for i, (first, last) in enumerate(tokens) if first < end and last > start]
    return (inside[0], inside[-1]) if inside else None


class QuestionRows:
    """Questions as rows that fit into a model, and which part of its passage each row has."""

    def __init__(self, data: Dataset, max_length: int) -> None:
        assert data.starts is not None
        self.ids: list[list[int]] = []
        self.starts: list[int] = []
        self.sources: list[tuple[int, int]] = []  # the question, and its first passage token
        for number, (ids, start) in enumerate(zip(data.ids, data.starts, strict=True)):
            for row, first in windows(ids, start, max_length):
                self.ids.append(row)
                self.starts.append(start)
                self.sources.append((number, first))

    def target(self, row: int, answer: WordSpan | None) -> list[int] | None:
        """Return where a row begins and ends an answer; None: it does not have all of it."""
        if answer is None:
            return None
        shift = self.starts[row] - self.sources[row][1]
        first, last = answer[0] + shift, answer[1] + shift
        return [first, last] if self.starts[row] <= first <= last < len(self.ids[row]) - 1 else None


@dataclass(frozen=True)
class Edges:
    """Where the tokens of a passage are, and which may begin or end a part."""

    tokens: Ints  # (tokens, 2)
    begins: NDArray[np.bool_]
    ends: NDArray[np.bool_]

    @classmethod
    def of(cls, passage: str, tokens: Sequence[WordSpan]) -> "Edges":
        """Return the edges of a passage; parts are whole words, where words have spaces."""
        spans = np.array(tokens, np.int64).reshape(-1, 2)
        has_text = [bool(passage[a:b].strip()) for a, b in tokens]
        is_edge = [[not is_inside_word(passage, at) for at in span] for span in tokens]
        begins, ends = np.array(is_edge, bool).reshape(-1, 2).T & np.array(has_text, bool)
        return cls(spans, begins, ends)


def none_positions(model: ModelConfig, is_token: Tensor) -> Tensor:
    """Return the position of each row that stands for "no answer": (B,)."""
    return is_token.sum(1) - 1 if model.is_causal else is_token.new_zeros(len(is_token)).long()


@torch.inference_mode()
def span_scores(model: SpanFinder, data: Dataset, batches: TextBatches) -> NDArray[Any]:
    """Return the best parts of the passage of every question."""
    rows = QuestionRows(data, model.config.max_length)
    edges = [Edges.of(*pair) for pair in zip(data.seconds or (), data.words, strict=True)]
    found: list[dict[WordSpan, float]] = [{} for _ in data.ids]
    packed = pack_for(model, sum(map(len, rows.ids)), batches.runtime, "backbone")
    with batches.runtime.precision():
        for numbers, batch in padded_batches(rows.ids, batches, rows.starts):
            layout = Layout(batch.is_token, segments=batch.segments, skips_padding=True)
            logits = packed(batch.ids, layout).cpu().double()
            none = none_positions(model.config, batch.is_token).cpu()
            for row, of_row, at in zip(numbers, logits.numpy(), none.tolist(), strict=True):
                question, first = rows.sources[row]
                inner = of_row[rows.starts[row] : len(rows.ids[row]) - 1]
                odds = _row_spans(inner, edges[question], first, model.longest)
                for span, score in odds:
                    score -= float(of_row[at].sum())
                    found[question][span] = max(score, found[question].get(span, -np.inf))
    threshold = float(model.threshold)
    return _collect(data.seconds or (), found, threshold)


def _row_spans(
    logits: Floats, edges: Edges, first: int, longest: int
) -> list[tuple[WordSpan, float]]:
    """Return the best parts that a row has, in characters, with the sum of their logits."""
    here = slice(first, first + len(logits))
    tokens, begins, ends = edges.tokens[here], edges.begins[here], edges.ends[here]
    starts = _best(logits[:, 0], begins)
    stops = _best(logits[:, 1], ends)
    sums = logits[starts, 0][:, None] + logits[stops, 1][None]  # (starts, stops)
    sizes = tokens[stops, 1][None] - tokens[starts, 0][:, None]
    is_legal = (starts[:, None] <= stops[None]) & (sizes > 0) & (sizes <= longest)
    at, to = np.nonzero(is_legal)
    best = np.argsort(-sums[at, to], kind="stable")[:MOST_SPANS]
    return [
        ((int(tokens[starts[at[k]], 0]), int(tokens[stops[to[k]], 1])), float(sums[at[k], to[k]]))
        for k in best
    ]


def _best(scores: Floats, is_legal: NDArray[np.bool_]) -> Ints:
    legal = np.flatnonzero(is_legal)
    return np.asarray(legal[np.argsort(-scores[legal], kind="stable")[:MOST_EDGES]])


def _collect(
    passages: Sequence[str], found: Sequence[dict[WordSpan, float]], threshold: float
) -> NDArray[Any]:
    outputs = np.empty(len(found), object)
    for number, (passage, spans) in enumerate(zip(passages, found, strict=True)):
        best = sorted(spans.items(), key=lambda item: (-item[1], item[0]))[:MOST_SPANS]
        places = np.array([span for span, _ in best], np.int64).reshape(-1, 2)
        odds = np.array([score for _, score in best], np.float64)
        outputs[number] = SpanScores(passage, places, odds - threshold)
    return outputs
