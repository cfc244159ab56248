"""What `look` shows of a model: masks, query-key products, positions, word vectors, searches."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

# Values of a cell: attention is allowed (of a token, or of padding, whose output nobody reads), or
# what forbids it.
ALLOWED, UNREAD, LATER, DOCUMENT, PADDING = range(5)

Array = NDArray[np.float64]
Status = Literal["kept", "ended", "dropped"]
Path = tuple[int, ...]  # token ids from the first to the last


@dataclass(frozen=True, kw_only=True)
class MaskPicture:
    """One mask: each row is a query, each column a key."""

    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    cells: NDArray[np.int8]  # (queries, keys)

    @property
    def is_allowed(self) -> NDArray[np.bool_]:
        """Tell which pairs the model's own mask allows: (queries, keys)."""
        return (self.cells == ALLOWED) | (self.cells == UNREAD)

    @property
    def sentence(self) -> str:
        """Return how many query-key pairs the mask allows, as a clause without a full stop."""
        num_allowed, num_unread = int(self.is_allowed.sum()), int((self.cells == UNREAD).sum())
        unread = f", {num_unread:,} of them for padding, whose output is not used"
        return (
            f"{self.title}: attention is allowed for {num_allowed:,} of {self.cells.size:,} "
            f"query-key pairs ({self.is_allowed.mean():.0%}){unread if num_unread else ''}"
        )


@dataclass(frozen=True, kw_only=True)
class HeadProducts:
    """One query against every key of a text, neuron by neuron."""

    run: str
    layer: int  # from 1, as users count
    head: int
    query: int  # position, from 1
    tokens: tuple[str, ...]
    q: Array  # (K,)
    k: Array  # (keys, K)
    divisor: float  # of the sums: the root of K
    weights: Array  # (keys,) after softmax; zero where masked

    @property
    def products(self) -> Array:
        """Return what each neuron adds to each score, before the division: (keys, K)."""
        return self.q * self.k

    @property
    def scores(self) -> Array:
        """Return the scores before softmax: (keys,)."""
        return self.products.sum(-1) / self.divisor

    @property
    def sentence(self) -> str:
        """Return which key wins and by which neuron, without a full stop."""
        key = int(self.weights.argmax())
        neuron = int(self.products[key].argmax())
        return (
            f"layer {self.layer}, head {self.head}: {self.tokens[self.query - 1]!r} attends most to"
            f" {self.tokens[key]!r} ({self.weights[key]:.0%}); neuron {neuron + 1} of {len(self.q)}"
            f" adds most to that score ({self.products[key, neuron] / self.divisor:+.2f} of"
            f" {self.scores[key]:+.2f})"
        )


@dataclass(frozen=True, kw_only=True)
class PositionSimilarity:
    """Similarity of two positions by the distance between them; 1 at distance 0."""

    distances: Array
    mean: Array
    low: Array  # over all pairs at that distance
    high: Array
    by_start: Mapping[int, Array] = field(default_factory=dict)  # from single positions onwards


@dataclass(frozen=True, kw_only=True)
class PerplexityByPosition:
    """How well a language model predicts the token after each position."""

    positions: Array  # middle of each range of positions
    perplexity: Array
    low: Array  # 95% interval over windows of text
    high: Array
    tokens: NDArray[np.int64]  # predicted in each range
    trained_length: int
    num_windows: int
    notes: tuple[str, ...]  # what a reader must know


@dataclass(frozen=True, kw_only=True)
class PositionView:
    """The position encoding of a model."""

    name: str  # preset or run
    kind: str  # sinusoidal, learned or rope
    vectors: Array  # (positions, columns) between -1 and 1
    similarity: PositionSimilarity
    note: str
    curve: PerplexityByPosition | None = None


@dataclass(frozen=True, kw_only=True)
class WordSimilarity:
    """Cosine similarities of one word's vectors between sentences."""

    run: str
    word: str
    sentences: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]  # of the word in each sentence
    pieces: tuple[tuple[str, ...], ...]  # the tokens it is split into there
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
        """Return the mean over all pairs by layer."""
        return [float(np.mean(row)) for row in zip(*map(self.of_pair, self.pairs), strict=True)]

    @property
    def sentence(self) -> str:
        """Return how the similarity changes from the embeddings to the last layer, no full stop."""
        means = self.means()
        return (
            f"“{self.word}” in different sentences: mean similarity {means[0]:.2f} at the "
            f"embeddings, {means[-1]:.2f} after the last layer (other words: {self.others[-1]:.2f})"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "means": self.means()}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A beginning of the target that one step considered."""

    path: Path
    piece: str  # its last token
    log_prob: float  # of all its tokens
    status: Status


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A whole target."""

    path: Path  # without the end token
    text: str
    log_prob: float  # of the target, its end token included
    score: float  # log_prob divided by the length penalty


@dataclass(frozen=True, kw_only=True)
class BeamTree:
    """Every step of one search."""

    source: str
    width: int
    steps: tuple[tuple[Candidate, ...], ...]  # the most probable candidate of each step first
    endings: tuple[Ending, ...]  # by score, best first

    @property
    def num_dropped(self) -> int:
        """Return how many candidates of all steps were dropped."""
        return sum(candidate.status == "dropped" for step in self.steps for candidate in step)

    def is_best(self, candidate: Candidate) -> bool:
        """Tell whether a candidate lies on the way to the best target."""
        best = self.endings[0].path
        is_end = candidate.status == "ended" and candidate.path[:-1] == best
        return is_end or (candidate.path == best[: len(candidate.path)])

    @property
    def sentence(self) -> str:
        """Return the best target and where greedy search would have left its way."""
        best = self.steps[: len(self.endings[0].path) + 1]
        lost = next((i for i, step in enumerate(best, 1) if not self.is_best(step[0])), None)
        greedy = f"; at step {lost} another path was the most probable" if lost else ""
        return (
            f"{len(self.steps)} steps, {self.num_dropped} paths dropped: “{self.endings[0].text}” "
            f"(score {self.endings[0].score:.4f}){greedy}"
        )
