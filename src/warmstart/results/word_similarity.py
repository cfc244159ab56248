"""How similar the vectors of one word are between sentences, layer by layer."""

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np


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
