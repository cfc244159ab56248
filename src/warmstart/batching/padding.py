"""Labelled texts in padded batches of similar length, within a budget of tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.batch import ALL_ROWS, LabelledBatch
from warmstart.kernels.loss import IGNORE
from warmstart.seeds import shuffled

# Batches are cut from pools of texts sorted by length: large pools mean less padding, many pools
# mean that a text meets others in every epoch.
MOST_BATCHES_PER_POOL = 32
LEAST_POOLS = 4


def budgeted(
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


def padded(
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

    A target is a number, or a list of integers with one for each token of its text. `starts` says
    where the second text of each pair begins.
    """
    ids, is_token = padded([texts[row] for row in rows], pad, length)
    segments = torch.zeros_like(ids)
    if starts is not None:
        begins = torch.tensor([starts[row] for row in rows])
        segments = ((torch.arange(ids.shape[1]) >= begins[:, None]) & is_token).long()
    of_rows = [targets[row] for row in rows]
    is_by_token = isinstance(of_rows[0], Sequence)
    stacked = padded(of_rows, IGNORE, length)[0] if is_by_token else torch.tensor(of_rows)
    return LabelledBatch(ids, is_token, stacked, segments)


@dataclass
class LabelledStream:
    """Labelled texts: every epoch contains each once, in batches of similar length."""

    texts: Sequence[Sequence[int]]  # ids with their special tokens
    targets: Sequence[Any]  # a number for each text, or a list with one integer for each token
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
        return list(budgeted(self._plans[epoch][position][share], self.texts, self.micro_tokens))

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.texts))

    def _length(self, rows: Sequence[int]) -> int:
        """Return the length to pad these texts to."""
        longest = max(len(self.texts[row]) for row in rows)
        return min(-(-longest // self.length_multiple) * self.length_multiple, self._longest)

    def _plan(self, epoch: int) -> list[list[int]]:
        """Return the rows of every step; their numbers differ by one at most."""
        order = shuffled(len(self.texts), self.seed, "texts", epoch).tolist()
        num_steps = self.steps_per_epoch
        cuts = [step * len(order) // num_steps for step in range(num_steps + 1)]
        size = min(MOST_BATCHES_PER_POOL, max(1, num_steps // LEAST_POOLS))
        for first in range(0, num_steps, size):
            pool = slice(cuts[first], cuts[min(first + size, num_steps)])
            order[pool] = sorted(order[pool], key=lambda row: len(self.texts[row]))
        batches = [order[start:stop] for start, stop in pairwise(cuts)]
        return [batches[k] for k in shuffled(num_steps, self.seed, "batches", epoch)]
