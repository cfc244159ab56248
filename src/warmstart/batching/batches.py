"""Batches: their tensors, padded rows, and sentence pairs of similar length."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.kernels.loss import IGNORE
from warmstart.seeds import permutation

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
ALL_ROWS = slice(None)
AnyBatch = TypeVar("AnyBatch", bound="Batch")
# Batches are cut from pools of texts sorted by length: large pools mean less padding, many pools
# mean that a text meets others in every epoch.
MOST_BATCHES_PER_POOL = 32
LEAST_POOLS = 4
STEP = 4  # short lengths are rounded up to a multiple of this, to group pairs by length


@dataclass(frozen=True)
class Batch:
    """The base of all batches."""

    ids: Tensor  # (B, T)


@dataclass(frozen=True)
class PackedBatch(Batch):
    """Full rows of running text; a row may contain several documents."""

    targets: Tensor  # (B, T) the next token, IGNORE where a document ends
    documents: Tensor  # (B, T) number of each token's document within its row
    positions: Tensor  # (B, T) restarting at each document
    bounds: Tensor | None = None  # (N + 1,) where documents begin, in rows laid side by side


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Whole texts, padded at the right, with their targets."""

    is_token: Tensor  # (B, T) False where padded
    targets: Tensor  # (B,) of each text, (B, C) shares of classes, or (B, T) IGNORE where padded
    segments: Tensor  # (B, T) 1 in the second text of a pair, else 0


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """Rows with masked tokens, or next-sentence pairs with masked tokens; None: does not apply."""

    masked_positions: Tensor  # (B, P) the same P for every row
    targets: Tensor  # (B, P) the original tokens, IGNORE where a row has fewer than P
    classes: Tensor | None  # (B,) 0: a positive next-sentence pair, 1: a negative one
    is_token: Tensor | None  # (B, T) False where padded
    documents: Tensor | None  # (B, T) number of each token's document within its row
    positions: Tensor | None  # (B, T) restarting at each document
    segments: Tensor | None  # (B, T) 1 in the second segment, else 0
    bounds: Tensor | None = None  # (N + 1,) where documents begin, in rows laid side by side


@dataclass(frozen=True)
class Rows:
    """Rows before masking; None: does not apply."""

    ids: Ints  # (B, T)
    is_token: Flags | None = None  # (B, T) False where padded
    documents: Ints | None = None  # (B, T)
    positions: Ints | None = None  # (B, T)
    segments: Ints | None = None  # (B, T)
    classes: Ints | None = None  # (B,) 0: a positive next-sentence pair, 1: a negative one
    bounds: Tensor | None = None  # (N + 1,) where documents begin, in rows laid side by side


def move(batch: AnyBatch, device: torch.device) -> AnyBatch:
    """Return the batch on another device."""
    tensors = {field.name: getattr(batch, field.name) for field in fields(batch)}
    moved: dict[str, Any] = {
        name: tensor.to(device, non_blocking=True)
        for name, tensor in tensors.items()
        if tensor is not None
    }
    return replace(batch, **moved)


def pin(batch: AnyBatch) -> AnyBatch:
    """Return the batch in memory that a GPU copies from by itself."""
    if not torch.cuda.is_available():
        return batch
    tensors = {field.name: getattr(batch, field.name) for field in fields(batch)}
    pinned: dict[str, Any] = {
        name: tensor.pin_memory()
        for name, tensor in tensors.items()
        if tensor is not None and tensor.device.type == "cpu"
    }
    return replace(batch, **pinned)


def split(batch: AnyBatch, num_parts: int) -> list[AnyBatch]:
    """Return the batch in at most `num_parts` parts of about equally many rows.

    Bounds, which belong to the whole batch, are left out of its parts: masks replace them.
    """
    if num_parts == 1:
        return [batch]
    tensors = {field.name: getattr(batch, field.name) for field in fields(batch)}
    whole: dict[str, Any] = {"bounds": None} if tensors.pop("bounds", None) is not None else {}
    parts = {name: t.chunk(num_parts) for name, t in tensors.items() if t is not None}
    return [
        replace(batch, **dict(zip(parts, rows, strict=True)), **whole)
        for rows in zip(*parts.values(), strict=True)
    ]


def cut_to_budget(
    rows: Iterable[int], texts: Sequence[Sequence[int]], micro_tokens: int
) -> Iterator[list[int]]:
    """Sort rows by length and cut them into batches of at most `micro_tokens`, padding included."""
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: len(texts[row])):
        if batch and (len(batch) + 1) * len(texts[row]) > micro_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def pad_ids(
    texts: Sequence[Sequence[int] | NDArray[np.int32]], pad: int, length: int = 0
) -> tuple[Tensor, Tensor]:
    """Return ids (B, T) padded at the right, at least to `length`, and which are tokens."""
    lengths = np.array([len(text) for text in texts])
    is_token = np.arange(max(length, lengths.max())) < lengths[:, None]
    ids = np.full(is_token.shape, pad, dtype=np.int64)
    ids[is_token] = np.concatenate([np.asarray(text) for text in texts])
    return torch.from_numpy(ids), torch.from_numpy(is_token)


def pad_texts(
    texts: Sequence[Sequence[int]],
    targets: Sequence[Any],
    rows: Sequence[int],
    pad: int,
    starts: Sequence[int] | None = None,
    length: int = 0,
) -> LabelledBatch:
    """Return these rows as one batch, padded to the longest or to `length`.

    A target is a number, an array of numbers, or a list of integers with one for each token of its
    text. `starts` says where the second text of each pair begins.
    """
    ids, is_token = pad_ids([texts[row] for row in rows], pad, length)
    segments = torch.zeros_like(ids)
    if starts is not None:
        begins = torch.tensor([starts[row] for row in rows])
        segments = ((torch.arange(ids.shape[1]) >= begins[:, None]) & is_token).long()
    of_rows = [targets[row] for row in rows]
    return LabelledBatch(ids, is_token, _stack(of_rows, length), segments)


def _stack(targets: Sequence[Any], length: int) -> Tensor:
    """Return the targets of rows as one tensor; those of tokens are padded as the tokens are."""
    if isinstance(targets[0], np.ndarray):
        return torch.from_numpy(np.stack(targets))
    if isinstance(targets[0], Sequence):
        return pad_ids(targets, IGNORE, length)[0]
    return torch.tensor(targets)


@dataclass
class LabelledStream:
    """Labelled texts: every epoch contains each once, in batches of similar length."""

    texts: Sequence[Sequence[int]]  # ids with their special tokens
    targets: Sequence[Any]  # of each text a number, an array, or an integer for each token
    batch_size: int  # texts per optimizer step
    micro_tokens: int  # padded tokens per forward pass
    pad: int
    seed: int
    starts: Sequence[int] | None = None  # where the second text of each pair begins
    length_multiple: int = 1  # batches are padded to one, or to the longest text: fewer shapes
    _plans: dict[int, list[list[int]]] = field(default_factory=dict, init=False)

    @property
    def steps_per_epoch(self) -> int:
        return -(-len(self.texts) // self.batch_size)

    def group(self, step: int, share: slice = ALL_ROWS) -> list[LabelledBatch]:
        return [
            pad_texts(self.texts, self.targets, rows, self.pad, self.starts, self._length(rows))
            for rows in self.rows(step, share)
        ]

    def rows(self, step: int, share: slice = ALL_ROWS) -> list[list[int]]:
        """Return the numbers of the texts in each batch of one optimizer step."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch not in self._plans:
            self._plans = {epoch: self._plan(epoch)}
        rows = self._plans[epoch][position][share]
        return list(cut_to_budget(rows, self.texts, self.micro_tokens))

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.texts))

    def _length(self, rows: Sequence[int]) -> int:
        """Return the length to pad these texts to."""
        longest = max(len(self.texts[row]) for row in rows)
        return min(-(-longest // self.length_multiple) * self.length_multiple, self._longest)

    def _plan(self, epoch: int) -> list[list[int]]:
        """Return the rows of every step; the sizes of steps differ by one row at most."""
        order = permutation(len(self.texts), self.seed, "texts", epoch).tolist()
        num_steps = self.steps_per_epoch
        cuts = [step * len(order) // num_steps for step in range(num_steps + 1)]
        size = min(MOST_BATCHES_PER_POOL, max(1, num_steps // LEAST_POOLS))
        for first in range(0, num_steps, size):
            pool = slice(cuts[first], cuts[min(first + size, num_steps)])
            order[pool] = sorted(order[pool], key=lambda row: len(self.texts[row]))
        batches = [order[start:stop] for start, stop in pairwise(cuts)]
        return [batches[k] for k in permutation(num_steps, self.seed, "batches", epoch)]


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
        return round_lengths_up(np.maximum(self.sources.lengths, self.targets.lengths))


def round_lengths_up(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
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
            for part in cut_pairs_to_budget(rows, self._sizes, self.micro_tokens)
        ]

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        order = permutation(len(self.pairs), self.seed, "pairs", epoch)
        order = order[np.argsort(self._sizes[order], kind="stable")]
        batches = [order[start:stop] for start, stop in self._cuts]
        return [batches[k] for k in permutation(len(batches), self.seed, "batches", epoch)]


def _cut(sizes: NDArray[np.int64], budget: int) -> Iterator[tuple[int, int]]:
    """Cut sorted sizes into ranges with at most `budget` tokens on both sides together."""
    start = 0
    while start < len(sizes):
        stop = start + 1
        while stop < len(sizes) and 2 * sizes[stop] * (stop + 1 - start) <= budget:
            stop += 1
        yield start, stop
        start = stop


def cut_pairs_to_budget(
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
    lengths = round_lengths_up(longest) if is_rounded else longest
    source, is_token = pad_ids([pairs.sources[row] for row in rows], pad, lengths[0])
    target, is_target = pad_ids([pairs.targets[row] for row in rows], target_pad, lengths[1] + 1)
    targets = target[:, 1:].masked_fill(~is_target[:, 1:], IGNORE)
    return PairBatch(source, is_token, target[:, :-1], targets)
