"""Attention weights of every layer and head with their tokens, statistics of each head, JSON."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Part = Literal["self", "encoder", "decoder", "cross"]
Array = NDArray[np.float64]
TITLES: dict[Part, str] = {
    "self": "Self-attention: each token reads the text",
    "encoder": "Encoder self-attention: each source token reads the source",
    "decoder": "Decoder self-attention: each target token reads the target",
    "cross": "Cross-attention: each target token reads the source to predict the next one",
}
BYTES = re.compile(r"(?:<(?:0x)?[0-9A-F]{2}>)+")  # byte tokens within a word
HEX = re.compile(r"<(?:0x)?|>")


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Pieces in order, and the number of the word that each belongs to."""

    pieces: tuple[str, ...]  # a space is written U+2581
    words: tuple[int, ...]  # rising from 0

    def __post_init__(self) -> None:
        steps = [after - before for before, after in pairwise((-1, *self.words))]
        if len(self.words) != len(self.pieces) or not {0, 1}.issuperset(steps):
            raise ValueError(f"{len(self.pieces)} pieces do not fit the words {self.words[:9]}")

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def starts(self) -> list[int]:
        """Return the index of the first piece of each word."""
        return [i for i, word in enumerate(self.words) if i == 0 or word != self.words[i - 1]]

    def by_word(self) -> "Tokens":
        """Return the words as tokens."""
        bounds = [*self.starts, len(self)]
        words = tuple(join_word(self.pieces[start:stop]) for start, stop in pairwise(bounds))
        return Tokens(pieces=words, words=tuple(range(len(words))))


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """Attention weights of every layer and head on one text, or between two."""

    part: Part
    queries: Tokens
    keys: Tokens
    weights: NDArray[np.float32]  # (layers, heads, queries, keys); each row sums to one
    is_causal: bool = False  # later keys are masked

    @property
    def title(self) -> str:
        """Say what each query reads."""
        title = TITLES[self.part]
        return f"{title} up to itself" if self.is_causal else title

    @property
    def is_masked(self) -> NDArray[np.bool_]:
        """Tell which weights are zero because the key is masked: (queries, keys)."""
        shape = (len(self.queries), len(self.keys))
        return np.triu(np.ones(shape, bool), 1) if self.is_causal else np.zeros(shape, bool)

    def __post_init__(self) -> None:
        expected = (len(self.queries), len(self.keys))
        if self.weights.shape[2:] != expected:
            raise ValueError(f"weights {self.weights.shape} do not fit {expected} tokens")

    def by_word(self) -> "AttentionMap":
        """Return attention between words: summed over key pieces, averaged over query pieces."""
        by_key = np.add.reduceat(self.weights, self.keys.starts, axis=3)
        summed = np.add.reduceat(by_key, self.queries.starts, axis=2)
        sizes = np.bincount(self.queries.words).astype(np.float32)
        return AttentionMap(
            part=self.part,
            queries=self.queries.by_word(),
            keys=self.keys.by_word(),
            weights=(summed / sizes[:, None]).astype(np.float32),
            is_causal=self.is_causal,
        )

    def entropy(self) -> Array:
        """Return the mean entropy of each head's rows in bits: (layers, heads)."""
        p = self.weights.astype(np.float64)
        return np.asarray(-(p * np.log2(np.where(p > 0, p, 1.0))).sum(-1).mean(-1))

    def distance(self) -> Array | None:
        """Return each head's mean distance from query to key, in tokens; None across two texts."""
        if self.part == "cross":
            return None
        positions = np.arange(len(self.keys))
        distances = np.abs(positions[:, None] - positions)
        return np.asarray((self.weights.astype(np.float64) * distances).sum(-1).mean(-1))

    def share_at(self, key: Literal["itself", "previous", "first"]) -> Array | None:
        """Return the mean weight that each head's queries give one key; None across two texts."""
        if self.part == "cross":
            return None
        T = len(self.queries)
        rows = np.arange(T)
        columns = {"itself": rows, "previous": np.maximum(rows - 1, 0), "first": 0 * rows}[key]
        weights = self.weights[:, :, rows, columns].astype(np.float64)
        if key == "previous":
            weights = weights[:, :, 1:] if T > 1 else 0 * weights
        return np.asarray(weights.mean(-1))

    def received(self) -> Array:
        """Return the mean weight each key receives in the last layer.

        The mean is over the heads, and over the queries that see the key.
        """
        weights = self.weights[-1].astype(np.float64).mean(0)  # (queries, keys)
        return np.asarray(weights.sum(0) / (~self.is_masked).sum(0))


def encode_weights(
    weights: NDArray[np.float32], dtype: type[np.unsignedinteger[Any]] = np.uint16
) -> str:
    """Return square roots of the weights as integers in base64; the root keeps small ones apart."""
    roots = np.sqrt(np.clip(weights, 0.0, 1.0)) * np.iinfo(dtype).max
    little_endian = np.dtype(dtype).newbyteorder("<")
    return base64.b64encode(np.rint(roots).astype(little_endian).tobytes()).decode()


def join_word(pieces: Sequence[str]) -> str:
    """Return the word that pieces make up, without its space."""
    whole = "".join(piece.removeprefix("##") if i else piece for i, piece in enumerate(pieces))
    if len(pieces) > 1:
        whole = BYTES.sub(
            lambda run: bytes.fromhex(HEX.sub("", run[0])).decode("utf-8", "replace"), whole
        )
    return readable(whole)


def readable(piece: str) -> str:
    """Return a piece as a label: without its leading space, line breaks and lone spaces visible."""
    plain = piece.replace("▁", " ")
    text = plain.strip(" ")
    return text.replace("\n", "⏎").replace("\t", "⇥") or ("␣" if plain else "∅")
