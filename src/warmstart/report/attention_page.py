"""Attention maps -> one page to explore them: layers, heads, tokens, words.

The page holds its data, style and script, and fetches nothing. Knows nothing about models.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.files import write_whole
from warmstart.results.attention import TITLES, AttentionMap, Tokens, readable

FINE = 2_000_000  # weights up to which a page can afford two bytes each


@dataclass(frozen=True, kw_only=True)
class AttentionPage:
    """What stands above the pictures."""

    title: str
    facts: Sequence[str]  # short: model, layers, tokens
    is_joined: bool = False  # start with words rather than pieces


def write_attention_page(page: AttentionPage, maps: Sequence[AttentionMap], path: Path) -> Path:
    """Write the page, whole or not at all."""
    return write_whole(path, attention_html(page, maps).encode())


def attention_html(page: AttentionPage, maps: Sequence[AttentionMap]) -> str:
    """Return the whole page; of several maps the last is shown first."""
    is_fine = sum(found.weights.size for found in maps) <= FINE
    data = {
        "words": page.is_joined,
        "maps": [_map(found, np.uint16 if is_fine else np.uint8) for found in maps],
    }
    # `<` would end the script element if a text spelled out its closing tag.
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    assets = resources.files("warmstart.report")
    filled = {
        "title": escape(page.title),
        "facts": "".join(f"<li>{escape(fact)}</li>" for fact in page.facts),
        "css": assets.joinpath("attention.css").read_text(encoding="utf-8"),
        "script": assets.joinpath("attention.js").read_text(encoding="utf-8"),
        "data": packed,
    }
    text = assets.joinpath("attention.html").read_text(encoding="utf-8")
    parts = text.split("@@")  # name and text in turn: a value is never searched for names
    return "".join(filled[part] if place % 2 else part for place, part in enumerate(parts))


def _map(found: AttentionMap, kind: type[np.unsignedinteger[Any]]) -> dict[str, Any]:
    layers, heads, _, _ = found.weights.shape
    return {
        "part": found.part,
        "title": TITLES[found.part],
        "layers": layers,
        "heads": heads,
        "queries": _tokens(found.queries),
        "keys": _tokens(found.keys),
        "bytes": np.dtype(kind).itemsize,
        "weights": quantised(found.weights, kind),
        "pieces": _figures(found),
        "words": _figures(found.joined()),
    }


def quantised(weights: NDArray[np.float32], kind: type[np.unsignedinteger[Any]] = np.uint16) -> str:
    """Return square roots of the weights as whole numbers in base64: small weights stay fine."""
    most = np.iinfo(kind).max
    roots = np.sqrt(np.clip(weights, 0.0, 1.0)) * most
    little = np.dtype(kind).newbyteorder("<")
    return base64.b64encode(np.rint(roots).astype(little).tobytes()).decode()


def _tokens(tokens: Tokens) -> dict[str, Any]:
    joined = tokens.joined()
    return {
        "pieces": [readable(piece) for piece in tokens.pieces],
        "words": list(joined.pieces),
        "starts": tokens.starts,
    }


def _figures(found: AttentionMap) -> dict[str, Any]:
    arrays = {
        "entropy": found.entropy(),
        "distance": found.distance(),
        "itself": found.share_at("itself"),
        "previous": found.share_at("previous"),
        "first": found.share_at("first"),
    }
    return {
        name: None if array is None else np.round(array, 4).tolist()
        for name, array in arrays.items()
    }
