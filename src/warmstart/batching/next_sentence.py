"""Pairs of segments: the second follows the first in its document, or comes from another one.

Which pair a row holds follows from the seed and the row's number. Knows nothing about text; cuts
between segments fall where sentences end.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from warmstart.batching.counters import bits_of, picks_of, shares_of
from warmstart.batching.loader import shuffled
from warmstart.batching.masking import Rows
from warmstart.data.sentence_file import SentenceFile
from warmstart.data.token_file import Ids
from warmstart.seeds import derive_seed

Ints = NDArray[np.int64]

CHUNK = 1 << 16  # rows planned together where only their sizes are wanted


@dataclass(frozen=True)
class Plan:
    """Where the segments of some rows stand in the text; all (B,)."""

    first: Ints
    first_size: Ints
    second: Ints
    second_size: Ints
    classes: Ints  # 0: the second follows the first, 1: it is from another document


@dataclass
class SentencePairs:
    """Rows `bos A eos B eos`, the text in a new order and newly cut each epoch."""

    ids: Ids
    sentences: SentenceFile
    length: int  # T, at least 5
    bos: int
    eos: int
    pad: int
    seed: int
    _orders: dict[int, tuple[Ints, int]] = field(default_factory=dict, init=False)

    @property
    def room(self) -> int:
        """Return the tokens a row has besides its special ones."""
        return self.length - 3

    @property
    def num_rows(self) -> int:
        """Return the rows of an epoch, in which every document of two sentences is read once."""
        return int(self._last_rows[-1])

    @cached_property
    def _last_rows(self) -> Ints:
        """Return the rows up to and with each document: (D,)."""
        s = self.sentences
        sizes = s.ends - s.begins
        # A long document is cut at another place each epoch, which takes one row more.
        num = np.where(sizes <= self.room, 1, -(-sizes // self.room) + 1)
        return np.cumsum(np.where(s.stops - s.firsts > 1, num, 0))

    @cached_property
    def _foreign(self) -> tuple[Ints, Ints]:
        """Return from where to where each document's owner has its tokens: (D,) each."""
        s = self.sentences
        _, parts, owners = np.unique(s.owners, return_index=True, return_inverse=True)
        begins = s.begins[parts] - 1  # with the token that opens it
        begins[0] = 0
        return begins[owners], np.append(begins[1:], len(self.ids))[owners]

    def rows(self, numbers: Ints) -> Rows:
        """Return rows by their numbers in the whole run."""
        plan = self.plan(numbers)
        a, b = plan.first_size[:, None], plan.second_size[:, None]
        place = np.arange(self.length)[None]  # (1, T)
        is_second = place > a + 1
        source = np.where(is_second, plan.second[:, None] - a - 2, plan.first[:, None] - 1) + place
        is_token = place <= a + b + 2
        text = self.ids[source.clip(0, len(self.ids) - 1)].astype(np.int64)  # (B, T)
        text[:, 0] = self.bos
        text[(place == a + 1) | (place == a + b + 2)] = self.eos
        return Rows(
            np.where(is_token, text, self.pad),
            is_token=None if is_token.all() else is_token,
            segments=(is_second & is_token).astype(np.int64),
            classes=plan.classes,
        )

    def plan(self, numbers: Ints) -> Plan:
        """Choose the segments of rows."""
        s, room = self.sentences, self.room
        bits = bits_of(derive_seed(self.seed, "pairs"), numbers, 3)
        document, start = self._starts(numbers)
        sentence = np.searchsorted(s.starts, start, "right") - 1  # the one that stands there
        # The last row starts with the next one: else it would never reach the document's end.
        is_last = start + room >= s.ends[document]
        sentence += is_last & (s.starts[sentence] < start)
        sentence = np.minimum(sentence, s.stops[document] - 2)  # another one follows
        # The second segment gets a quarter of the row at least, where there is so much of it.
        longest = room - max(1, room // 4)
        last = np.searchsorted(s.starts, s.starts[sentence] + longest, "right") - 1
        last = np.minimum(last, s.stops[document] - 1).clip(sentence + 1)
        cut = sentence + 1 + picks_of(bits[:, 0], last - sentence)
        first_size = np.minimum(s.starts[cut] - s.starts[sentence], longest)
        classes = (shares_of(bits[:, 1]) < 0.5).astype(np.int64)
        other, stop = self._elsewhere(document, bits[:, 2])
        second = np.where(classes == 0, s.starts[cut], other)
        stop = np.where(classes == 0, s.ends[document], stop)
        return Plan(
            s.starts[cut] - first_size,  # too long a sentence keeps its end
            first_size,
            second,
            np.minimum(stop - second, room - first_size),
            classes,
        )

    def num_tokens(self, num_rows: int) -> int:
        """Count the tokens in the first rows of the run, padding left out."""
        total = 0
        for start in range(0, num_rows, CHUNK):
            plan = self.plan(np.arange(start, min(start + CHUNK, num_rows)))
            total += int((plan.first_size + plan.second_size + 3).sum())
        return total

    def _starts(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return each row's document and where in it the row may start."""
        s, room = self.sentences, self.room
        epochs, places = np.divmod(numbers, self.num_rows)
        chunks, offsets = np.empty_like(places), np.empty_like(places)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            order, offset = self._epoch(int(epoch))
            chunks[here], offsets[here] = order[places[here]], offset
        document = np.searchsorted(self._last_rows, chunks, "right")
        last = self._last_rows[document]
        begin, size = s.begins[document], s.ends[document] - s.begins[document]
        # Counted from the document's last row, which is always there.
        num = np.where(size <= room, 1, -(-size // room) + 1)
        index = chunks - (last - num)
        return document, begin + (index * room - offsets).clip(0, (size - room).clip(0))

    def _epoch(self, epoch: int) -> tuple[Ints, int]:
        if epoch not in self._orders:
            offset = derive_seed(self.seed, "offset", epoch) % self.room
            order = shuffled(self.num_rows, self.seed, "rows", epoch)
            kept = {k: v for k, v in self._orders.items() if k == epoch - 1}
            self._orders = {**kept, epoch: (order, offset)}
        return self._orders[epoch]

    def _elsewhere(self, document: Ints, bits: NDArray[np.uint64]) -> tuple[Ints, Ints]:
        """Return the start of a sentence in another document, and where that document ends."""
        s = self.sentences
        begin, stop = (edges[document] for edges in self._foreign)
        place = picks_of(bits, len(self.ids) - (stop - begin))
        place += np.where(place >= begin, stop - begin, 0)  # over the document's own tokens
        other = (np.searchsorted(s.begins, place + 1, "right") - 1).clip(0)
        sentence = np.searchsorted(
            s.starts, place.clip(s.begins[other], s.ends[other] - 1), "right"
        )
        # A segment that follows never opens a document, so that one from elsewhere should not.
        opener = np.minimum(s.firsts[other] + 1, s.stops[other] - 1)
        return s.starts[np.maximum(sentence - 1, opener)], s.ends[other]
