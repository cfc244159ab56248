"""Rows of a token file: packed documents, and next-sentence pairs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.batches import ALL_ROWS, Ints, PackedBatch, Rows
from warmstart.data.token_file import Ids, SentenceFile
from warmstart.kernels.loss import IGNORE
from warmstart.seeds import bits_of, derive_seed, permutation, picks_of, shares_of

CHUNK = 1 << 16  # rows whose segments are chosen together to count tokens
SAMPLED_TOKENS = 1 << 20  # in which documents are counted
ROOM, SPARE = 1.5, 16  # for more documents in a batch than there usually are


def pack(rows: Tensor, bos: int, eos: int, num_documents: int = 0) -> PackedBatch:
    """Split rows of T + 1 running tokens into inputs and next-token targets.

    With no more than `num_documents` in all rows, the batch has their bounds.
    """
    B, T = rows.shape[0], rows.shape[1] - 1
    # bos opens a document only after eos: the two may be the same token.
    is_start = torch.zeros_like(rows, dtype=torch.bool)
    is_start[:, 1:] = (rows[:, 1:] == bos) & (rows[:, :-1] == eos)
    targets = rows[:, 1:].masked_fill(is_start[:, 1:], IGNORE)
    is_start = is_start[:, :T]
    index = torch.arange(T, device=rows.device).expand(B, T)
    starts = index.masked_fill(~is_start, 0).cummax(1).values
    documents, bounds = is_start.cumsum(1), document_bounds(is_start, num_documents)
    return PackedBatch(rows[:, :T], targets, documents, index - starts, bounds)


def document_bounds(is_start: Tensor, num_documents: int) -> Tensor | None:
    """Return where documents begin in rows laid side by side, and their end: (N + 1,).

    N is always `num_documents`, so that batches have the same shapes: the end is repeated. None:
    there are more. A row begins with a document, marked or not.
    """
    begins = is_start.clone()
    begins[:, 0] = True
    starts = begins.flatten().nonzero().flatten()
    missing = num_documents + 1 - len(starts)
    return F.pad(starts, (0, missing), value=begins.numel()).int() if missing > 0 else None


def room_for_documents(num_rows: int, per_row: float) -> int:
    """Return the documents to provide for in a batch, from the usual number of them in a row."""
    return SPARE + math.ceil(ROOM * num_rows * per_row)


def as_rows(batch: PackedBatch) -> Rows:
    """Return packed rows without their next-token targets."""
    if not batch.documents.any():  # one document per row
        return Rows(batch.ids.numpy())
    documents, positions = batch.documents.numpy(), batch.positions.numpy()
    return Rows(batch.ids.numpy(), documents=documents, positions=positions, bounds=batch.bounds)


@dataclass(frozen=True)
class RunningText:
    """Documents one after another, and the length of the rows to cut them into."""

    ids: Ids
    length: int  # T, tokens per row
    bos: int
    eos: int

    def pack_rows(self, starts: Sequence[int]) -> PackedBatch:
        """Return the full rows that start at these tokens."""
        rows = np.stack([self.ids[start : start + self.length + 1] for start in starts])
        num_documents = room_for_documents(len(rows), self.documents_per_row)
        return pack(torch.from_numpy(rows.astype(np.int64)), self.bos, self.eos, num_documents)

    @cached_property
    def documents_per_row(self) -> float:
        """Return the usual number of documents in a row, from a sample of the text."""
        sample = np.asarray(self.ids[:SAMPLED_TOKENS])
        num = np.count_nonzero((sample[1:] == self.bos) & (sample[:-1] == self.eos))
        return 1 + self.length * num / max(1, len(sample))


@lru_cache(maxsize=2)
def epoch_order(num_rows: int, num_offsets: int, seed: int, epoch: int) -> tuple[Ints, int]:
    """Return the order of an epoch's rows, and the offset of its cuts."""
    offset = derive_seed(seed, "offset", epoch) % num_offsets
    return permutation(num_rows, seed, "rows", epoch), offset


@dataclass
class PackedStream:
    """Running text in full rows, with a new order and a new offset each epoch."""

    text: RunningText
    rows_per_step: int
    rows_per_batch: int
    seed: int

    @property
    def num_rows(self) -> int:
        return max(1, (len(self.text.ids) - 1) // self.text.length - 1)  # the offset costs one

    def group(self, step: int, share: slice = ALL_ROWS) -> list[PackedBatch]:
        first = step * self.rows_per_step
        numbers = range(first, first + self.rows_per_step)[share]
        return [
            self.batch(numbers[i : i + self.rows_per_batch])
            for i in range(0, len(numbers), self.rows_per_batch)
        ]

    def batch(self, numbers: Iterable[int]) -> PackedBatch:
        """Return rows by their numbers in the whole run."""
        return self.text.pack_rows([self._start(number) for number in numbers])

    def rows(self, numbers: Ints) -> Rows:
        return as_rows(self.batch(numbers.tolist()))

    def _start(self, index: int) -> int:
        epoch, position = divmod(index, self.num_rows)
        room = len(self.text.ids) - 1 - self.num_rows * self.text.length
        order, offset = epoch_order(self.num_rows, max(0, room) + 1, self.seed, epoch)
        return int(order[position]) * self.text.length + offset


def read_packed_rows(
    text: RunningText, rows_per_batch: int, limit: int | None = None
) -> Iterator[PackedBatch]:
    """Yield running text once, in order; beyond `limit` tokens, evenly spaced rows of it."""
    ids, length = text.ids, text.length
    starts = np.arange(0, max(1, len(ids) - 1), length)
    if limit is not None and len(starts) * length > limit:
        num = max(1, limit // length)
        starts = starts[np.linspace(0, len(starts) - 2, num).astype(np.int64)]
    full = [start for start in starts.tolist() if start + length + 1 <= len(ids)]
    for i in range(0, len(full), rows_per_batch):
        yield text.pack_rows(full[i : i + rows_per_batch])
    for start in starts[len(full) :]:  # the last, shorter row
        yield pack(torch.from_numpy(ids[None, start:].astype(np.int64)), text.bos, text.eos)


@dataclass(frozen=True)
class Segments:
    """The two segments of some rows, as positions in the token file; all (B,)."""

    first: Ints
    first_size: Ints
    second: Ints
    second_size: Ints
    classes: Ints  # 0: positive, 1: negative


@dataclass
class NextSentencePairs:
    """Rows `bos A eos B eos`, with a new order and new cuts each epoch."""

    ids: Ids
    sentences: SentenceFile
    length: int  # T, at least 5
    bos: int
    eos: int
    pad: int
    seed: int

    @property
    def room(self) -> int:
        """Return the number of tokens in a row besides the special ones."""
        return self.length - 3

    @property
    def num_rows(self) -> int:
        """Return the number of rows in an epoch, which reads every part with two sentences once."""
        return int(self._last_rows[-1])

    @cached_property
    def _rows_per_part(self) -> Ints:
        """Return the number of rows that each part takes: (P,)."""
        sizes = self.sentences.part_ends - self.sentences.part_starts
        # A long part is cut elsewhere in each epoch, which takes one row more.
        return np.where(sizes <= self.room, 1, -(-sizes // self.room) + 1)

    @cached_property
    def _last_rows(self) -> Ints:
        """Return the number of rows up to and including each part: (P,)."""
        s = self.sentences
        has_pair = s.stop_sentences - s.first_sentences > 1
        return np.cumsum(np.where(has_pair, self._rows_per_part, 0))

    @cached_property
    def _document_tokens(self) -> tuple[Ints, Ints]:
        """Return where the document of each part starts and ends, with all its parts: (P,) each."""
        s = self.sentences
        _, parts, documents = np.unique(s.documents, return_index=True, return_inverse=True)
        starts = s.part_starts[parts] - 1  # including bos
        starts[0] = 0
        return starts[documents], np.append(starts[1:], len(self.ids))[documents]

    def rows(self, numbers: Ints) -> Rows:
        """Return rows by their numbers in the whole run."""
        chosen = self.segments(numbers)
        a, b = chosen.first_size[:, None], chosen.second_size[:, None]
        position = np.arange(self.length)[None]  # (1, T)
        is_second = position > a + 1
        offset = np.where(is_second, chosen.second[:, None] - a - 2, chosen.first[:, None] - 1)
        source = (offset + position).clip(0, len(self.ids) - 1)
        is_token = position <= a + b + 2
        text = self.ids[source].astype(np.int64)  # (B, T)
        text[:, 0] = self.bos
        text[(position == a + 1) | (position == a + b + 2)] = self.eos
        return Rows(
            np.where(is_token, text, self.pad),
            is_token=None if is_token.all() else is_token,
            segments=(is_second & is_token).astype(np.int64),
            classes=chosen.classes,
        )

    def segments(self, numbers: Ints) -> Segments:
        s, room = self.sentences, self.room
        bits = bits_of(derive_seed(self.seed, "pairs"), numbers, 3)
        part, start = self._starts(numbers)
        sentence = np.searchsorted(s.starts, start, "right") - 1  # the one that contains `start`
        # The last row of a part starts with the next sentence, or it would not reach the end.
        is_last = start + room >= s.part_ends[part]
        sentence += is_last & (s.starts[sentence] < start)
        sentence = np.minimum(sentence, s.stop_sentences[part] - 2)  # another one follows
        # The second segment gets at least a quarter of the row, if it is long enough.
        longest = room - max(1, room // 4)
        last = np.searchsorted(s.starts, s.starts[sentence] + longest, "right") - 1
        last = np.minimum(last, s.stop_sentences[part] - 1).clip(sentence + 1)
        cut = sentence + 1 + picks_of(bits[:, 0], last - sentence)
        first_size = np.minimum(s.starts[cut] - s.starts[sentence], longest)
        classes = (shares_of(bits[:, 1]) < 0.5).astype(np.int64)
        negative, negative_stop = self._negatives(part, bits[:, 2])
        second = np.where(classes == 0, s.starts[cut], negative)
        stop = np.where(classes == 0, s.part_ends[part], negative_stop)
        return Segments(
            s.starts[cut] - first_size,  # of a sentence that is too long, the end remains
            first_size,
            second,
            np.minimum(stop - second, room - first_size),
            classes,
        )

    def num_tokens(self, num_rows: int) -> int:
        """Count the tokens in the first rows of the run, without padding."""
        total = 0
        for start in range(0, num_rows, CHUNK):
            chosen = self.segments(np.arange(start, min(start + CHUNK, num_rows)))
            total += int((chosen.first_size + chosen.second_size + 3).sum())
        return total

    def _starts(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return each row's part, and the token where the row may start."""
        s, room = self.sentences, self.room
        epochs, positions = np.divmod(numbers, self.num_rows)
        rows, offsets = np.empty_like(positions), np.empty_like(positions)
        for epoch in np.unique(epochs):
            in_epoch = epochs == epoch
            order, offset = epoch_order(self.num_rows, room, self.seed, int(epoch))
            rows[in_epoch], offsets[in_epoch] = order[positions[in_epoch]], offset
        part = np.searchsorted(self._last_rows, rows, "right")
        start, size = s.part_starts[part], s.part_ends[part] - s.part_starts[part]
        index = rows - (self._last_rows[part] - self._rows_per_part[part])  # within the part
        return part, start + (index * room - offsets).clip(0, (size - room).clip(0))

    def _negatives(self, part: Ints, bits: NDArray[np.uint64]) -> tuple[Ints, Ints]:
        """Return the start of a sentence in another document, and where its part ends."""
        s = self.sentences
        start, stop = (edges[part] for edges in self._document_tokens)
        token = picks_of(bits, len(self.ids) - (stop - start))
        token += np.where(token >= start, stop - start, 0)  # skip the row's own document
        other = (np.searchsorted(s.part_starts, token + 1, "right") - 1).clip(0)
        token = token.clip(s.part_starts[other], s.part_ends[other] - 1)
        sentence = np.searchsorted(s.starts, token, "right") - 1
        # A second segment never begins with a part's first sentence, unless it is the only one.
        second = np.minimum(s.first_sentences[other] + 1, s.stop_sentences[other] - 1)
        return s.starts[np.maximum(sentence, second)], s.part_ends[other]
