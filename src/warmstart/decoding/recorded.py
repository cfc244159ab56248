"""One-token steps over buffers at fixed addresses: recorded once on a GPU, then replayed.

A GPU receives the few hundred kernels of a step in one launch, and its libraries never meet a new
shape.
"""

import torch
from torch import Tensor

from warmstart.decoding.packed import PackedDecoder
from warmstart.decoding.sample import to_log_probs
from warmstart.kernels.caches import SourceKeysValues, StaticCache
from warmstart.kernels.graphs import recording


class RecordedStep:
    """A step function whose sources keep their slots in the buffers.

    A finished source is computed along with the others until half have left; the remaining ones
    then move to smaller buffers, and the step is recorded again.
    """

    def __init__(
        self,
        decoder: PackedDecoder,
        width: int,
        held: Tensor,  # (depth, 2, B, H, T, K) keys and values of the positions before the first
        source: SourceKeysValues | None = None,  # of a translator
    ) -> None:
        self.decoder, self.width, self.source = decoder, width, source
        self.cache, device = StaticCache(width, held), held.device
        self.tokens = torch.zeros(len(self.cache) * width, dtype=torch.long, device=device)
        self.active = torch.arange(len(self.cache), device=device)  # slots of unfinished sources
        self.num_positions = held.shape[4]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._log_probs: Tensor | None = None  # what the recorded step writes

    def __call__(self, prefixes: Tensor, parents: Tensor) -> Tensor:
        """Return log-probabilities (N, V) of the next token of every row."""
        device, W = self.tokens.device, self.width
        if self.num_positions:
            self._continue(parents.to(device))
        if self.num_positions == self.cache.capacity:
            self._move(self.active, 2 * self.cache.capacity)
        self.tokens.view(-1, W)[self.active] = prefixes[:, -1].to(device).view(-1, W)
        log_probs = self._compute() if device.type == "cpu" else self._replay()
        self.num_positions += 1
        if len(self.active) == len(self.cache):
            return log_probs
        return log_probs.view(len(self.cache), W, -1)[self.active].flatten(0, 1)

    def _continue(self, parents: Tensor) -> None:
        """Continue these rows; sources that no row continues have finished."""
        W = self.width
        self.active = self.active[parents[::W] // W]
        if 2 * len(self.active) <= len(self.cache):
            self._move(self.active, self.cache.capacity)
        self.cache.continue_rows(self.active, (parents % W).view(-1, W))

    def _move(self, slots: Tensor, capacity: int) -> None:
        """Give the sources in these slots new buffers."""
        self.cache = self.cache.moved(slots, capacity)
        self.source = None if self.source is None else self.source.select(slots)
        self.active = torch.arange(len(slots), device=slots.device)
        self.tokens = self.tokens.new_zeros(len(slots) * self.width)
        self._graph = self._log_probs = None

    def _compute(self) -> Tensor:
        """Take one step over the buffers."""
        with torch.autocast(self.tokens.device.type, enabled=False):
            self.cache.begin()
            logits = self.decoder(self.tokens, self.source, self.cache)
            self.cache.position.add_(1)
            return to_log_probs(logits)

    def _replay(self) -> Tensor:
        if self._graph is None:
            self._record()
        assert self._graph is not None
        assert self._log_probs is not None
        self._graph.replay()
        return self._log_probs

    def _record(self) -> None:
        """Record a step, after one step that lets libraries set up what they need.

        That one takes no stream of its own: there are few, and another thread may be recording
        on the same one.
        """
        position = self.cache.position.clone()
        self._compute()
        self.cache.position.copy_(position)
        self._graph = torch.cuda.CUDAGraph()
        with recording(self._graph):
            self._log_probs = self._compute()
