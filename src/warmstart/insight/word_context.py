"""One word in several sentences: how alike its vectors are, layer by layer.

Knows nothing about how vectors are computed or drawn.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from warmstart import progress
from warmstart.batching.truncate import truncate
from warmstart.errors import WarmstartError
from warmstart.inference.vectors import backbone_of, token_vectors
from warmstart.predictor import Predictor
from warmstart.report.context import WordReport, draw_context, write_context_page
from warmstart.report.formats import counted
from warmstart.report.images import save_image
from warmstart.settings.training import Truncate
from warmstart.tokenization.pieces import SPACE_MARK, join_pieces
from warmstart.tokenization.spans import find_spans

MOST = 12  # sentences that a table and a figure can show


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence, as a model reads it."""

    sentence: str
    span: tuple[int, int]  # of the word in the sentence
    ids: list[int]  # of the sentence, special tokens included, cut to what the model reads
    places: list[int]  # of the word's tokens among them
    pieces: tuple[str, ...]  # these tokens, readable


def compare_word(
    predictor: Predictor, word: str, texts: Iterator[str], rule: Truncate, micro_tokens: int
) -> WordReport:
    """Compare a word's vectors between the sentences that hold it."""
    found: list[Occurrence] = []
    num_texts = num_with = 0
    for text in texts:
        num_texts += 1
        occurrence = _find(predictor, word, text, rule)
        num_with += occurrence is not None
        if occurrence is not None and len(found) < MOST:
            found.append(occurrence)
    if len(found) < 2:
        where = "one text" if found else "no text"
        raise WarmstartError(
            f"--word {word} stands in {where} of {num_texts:,}; to compare takes two or more"
        )
    if num_with > len(found):
        progress.say(f"{counted(num_with, 'text')} hold {word}: the first {MOST} are compared")
    similarities, others = _similarities(predictor, found, micro_tokens)
    return WordReport(
        run=str(predictor.source.path),
        word=word,
        sentences=tuple(one.sentence for one in found),
        spans=tuple(one.span for one in found),
        pieces=tuple(one.pieces for one in found),
        similarities=tuple(tuple(tuple(row) for row in layer.tolist()) for layer in similarities),
        others=tuple(others.tolist()),
    )


def write_word_report(report: WordReport, out: Path) -> None:
    """Write the comparison as a picture, or as a page with its tables."""
    if out.suffix.lower() == ".html":
        write_context_page(report, out)
    else:
        save_image(draw_context(report), out)


def _find(predictor: Predictor, word: str, text: str, rule: Truncate) -> Occurrence | None:
    """Return where a text first holds the word; None where not, or where the model is cut off."""
    tokenizer = predictor.tokenizer
    is_split = tokenizer.kind == "pieces"
    shown = unicodedata.normalize("NFC", join_pieces(text) if is_split else text)
    match = re.search(_pattern(word), shown, re.IGNORECASE)
    if match is None:
        return None
    whole = tokenizer.encode([text])[0]
    kept = truncate(range(len(whole)), predictor.source.model.max_length - 2, rule)
    spans = find_spans(tokenizer, shown, whole)
    start, end = match.span()
    inside = [place for place, (a, b) in enumerate(spans) if a < end and b > start]
    if not inside or not set(inside) <= set(kept):
        return None
    ids = [tokenizer.bos, *(whole[place] for place in kept), tokenizer.eos]
    places = [1 + kept.index(place) for place in inside]
    pieces = tokenizer.pieces([whole[place] for place in inside])
    readable = tuple(piece.replace(SPACE_MARK, "") or piece for piece in pieces)
    return Occurrence(shown, (start, end), ids, places, readable)


def _pattern(word: str) -> str:
    """Return the expression for a whole word; scripts without spaces have no edges to check."""
    shown = unicodedata.normalize("NFC", word)
    has_edges = [char.isalnum() and ord(char) < 0x2E80 for char in (shown[0], shown[-1])]
    before, after = (r"(?<!\w)", r"(?!\w)")
    return f"{before * has_edges[0]}{re.escape(shown)}{after * has_edges[1]}"


def _similarities(
    predictor: Predictor, found: list[Occurrence], micro_tokens: int
) -> tuple[Tensor, Tensor]:
    """Return cosines of the word (layers, S, S), and the mean of other tokens' (layers,)."""
    backbone = backbone_of(predictor.model)
    layers = range(backbone.config.depth + 1)
    ids = [one.ids for one in found]
    states = token_vectors(
        backbone, ids, layers, micro_tokens, predictor.tokenizer.pad, predictor.runtime
    )
    means = [s[:, one.places].double().mean(1) for s, one in zip(states, found, strict=True)]
    units = F.normalize(torch.stack(means, 1), dim=-1)  # (layers, S, D)
    sums, counts = [], []
    for state, one in zip(states, found, strict=True):
        rest = [p for p in range(1, len(one.ids) - 1) if p not in one.places]
        sums.append(F.normalize(state[:, rest].double(), dim=-1).sum(1))  # (layers, D)
        counts.append(len(rest))
    return units @ units.transpose(1, 2), _mean_between(torch.stack(sums, 1), counts)


def _mean_between(sums: Tensor, counts: list[int]) -> Tensor:
    """Return the mean product of unit vectors from different sentences, of which these are sums."""
    total = sums.sum(1)
    products = total.square().sum(-1) - sums.square().sum((1, 2))  # each pair twice
    num_pairs = sum(counts) ** 2 - sum(count**2 for count in counts)
    return products / max(1, num_pairs)
