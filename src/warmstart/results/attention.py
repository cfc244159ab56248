"""Attention weights with the names of what looks and what is looked at, and figures on each head.

Never imports torch; knows nothing about models or tokenizers.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Part = Literal["self", "encoder", "decoder", "cross"]
Array = NDArray[np.float64]

TITLES: dict[Part, str] = {
    "self": "Self-attention",
    "encoder": "Encoder: the source looks at itself",
    "decoder": "Decoder: the target looks back",
    "cross": "Cross-attention: the target looks at the source",
}


BYTES = re.compile(r"(?:<(?:0x)?[0-9A-F]{2}>)+")  # bytes of characters in pieces
HEX = re.compile(r"<(?:0x)?|>")


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Pieces in order, and the number of the word each belongs to."""

    pieces: tuple[str, ...]  # a space is written U+2581
    words: tuple[int, ...]  # rising from 0

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.pieces)

    @property
    def starts(self) -> list[int]:
        """Return where each word begins."""
        return [i for i, word in enumerate(self.words) if i == 0 or word != self.words[i - 1]]

    def joined(self) -> "Tokens":
        """Return the words as tokens."""
        bounds = [*self.starts, len(self)]
        words = tuple(join_word(self.pieces[start:stop]) for start, stop in pairwise(bounds))
        return Tokens(pieces=words, words=tuple(range(len(words))))


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """Who looks at whom, in every layer and head."""

    part: Part
    queries: Tokens  # what looks
    keys: Tokens  # what is looked at
    weights: NDArray[np.float32]  # (layers, heads, queries, keys); each row sums to one

    def __post_init__(self) -> None:
        expected = (len(self.queries), len(self.keys))
        if self.weights.shape[2:] != expected:
            raise ValueError(f"weights {self.weights.shape} do not fit {expected} tokens")

    def joined(self) -> "AttentionMap":
        """Return attention between words: summed over what is looked at, mean over what looks."""
        by_key = np.add.reduceat(self.weights, self.keys.starts, axis=3)
        summed = np.add.reduceat(by_key, self.queries.starts, axis=2)
        sizes = np.bincount(self.queries.words).astype(np.float32)
        return AttentionMap(
            part=self.part,
            queries=self.queries.joined(),
            keys=self.keys.joined(),
            weights=(summed / sizes[:, None]).astype(np.float32),
        )

    def entropy(self) -> Array:
        """Return the mean entropy of each head's rows in bits: (layers, heads)."""
        shares = self.weights.astype(np.float64)
        surprise = -np.log2(np.where(shares > 0, shares, 1.0))
        return np.asarray((shares * surprise).sum(-1).mean(-1))

    def distance(self) -> Array | None:
        """Return how far each head looks on average, in tokens; None across two texts."""
        if self.part == "cross":
            return None
        places = np.arange(len(self.keys))
        apart = np.abs(places[:, None] - places)
        return np.asarray((self.weights.astype(np.float64) * apart).sum(-1).mean(-1))

    def share_at(self, place: Literal["itself", "previous", "first"]) -> Array | None:
        """Return the share of each head's attention on one place; None across two texts."""
        if self.part == "cross":
            return None
        T = len(self.queries)
        rows = np.arange(T)
        columns = {"itself": rows, "previous": np.maximum(rows - 1, 0), "first": 0 * rows}[place]
        picked = self.weights[:, :, rows, columns].astype(np.float64)
        if place == "previous":
            picked = picked[:, :, 1:] if T > 1 else 0 * picked
        return np.asarray(picked.mean(-1))


def join_word(pieces: Sequence[str]) -> str:
    """Return the word that pieces make up, without its space."""
    whole = "".join(piece.removeprefix("##") if i else piece for i, piece in enumerate(pieces))
    if len(pieces) > 1:
        whole = BYTES.sub(
            lambda run: bytes.fromhex(HEX.sub("", run[0])).decode("utf-8", "replace"), whole
        )
    return readable(whole)


def readable(piece: str) -> str:
    """Return a piece as a label: no space in front, line ends and lone spaces visible."""
    plain = piece.replace("▁", " ")
    text = plain.strip(" ")
    return text.replace("\n", "⏎").replace("\t", "⇥") or ("␣" if plain else "∅")
