"""One page to explore attention weights: layers, heads, tokens, words. It needs no network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.files import write_whole
from warmstart.report.html import render
from warmstart.results.attention_weights import AttentionMap, Tokens, encode_weights, readable

MAX_FINE = 2_000_000  # weights up to which each takes two bytes, not one


@dataclass(frozen=True, kw_only=True)
class AttentionPage:
    """The head of the page, and how it opens."""

    title: str
    facts: Sequence[str]  # short: model, layers, tokens
    is_joined: bool = False  # opens with words instead of pieces


def write_attention_page(page: AttentionPage, maps: Sequence[AttentionMap], path: Path) -> Path:
    """Write the page, whole or not at all."""
    return write_whole(path, attention_html(page, maps).encode())


def attention_html(page: AttentionPage, maps: Sequence[AttentionMap]) -> str:
    """Return the whole page; of several maps it opens with the last."""
    is_fine = sum(attention.weights.size for attention in maps) <= MAX_FINE
    dtype = np.uint16 if is_fine else np.uint8
    data = {"words": page.is_joined, "maps": [_map_data(attention, dtype) for attention in maps]}
    return render("attention.html", {"page": page, "data": data})


def _map_data(attention: AttentionMap, dtype: type[np.unsignedinteger[Any]]) -> dict[str, Any]:
    layers, heads, _, _ = attention.weights.shape
    return {
        "part": attention.part,
        "title": attention.title,
        "causal": attention.is_causal,
        "layers": layers,
        "heads": heads,
        "queries": _token_data(attention.queries),
        "keys": _token_data(attention.keys),
        "bytes": np.dtype(dtype).itemsize,
        "weights": encode_weights(attention.weights, dtype),
        "pieces": _statistics(attention),
        "words": _statistics(attention.joined()),
    }


def _token_data(tokens: Tokens) -> dict[str, Any]:
    return {
        "pieces": [readable(piece) for piece in tokens.pieces],
        "words": list(tokens.joined().pieces),
        "starts": tokens.starts,
    }


def _statistics(attention: AttentionMap) -> dict[str, Any]:
    arrays = {
        "entropy": attention.entropy(),
        "distance": attention.distance(),
        "itself": attention.share_at("itself"),
        "previous": attention.share_at("previous"),
        "first": attention.share_at("first"),
    }
    return {
        name: None if array is None else np.round(array, 4).tolist()
        for name, array in arrays.items()
    }
