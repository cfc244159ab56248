"""Prepare the batches of the next step in the background while a GPU computes the current one."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from warmstart.batching.batch import ALL_ROWS, pin
from warmstart.training.step import Stream


class PrefetchedStream:
    """The groups of another stream, in pinned memory, which a GPU copies without being waited for.

    A group depends on its step alone, so preparing it early changes nothing.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.pool = ThreadPoolExecutor(1, "prefetch")
        self.next: tuple[int, slice, Future[Sequence[Any]]] | None = None

    def group(self, step: int, share: slice = ALL_ROWS) -> Sequence[Any]:
        """Return the batches of a step, and begin to prepare the next one."""
        is_ready = self.next is not None and self.next[:2] == (step, share)
        group = self.next[2].result() if self.next and is_ready else self._prepare(step, share)
        self.next = step + 1, share, self.pool.submit(self._prepare, step + 1, share)
        return group

    def _prepare(self, step: int, share: slice) -> Sequence[Any]:
        return [pin(batch) for batch in self.stream.group(step, share)]


def prefetched(stream: Stream, device: torch.device) -> Stream:
    """Return the stream as a device reads it best: a CPU has no time to prepare anything early."""
    return PrefetchedStream(stream) if device.type == "cuda" else stream
