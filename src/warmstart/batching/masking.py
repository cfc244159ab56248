"""Mask tokens for a model to predict; the seed and a row's number determine which ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.batching.batches import ALL_ROWS, Flags, Ints, MaskedBatch, Rows
from warmstart.batching.packing import (
    NextSentencePairs,
    PackedStream,
    RunningText,
    as_rows,
    read_packed_rows,
)
from warmstart.data.token_file import SentenceFile, TokenFile
from warmstart.errors import WarmstartError
from warmstart.kernels.loss import IGNORE
from warmstart.seeds import Bits, bits_of, derive_seed, picks_of, shares_of
from warmstart.settings.training import Masking
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.tokenization.words import word_table

MASKED, RANDOM = 0.8, 0.1  # shares of the chosen tokens, as in BERT; the rest stay unchanged
NEVER = np.uint64(2**64 - 1)
OVERHANG = 4  # tokens of the last whole word that may exceed a row's share
FIXED_SEED = 0  # validation and evaluation always mask the same tokens and draw the same pairs


@dataclass(frozen=True)
class Corruption:
    """How tokens are masked."""

    vocab_size: int
    specials: tuple[int, ...]  # never masked, never drawn
    mask: int
    mask_rate: float  # share of the ordinary tokens that are masked
    seed: int
    begins: Flags | None = None  # (V,) ids that begin a word; None masks single tokens
    alone: Flags | None = None  # (V,) ids after which a word begins

    @cached_property
    def ordinary(self) -> Ints:
        """Return the ids that can be masked and drawn."""
        return np.setdiff1d(np.arange(self.vocab_size), [*self.specials, self.mask])

    @cached_property
    def _is_ordinary(self) -> Flags:
        return np.isin(np.arange(self.vocab_size), self.ordinary)

    def mask_tokens(self, rows: Rows, numbers: Ints) -> MaskedBatch:
        """Mask tokens in rows; `numbers` are the rows' numbers in the whole run."""
        ids = rows.ids
        can_mask = self._is_ordinary[ids]
        if rows.is_token is not None:
            can_mask &= rows.is_token
        T = ids.shape[1]
        P = max(1, round(self.mask_rate * T))  # the same for every row
        nums = np.clip(np.rint(self.mask_rate * can_mask.sum(1)).astype(np.int64), 1, P)  # (B,)
        keys = bits_of(derive_seed(self.seed, "hide"), numbers, T)
        if self.begins is not None:
            P = min(P + OVERHANG, T)
            arcs = shares_of(bits_of(derive_seed(self.seed, "arc"), numbers, 1))  # (B, 1)
            starts = self._word_starts(ids, can_mask)
            offsets = _word_offsets(starts, keys, can_mask, arcs)
            can_mask = _whole_words(offsets, starts, can_mask, nums, P)
            nums = can_mask.sum(1)
        positions, is_masked = _smallest(keys, can_mask, nums, P)  # (B, P)
        originals = np.take_along_axis(ids, positions, 1)
        new = self._replacements(originals, is_masked, numbers)
        corrupted = ids.copy()
        np.put_along_axis(corrupted, positions, new, 1)
        return MaskedBatch(
            torch.from_numpy(corrupted),
            torch.from_numpy(positions),
            torch.from_numpy(np.where(is_masked, originals, IGNORE)),
            _tensor(rows.classes),
            _tensor(rows.is_token),
            _tensor(rows.documents),
            _tensor(rows.positions),
            _tensor(rows.segments),
            rows.bounds,
        )

    def _replacements(self, originals: Ints, is_masked: Flags, numbers: Ints) -> Ints:
        """Return the mask, a random token or the original for each chosen token: (B, P)."""
        bits = bits_of(derive_seed(self.seed, "replace"), numbers, 2 * originals.shape[1])
        choice_bits, token_bits = np.split(bits, 2, axis=1)  # (B, P) each
        random = self.ordinary[picks_of(token_bits, len(self.ordinary))]
        choice = shares_of(choice_bits)
        new = np.where(choice < MASKED, self.mask, random)
        new = np.where(is_masked & (choice < MASKED + RANDOM), new, originals)
        return np.where(is_masked, new, new[:, :1])  # unused positions repeat the first

    def _word_starts(self, ids: Ints, can_mask: Flags) -> Ints:
        """Return the position of the first token of each token's word: (B, T)."""
        assert self.begins is not None
        assert self.alone is not None
        begins = self.begins[ids] | ~can_mask
        begins[:, 0] = True
        begins[:, 1:] |= self.alone[ids[:, :-1]] | ~can_mask[:, :-1]
        positions = np.arange(ids.shape[1])
        starts: Ints = np.maximum.accumulate(np.where(begins, positions, 0), axis=1)
        return starts


def _word_offsets(starts: Ints, keys: Bits, can_mask: Flags, arcs: NDArray[np.float64]) -> Ints:
    """Return where each token's word begins on a circle of the row's words in random order: (B, T).

    Offsets are counted in tokens, from where the row's arc begins.
    """
    # All tokens of a word share the key of its first.
    keys = np.where(can_mask, np.take_along_axis(keys, starts, 1), NEVER)
    order = np.argsort(keys, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(order.shape[1])[None], 1)
    num_tokens = np.maximum(1, can_mask.sum(1, keepdims=True))
    from_arc = np.take_along_axis(ranks, starts, 1) - (arcs * num_tokens).astype(np.int64)
    offsets: Ints = from_arc % num_tokens
    return offsets


def _whole_words(offsets: Ints, starts: Ints, can_mask: Flags, nums: Ints, most: int) -> Flags:
    """Return the tokens of the words that begin on an arc of `nums` tokens: (B, T).

    A word of any length is chosen with the same probability, unless more than `most` tokens of the
    row would be. At least one word is chosen; it is cut if it does not fit.
    """
    T = offsets.shape[1]
    after_first = offsets - np.where(can_mask, offsets, T).min(1, keepdims=True)
    fits = can_mask & (after_first + _word_sizes(starts) <= most)
    is_chosen = fits & ((after_first == 0) | (offsets < nums[:, None]))
    after_first += np.arange(T) - starts  # of each token
    is_cut = can_mask & (after_first < nums[:, None]) & ~is_chosen.any(1, keepdims=True)
    return is_chosen | is_cut


def _word_sizes(first: Ints) -> Ints:
    """Return the size of the word at each position, from the position of its first token."""
    B, T = first.shape
    words = (first + T * np.arange(B)[:, None]).ravel()
    return np.bincount(words, minlength=B * T)[words].reshape(B, T)


def _smallest(keys: Bits, can_mask: Flags, nums: Ints, width: int) -> tuple[Ints, Flags]:
    """Return the positions of each row's `nums` smallest keys, and which of `width` are used.

    Unused positions repeat the first.
    """
    keys = np.where(can_mask, keys, NEVER)
    positions = np.argpartition(keys, width - 1, axis=1)[:, :width]  # (B, P)
    ranked = np.argsort(np.take_along_axis(keys, positions, 1), axis=1)
    positions = np.take_along_axis(positions, ranked, 1)
    is_used = np.arange(width) < np.minimum(nums, can_mask.sum(1))[:, None]  # (B, P)
    return np.where(is_used, positions, positions[:, :1]), is_used


def _tensor(array: NDArray[np.generic] | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array)


@dataclass(frozen=True)
class MaskedStream:
    """Rows with masked tokens; a row's number in the run determines which."""

    source: PackedStream | NextSentencePairs
    corruption: Corruption
    rows_per_step: int
    rows_per_batch: int

    def group(self, step: int, share: slice = ALL_ROWS) -> list[MaskedBatch]:
        first = step * self.rows_per_step
        numbers = np.arange(first, first + self.rows_per_step)[share]
        return [
            self.corruption.mask_tokens(self.source.rows(part), part)
            for part in _parts(numbers, self.rows_per_batch)
        ]


def read_masked_rows(
    text: RunningText, rows_per_batch: int, corruption: Corruption, limit: int | None = None
) -> Iterator[MaskedBatch]:
    """Yield running text once, in order; beyond `limit` tokens, evenly spaced rows of it."""
    first = 0
    for batch in read_packed_rows(text, rows_per_batch, limit):
        rows = as_rows(batch)
        yield corruption.mask_tokens(rows, np.arange(first, first + len(rows.ids)))
        first += len(rows.ids)


def pairs_in_order(
    pairs: NextSentencePairs, rows_per_batch: int, corruption: Corruption, limit: int | None = None
) -> Iterator[MaskedBatch]:
    """Yield the pairs of one epoch; beyond `limit` tokens, evenly spaced ones."""
    numbers = np.arange(pairs.num_rows)
    if limit is not None and pairs.num_rows * pairs.length > limit:
        numbers = np.linspace(0, pairs.num_rows - 1, max(1, limit // pairs.length)).astype(np.int64)
    for part in _parts(numbers, rows_per_batch):
        yield corruption.mask_tokens(pairs.rows(part), part)


def _parts(numbers: Ints, size: int) -> Iterator[Ints]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]


def build_masking(tokenizer: Tokenizer, settings: Masking, seed: int) -> Corruption:
    """Return how tokens of this vocabulary are masked."""
    if tokenizer.mask is None:
        raise WarmstartError("the tokenizer has no mask token, which masking needs")
    specials = (tokenizer.bos, tokenizer.eos, tokenizer.pad, tokenizer.unk, tokenizer.mask)
    words = word_table(tokenizer) if settings.whole_words else None
    return Corruption(
        tokenizer.vocab_size,
        tuple(special for special in specials if special is not None),
        tokenizer.mask,
        settings.mask_rate,
        seed,
        words.begins if words else None,
        words.alone if words else None,
    )


def build_pairs(
    file: TokenFile, index: SentenceFile, length: int, tokenizer: Tokenizer, seed: int
) -> NextSentencePairs:
    """Return the next-sentence pairs of a text."""
    return NextSentencePairs(
        file.ids, index, length, tokenizer.bos, tokenizer.eos, tokenizer.pad, seed
    )


@dataclass(frozen=True)
class HeldOutRows:
    """Held-out text, masked the same way every time: pairs where there is an index, else rows."""

    file: TokenFile
    index: SentenceFile | None
    length: int
    tokenizer: Tokenizer
    masking: Corruption
    rows_per_batch: int

    def batches(self, max_tokens: int | None = None) -> Iterator[MaskedBatch]:
        """Yield the text; more than `max_tokens` is sampled in evenly spaced rows."""
        if self.index is not None:
            pairs = build_pairs(self.file, self.index, self.length, self.tokenizer, FIXED_SEED)
            return pairs_in_order(pairs, self.rows_per_batch, self.masking, max_tokens)
        text = RunningText(self.file.ids, self.length, self.tokenizer.bos, self.tokenizer.eos)
        return read_masked_rows(text, self.rows_per_batch, self.masking, max_tokens)
