"""From a translator to the step function that a search sees, and whole searches with it.

Knows nothing about how the next token is chosen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warmstart.batching.pair_batches import padded
from warmstart.decoding.beam import Beam, Hypothesis, beam_search
from warmstart.decoding.packed import (
    CastLinear,
    PackedDecoder,
    PackedLinear,
    can_pack,
    pack_linears,
)
from warmstart.decoding.recorded import RecordedStep
from warmstart.decoding.sample import Step, log_probs
from warmstart.model.cache import BeamCache, Cache, Memory
from warmstart.model.models import Translator
from warmstart.runtime import Runtime


@dataclass(frozen=True)
class Engine:
    """A translator ready for use: it reads sources, and predicts one token at a time."""

    model: Translator
    runtime: Runtime
    begin: Callable[[Memory, int], Step]  # steps over these sources, in so many rows each

    def remember(self, ids: Tensor, is_token: Tensor) -> Memory:
        """Read sources (B, S) once."""
        device = self.runtime.device
        has_padding = not bool(is_token.all())
        return self.model.remember(ids.to(device), is_token.to(device) if has_padding else None)


def plain_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return a model as it is, which may still be in training."""

    def predict(tokens: Tensor, memory: Memory, cache: Cache) -> Tensor:
        hidden = model.hidden(tokens[:, None].to(runtime.device), memory, cache)[:, 0]
        return model.head(hidden, model.embedding)

    def begin(memory: Memory, width: int) -> Step:
        return CachedStep(predict, memory, Cache(model.config.decoder_depth), width)

    return Engine(model, runtime, begin)


def recorded_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return a model with the weights it has now, for a GPU."""
    dtype = runtime.dtype or model.embedding.dtype
    decoder = PackedDecoder(model, dtype, CastLinear)
    return Engine(model, runtime, lambda memory, width: RecordedStep(decoder, memory, width))


def fast_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return a model in the form that decodes fastest on this device; it must not change later."""
    if runtime.device.type == "cuda":
        return recorded_engine(model, runtime)
    if not can_pack(runtime):
        return plain_engine(model, runtime)
    dtype = runtime.dtype or torch.float32
    decoder = PackedDecoder(model, dtype, PackedLinear)
    pack_linears(model, dtype)

    def begin(memory: Memory, width: int) -> Step:
        memory = memory.contiguous() if width > 1 else memory
        return CachedStep(decoder, memory, BeamCache(model.config.decoder_depth, width), width)

    return Engine(model, Runtime(runtime.device), begin)


def training_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return a model in the fastest form that leaves it free to change later."""
    is_cuda = runtime.device.type == "cuda"
    return recorded_engine(model, runtime) if is_cuda else plain_engine(model, runtime)


class CachedStep:
    """A step function that computes each position once and reads the source once."""

    def __init__(
        self,
        predict: Callable[[Tensor, Memory, Any], Tensor],  # (N,) tokens -> (N, V) logits
        memory: Memory,
        cache: Cache | BeamCache,
        width: int,
    ) -> None:
        self.predict, self.memory, self.cache, self.width = predict, memory, cache, width
        self.num_rows = 0

    def __call__(self, prefixes: Tensor, parents: Tensor) -> Tensor:
        """Return log-probabilities (N, V) of the next token of every row."""
        if self.cache.length and not self._is_same(parents):
            device = self.memory.layers[0].keys.device
            self.cache.select(parents.to(device))
            if len(parents) < self.num_rows:  # a source has left
                sources = parents[:: self.width] // self.width
                self.memory = self.memory.select(sources.to(device))
        self.num_rows = len(parents)
        return log_probs(self.predict(prefixes[:, -1], self.memory, self.cache))

    def _is_same(self, parents: Tensor) -> bool:
        if len(parents) != self.num_rows:
            return False
        return self.num_rows == 1 or torch.equal(parents, torch.arange(len(parents)))


@torch.inference_mode()
def translate_ids(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    limits: Sequence[int],
    marks: tuple[int, int, int],
    beam: Beam,
    forbidden: Sequence[int],
) -> list[list[Hypothesis]]:
    """Translate one batch; `marks` are the source's pad and the target's bos and eos."""
    pad, bos, eos = marks
    with engine.runtime.precision():  # around all steps, so that weights are cast once
        memory = engine.remember(*padded(sources, pad))
        step = engine.begin(memory, beam.width)
        return beam_search(step, limits, bos, eos, beam, forbidden)
