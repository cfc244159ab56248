from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch

from warmstart.batching.batches import ALL_ROWS, PackedBatch
from warmstart.training.step import PrefetchedStream, prefetch


@dataclass
class Counting:
    """A stream that knows which steps were asked of it."""

    asked: list[int] = field(default_factory=list)

    def group(self, step: int, share: slice = ALL_ROWS) -> Sequence[PackedBatch]:
        self.asked.append(step)
        if step == 7:
            raise ValueError("no such step")
        rows = torch.full((2, 3), step)[share]
        return [PackedBatch(rows, rows, rows, rows)]


def test_every_step_gets_its_own_group_whatever_the_order() -> None:
    stream = PrefetchedStream(Counting())
    for step in (0, 1, 2, 2, 5, 6, 0):
        (batch,) = stream.group(step)
        assert batch.ids.unique().tolist() == [step]
    (batch,) = stream.group(1, slice(1, None, 2))
    assert batch.ids.tolist() == [[1, 1, 1]]


def test_in_order_every_group_is_prepared_once() -> None:
    counting = Counting()
    stream = PrefetchedStream(counting)
    for step in range(4):
        stream.group(step)
    stream.pool.shutdown()
    assert counting.asked == [0, 1, 2, 3, 4]


def test_a_fault_in_the_background_is_raised_at_its_step() -> None:
    stream = PrefetchedStream(Counting())
    stream.group(6)
    with pytest.raises(ValueError, match="no such step"):
        stream.group(7)


def test_a_cpu_prepares_nothing_early() -> None:
    counting = Counting()
    assert prefetch(counting, torch.device("cpu")) is counting
