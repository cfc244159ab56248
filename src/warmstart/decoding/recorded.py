"""One-token steps over buffers that stay in place: recorded once on a GPU, then replayed.

A GPU is told of the few hundred kernels of a step in one go, and no shape is ever new to its
libraries. Knows nothing about how the next token is chosen.
"""

import torch
from torch import Tensor

from warmstart.decoding.packed import PackedDecoder
from warmstart.decoding.sample import log_probs
from warmstart.model.cache import Memory, StaticCache


class RecordedStep:
    """A step function whose sources keep their place.

    A source that is finished is computed along with the others until half have left; those that go
    on then move together, and the step is recorded anew.
    """

    def __init__(self, decoder: PackedDecoder, memory: Memory, width: int) -> None:
        self.decoder, self.memory, self.width = decoder, memory, width
        self.cache = StaticCache(len(decoder.blocks), width, memory)
        device = memory.layers[0].keys.device
        self.tokens = torch.zeros(len(self.cache) * width, dtype=torch.long, device=device)
        self.places = torch.arange(len(self.cache), device=device)  # of sources that go on
        self.num_steps = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._found: Tensor | None = None  # what the recorded step writes

    def __call__(self, prefixes: Tensor, parents: Tensor) -> Tensor:
        """Return log-probabilities (N, V) of the next token of every row."""
        device, W = self.tokens.device, self.width
        if self.num_steps:
            self._descend(parents.to(device))
        if self.num_steps == self.cache.room:
            self._move(self.places, 2 * self.cache.room)
        self.tokens.view(-1, W)[self.places] = prefixes[:, -1].to(device).view(-1, W)
        logs = self._compute() if device.type == "cpu" else self._replay()
        self.num_steps += 1
        if len(self.places) == len(self.cache):
            return logs
        return logs.view(len(self.cache), W, -1)[self.places].flatten(0, 1)

    def _descend(self, parents: Tensor) -> None:
        """Go on from these rows; sources of which no row goes on have left."""
        W = self.width
        self.places = self.places[parents[::W] // W]
        if 2 * len(self.places) <= len(self.cache):
            self._move(self.places, self.cache.room)
        self.cache.descend(self.places, (parents % W).view(-1, W))

    def _move(self, places: Tensor, room: int) -> None:
        """Give these sources buffers of their own."""
        self.cache = self.cache.moved(places, room)
        self.memory = self.memory.select(places)
        self.places = torch.arange(len(places), device=places.device)
        self.tokens = self.tokens.new_zeros(len(places) * self.width)
        self._graph = self._found = None

    def _compute(self) -> Tensor:
        """Take one step over the buffers."""
        with torch.autocast(self.tokens.device.type, enabled=False):
            self.cache.begin()
            logits = self.decoder(self.tokens, self.memory, self.cache)
            self.cache.place.add_(1)
            return log_probs(logits)

    def _replay(self) -> Tensor:
        if self._graph is None:
            self._record()
        assert self._graph is not None
        assert self._found is not None
        self._graph.replay()
        return self._found

    def _record(self) -> None:
        """Record a step; one is taken first, so that libraries have set up what they need."""
        before = self.cache.place.clone()
        aside, here = torch.cuda.Stream(), torch.cuda.current_stream()
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            self._compute()
        here.wait_stream(aside)
        self.cache.place.copy_(before)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._found = self._compute()
