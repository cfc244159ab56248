"""One word in several sentences: how similar its vectors are, layer by layer."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from warmstart import progress
from warmstart.batching.encode import truncate
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.inference.transformer_model import TransformerModel
from warmstart.inference.vectors import TextBatches, token_vectors
from warmstart.results.model_views import WordSimilarity
from warmstart.settings.shared import Truncate
from warmstart.tokenization.tokenizer import SPACE_MARK, join_pieces
from warmstart.tokenization.words import find_spans

MAX_SENTENCES = 12  # that a table and a figure can show


@dataclass(frozen=True)
class Occurrence:
    """A word in a sentence, and its tokens."""

    sentence: str
    span: tuple[int, int]  # of the word in the sentence
    ids: list[int]  # of the sentence with special tokens, truncated to the model's length
    positions: list[int]  # of the word's tokens in it
    pieces: tuple[str, ...]  # of the word, readable


def compare_word(
    predictor: TransformerModel, word: str, texts: Iterator[str], rule: Truncate, micro_tokens: int
) -> WordSimilarity:
    """Compare a word's vectors between the sentences that contain it."""
    occurrences: list[Occurrence] = []
    num_texts = num_matches = 0
    for text in texts:
        num_texts += 1
        occurrence = _find(predictor, word, text, rule)
        if occurrence is not None:
            num_matches += 1
            if num_matches <= MAX_SENTENCES:
                occurrences.append(occurrence)
    if len(occurrences) < 2:
        where = "one text" if occurrences else "no text"
        raise WarmstartError(
            f"--word {word} occurs in {where} of {num_texts:,}; a comparison needs two or more"
        )
    if num_matches > len(occurrences):
        progress.say(
            f"{counted(num_matches, 'text')} contain {word}: the first {MAX_SENTENCES} are compared"
        )
    similarities, others = _similarities(predictor, occurrences, micro_tokens)
    return WordSimilarity(
        run=predictor.name,
        word=word,
        sentences=tuple(occurrence.sentence for occurrence in occurrences),
        spans=tuple(occurrence.span for occurrence in occurrences),
        pieces=tuple(occurrence.pieces for occurrence in occurrences),
        similarities=tuple(tuple(tuple(row) for row in layer.tolist()) for layer in similarities),
        others=tuple(others.tolist()),
    )


def _find(predictor: TransformerModel, word: str, text: str, rule: Truncate) -> Occurrence | None:
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
    predictor: TransformerModel, occurrences: list[Occurrence], micro_tokens: int
) -> tuple[Tensor, Tensor]:
    """Return the word's cosines (layers, S, S), and the mean cosine of other tokens (layers,)."""
    backbone = predictor.backbone
    layers = range(backbone.config.depth + 1)
    ids = [occurrence.ids for occurrence in occurrences]
    batches = TextBatches(micro_tokens, predictor.tokenizer.pad, predictor.runtime)
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
