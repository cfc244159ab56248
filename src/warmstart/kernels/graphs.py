"""Work recorded as CUDA graphs: small models spend most of a step on launching kernels.

A recording computes what the plain path computes, kernel by kernel, so the results are the same.
"""

import gc
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

MAX_RECORDINGS = 128  # shapes of batches; rarer ones are computed without a recording
_recording = Lock()  # beginning a recording waits for the device, which would break another


@contextmanager
def record_graph(graph: torch.cuda.CUDAGraph, pool: Any = None) -> Iterator[None]:
    """Record what the block launches; other threads may use the device meanwhile."""
    captured = torch.cuda.graph(graph, pool, capture_error_mode="thread_local")
    with _recording, _without_collection(), captured:
        yield


@contextmanager
def _without_collection() -> Iterator[None]:
    """Put off garbage collection: freeing an older recording would break the one being made."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class _Recording:
    """One shape of batch: the graph, what it reads, and the loss that it writes."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    loss: Tensor


class RecordedGradients:
    """The gradients of a loss: computed plainly for a new shape, recorded when the shape recurs."""

    def __init__(self, parameters: Iterable[nn.Parameter], loss_of: Callable[..., Tensor]) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        self.loss_of = loss_of
        self.num_replayed = 0  # calls that neither computed plainly nor recorded
        self._recordings: dict[Hashable, _Recording | None] = {}
        self._pool: Any = None  # handle of the memory that all recordings share
        self._grads: list[Tensor | None] = []  # that all recordings write to

    def __call__(self, *inputs: Tensor, kind: Hashable = None) -> Tensor:
        """Set the gradient of every parameter; return the loss, which the next call may change.

        Inputs of another kind are another recording, though their shapes may be the same.
        """
        shapes = kind, *(tensor.shape for tensor in inputs)
        is_new = shapes not in self._recordings
        if is_new or inputs[0].device.type != "cuda":
            if len(self._recordings) < MAX_RECORDINGS:
                self._recordings[shapes] = None
            return self._compute(inputs)
        known = self._recordings[shapes]
        self.num_replayed += known is not None
        recorded = known or self._record(inputs)
        self._recordings[shapes] = recorded
        for own, given in zip(recorded.inputs, inputs, strict=True):
            own.copy_(given, non_blocking=True)
        recorded.graph.replay()
        for parameter, grad in zip(self.parameters, self._grads, strict=True):
            parameter.grad = grad
        return recorded.loss

    def _compute(self, inputs: tuple[Tensor, ...]) -> Tensor:
        for parameter in self.parameters:
            parameter.grad = None
        loss = self.loss_of(*inputs)
        loss.backward()
        return loss.detach()

    def _record(self, inputs: tuple[Tensor, ...]) -> _Recording:
        own = tuple(tensor.clone() for tensor in inputs)
        graph = torch.cuda.CUDAGraph()
        with record_graph(graph, self._pool):
            loss = self._compute(own)
            self._share_gradients()
        self._pool = graph.pool()
        return _Recording(graph, own, loss)

    def _share_gradients(self) -> None:
        """Let all recordings write gradients where the first does: memory for each would add up."""
        computed = [parameter.grad for parameter in self.parameters]
        if not self._grads:
            self._grads = computed
            return
        pairs = zip(self._grads, computed, strict=True)
        shared, own = zip(*((s, o) for s, o in pairs if s is not None), strict=True)
        torch._foreach_copy_(shared, own)
        for parameter in self.parameters:
            parameter.grad = None  # its memory is free for the next recording
