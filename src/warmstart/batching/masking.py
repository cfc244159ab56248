"""Hide tokens for a model to restore: which ones follows from the seed and the row's number.

Knows nothing about text: tables over the vocabulary say which ids may be hidden or drawn.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.batching.batch import MaskedBatch
from warmstart.batching.counters import Bits, bits_of, picks_of, shares_of
from warmstart.kernels.loss import IGNORE
from warmstart.seeds import derive_seed

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MASKED, RANDOM = 0.8, 0.1  # shares of the hidden tokens, as in BERT; the rest stay as they are
NEVER = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Rows:
    """Whole rows, nothing hidden yet; what is None is absent."""

    ids: Ints  # (B, T)
    is_token: Flags | None = None  # (B, T) False where padded
    documents: Ints | None = None  # (B, T)
    positions: Ints | None = None  # (B, T)
    segments: Ints | None = None  # (B, T)
    classes: Ints | None = None  # (B,) 0: the second segment follows the first, 1: it does not


@dataclass(frozen=True)
class Corruption:
    """How tokens are hidden."""

    vocab_size: int
    specials: tuple[int, ...]  # never hidden, never drawn
    mask: int
    share: float  # of the tokens that may be hidden
    seed: int
    begins: Flags | None = None  # (V,) ids that begin a word; None hides single tokens
    alone: Flags | None = None  # (V,) ids behind which a word begins

    @cached_property
    def ordinary(self) -> Ints:
        """Return the ids that may be hidden and drawn."""
        return np.setdiff1d(np.arange(self.vocab_size), [*self.specials, self.mask])

    @cached_property
    def _is_ordinary(self) -> Flags:
        return np.isin(np.arange(self.vocab_size), self.ordinary)

    def hide(self, rows: Rows, numbers: Ints) -> MaskedBatch:
        """Hide tokens in rows; `numbers` are those of the rows in the whole run."""
        ids = rows.ids
        may = self._is_ordinary[ids]
        if rows.is_token is not None:
            may &= rows.is_token
        most = max(1, round(self.share * ids.shape[1]))  # P, the same for every row
        wanted = np.clip(np.rint(self.share * may.sum(1)).astype(np.int64), 1, most)  # (B,)
        keys = bits_of(derive_seed(self.seed, "hide"), numbers, ids.shape[1])
        if self.begins is not None:
            keys, may = self._by_words(ids, keys, may, wanted)
        places, is_hidden = _smallest(keys, may, wanted, most)  # (B, P)
        originals = np.take_along_axis(ids, places, 1)
        targets = np.where(is_hidden, originals, IGNORE)
        corrupted = self._corrupted(ids, places, is_hidden, originals, numbers)
        return MaskedBatch(
            torch.from_numpy(corrupted),
            torch.from_numpy(places),
            torch.from_numpy(targets),
            _tensor(rows.classes),
            _tensor(rows.is_token),
            _tensor(rows.documents),
            _tensor(rows.positions),
            _tensor(rows.segments),
        )

    def _corrupted(
        self, ids: Ints, places: Ints, is_hidden: Flags, originals: Ints, numbers: Ints
    ) -> Ints:
        """Put the mask, a random token or nothing new in the place of hidden ones."""
        bits = bits_of(derive_seed(self.seed, "replace"), numbers, 2 * places.shape[1])
        fate, drawn = np.split(bits, 2, axis=1)  # (B, P) each
        others = self.ordinary[picks_of(drawn, len(self.ordinary))]
        share = shares_of(fate)
        new = np.where(share < MASKED, self.mask, others)
        new = np.where(is_hidden & (share < MASKED + RANDOM), new, originals)
        new = np.where(is_hidden, new, new[:, :1])  # unused places repeat the first
        corrupted = ids.copy()
        np.put_along_axis(corrupted, places, new, 1)
        return corrupted

    def _by_words(self, ids: Ints, keys: Bits, may: Flags, wanted: Ints) -> tuple[Bits, Flags]:
        """Return keys and candidates such that the smallest keys make up whole words."""
        assert self.begins is not None
        assert self.alone is not None
        T = ids.shape[1]
        begins = self.begins[ids] | ~may
        begins[:, 0] = True
        begins[:, 1:] |= self.alone[ids[:, :-1]] | ~may[:, :-1]
        first = np.maximum.accumulate(np.where(begins, np.arange(T), 0), axis=1)  # of its word
        keys = np.where(may, np.take_along_axis(keys, first, 1), NEVER)  # one key for a word
        order = np.argsort(keys, axis=1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(T)[None], 1)
        sizes = _run_lengths(begins, first)
        ends = np.take_along_axis(ranks, first, 1) + sizes  # hidden tokens up to its word's end
        fits = may & (ends <= wanted[:, None])
        fills = may & (sizes == 1)  # words of one token fill up what is left
        cut = may & (ranks < wanted[:, None]) & ~(fits | fills).any(1, keepdims=True)
        return np.where(fits, keys >> np.uint64(1), keys | np.uint64(1 << 63)), fits | fills | cut


def _run_lengths(begins: Flags, first: Ints) -> Ints:
    """Return the length of the run that each place belongs to."""
    B, T = begins.shape
    runs = (first + T * np.arange(B)[:, None]).ravel()
    return np.bincount(runs, minlength=B * T)[runs].reshape(B, T)


def _smallest(keys: Bits, may: Flags, wanted: Ints, most: int) -> tuple[Ints, Flags]:
    """Return where the `wanted` smallest keys of each row are; unused places repeat the first."""
    keys = np.where(may, keys, NEVER)
    places = np.argpartition(keys, most - 1, axis=1)[:, :most]
    ranked = np.argsort(np.take_along_axis(keys, places, 1), axis=1)
    places = np.take_along_axis(places, ranked, 1)
    num = np.minimum(wanted, may.sum(1))
    is_taken = np.arange(most) < num[:, None]  # (B, P)
    return np.where(is_taken, places, places[:, :1]), is_taken


def _tensor(array: NDArray[np.generic] | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array)
