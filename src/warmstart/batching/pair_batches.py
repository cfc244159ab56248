"""Sentence pairs in batches of similar lengths, within a budget of tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.batch import ALL_ROWS, Batch
from warmstart.batching.padding import padded
from warmstart.kernels.loss import IGNORE
from warmstart.seeds import shuffled

STEP = 4  # short lengths are rounded up to a multiple of this, to group pairs by length


@dataclass(frozen=True)
class PairBatch(Batch):
    """Sentences (`ids`) and their translations, each padded at the right."""

    is_token: Tensor  # (B, S) False where the source is padded
    inputs: Tensor  # (B, T) the translation without its last token
    targets: Tensor  # (B, T) the next token at each of them, IGNORE where padded


class TokenLists:
    """Many token lists in one array."""

    def __init__(self, texts: Iterable[Sequence[int]]) -> None:
        parts = [np.asarray(text, dtype=np.int32) for text in texts]
        self.lengths = np.array([len(part) for part in parts], dtype=np.int64)
        self._ids = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
        self._starts = np.cumsum(self.lengths) - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        start = self._starts[row]
        return self._ids[start : start + self.lengths[row]]


@dataclass(frozen=True)
class EncodedPairs:
    """Token ids of both sides, each between its first and last special token."""

    sources: TokenLists
    targets: TokenLists

    def __len__(self) -> int:
        return len(self.sources)

    def sizes(self) -> NDArray[np.int64]:
        """Return the length of each pair's longer side, rounded up."""
        return rounded(np.maximum(self.sources.lengths, self.targets.lengths))


def rounded(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Round lengths up, longer ones more coarsely: by an eighth of them at most."""
    steps = np.maximum(STEP, 2.0 ** np.ceil(np.log2(lengths)) / 8).astype(np.int64)
    return -(-lengths // steps) * steps


@dataclass
class PairStream:
    """Every epoch contains each pair once, in batches of similar lengths, in a new order.

    Every epoch has the same number of steps, because the cuts depend on the sorted lengths alone.
    """

    pairs: EncodedPairs
    batch_tokens: int  # source and target tokens per optimizer step, padding included
    micro_tokens: int  # the same per forward pass
    pad: int
    target_pad: int
    seed: int
    is_rounded: bool = False  # each side is padded to a rounded length: fewer shapes
    _sizes: NDArray[np.int64] = field(init=False)
    _cuts: list[tuple[int, int]] = field(init=False)
    _plans: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._sizes = self.pairs.sizes()
        self._cuts = list(_cut(np.sort(self._sizes), self.batch_tokens))

    @property
    def steps_per_epoch(self) -> int:
        return len(self._cuts)

    def group(self, step: int, share: slice = ALL_ROWS) -> list[PairBatch]:
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch not in self._plans:
            self._plans = {epoch: self._plan(epoch)}
        rows = self._plans[epoch][position][share]
        return [
            pad_pairs(self.pairs, part, self.pad, self.target_pad, self.is_rounded)
            for part in budgeted_pairs(rows, self._sizes, self.micro_tokens)
        ]

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        order = shuffled(len(self.pairs), self.seed, "pairs", epoch)
        order = order[np.argsort(self._sizes[order], kind="stable")]
        batches = [order[start:stop] for start, stop in self._cuts]
        return [batches[k] for k in shuffled(len(batches), self.seed, "batches", epoch)]


def _cut(sizes: NDArray[np.int64], budget: int) -> Iterator[tuple[int, int]]:
    """Cut sorted sizes into ranges with at most `budget` tokens on both sides together."""
    start = 0
    while start < len(sizes):
        stop = start + 1
        while stop < len(sizes) and 2 * sizes[stop] * (stop + 1 - start) <= budget:
            stop += 1
        yield start, stop
        start = stop


def budgeted_pairs(
    rows: Sequence[int] | NDArray[np.int64], sizes: NDArray[np.int64], budget: int
) -> Iterator[NDArray[np.int64]]:
    """Sort rows by length and cut them into batches within the budget."""
    ordered = np.asarray(rows)[np.argsort(sizes[rows], kind="stable")]
    for start, stop in _cut(sizes[ordered], budget):
        yield ordered[start:stop]


def pad_pairs(
    pairs: EncodedPairs,
    rows: Sequence[int] | NDArray[np.int64],
    pad: int,
    target_pad: int,
    is_rounded: bool = False,
) -> PairBatch:
    """Return these rows as one batch, each side padded to its longest, or to that rounded up."""
    longest = np.array([lists.lengths[rows].max() for lists in (pairs.sources, pairs.targets)])
    longest[1] -= 1  # the last token of a translation is only predicted
    lengths = rounded(longest) if is_rounded else longest
    source, is_token = padded([pairs.sources[row] for row in rows], pad, lengths[0])
    target, is_target = padded([pairs.targets[row] for row in rows], target_pad, lengths[1] + 1)
    targets = target[:, 1:].masked_fill(~is_target[:, 1:], IGNORE)
    return PairBatch(source, is_token, target[:, :-1], targets)
