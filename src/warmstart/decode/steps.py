"""From a translator to the step function that a search sees, and whole searches with it.

Knows nothing about how the next token is chosen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warmstart.batches.pairs import padded
from warmstart.decode.beam import Beam, Hypothesis, beam_search
from warmstart.decode.sample import Step
from warmstart.model.cache import BeamCache, Cache, Memory
from warmstart.model.packed import PackedDecoder, can_pack, pack_linears
from warmstart.model.runtime import Runtime
from warmstart.model.tasks import Translator

Next = Callable[[Tensor, Memory, Any], Tensor]  # (N,) tokens -> (N, V) logits of what follows


@dataclass(frozen=True)
class Engine:
    """A translator ready for use: it reads sources, and predicts one token at a time."""

    model: Translator
    predict: Next
    new_cache: Callable[[int, int], Cache | BeamCache]  # for a depth and a width
    runtime: Runtime

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

    return Engine(model, predict, lambda depth, _: Cache(depth), runtime)


def fast_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return a model in the form that decodes fastest on this device; it must not change later."""
    if not can_pack(runtime):
        return plain_engine(model, runtime)
    dtype = runtime.dtype or torch.float32
    decoder = PackedDecoder(model, dtype)
    pack_linears(model, dtype)
    return Engine(model, decoder, BeamCache, Runtime(runtime.device))


def translator_step(engine: Engine, memory: Memory, width: int) -> Step:
    """Return a step function that computes each position once and reads the source once."""
    cache = engine.new_cache(engine.model.config.decoder_depth, width)
    device, dtype = engine.runtime.device, engine.model.embedding.dtype
    num_rows = 0

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        nonlocal memory, num_rows
        is_same = len(parents) == num_rows and (num_rows == 1 or _is_in_order(parents))
        if cache.length and not is_same:
            cache.select(parents.to(device))
            if len(parents) < num_rows:  # a source has left
                memory = memory.select((parents[::width] // width).to(device))
        num_rows = len(parents)
        return engine.predict(prefixes[:, -1], memory, cache).to(dtype).log_softmax(-1)

    return step


def _is_in_order(parents: Tensor) -> bool:
    return torch.equal(parents, torch.arange(len(parents)))


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
        step = translator_step(engine, memory, beam.width)
        return beam_search(step, limits, bos, eos, beam, forbidden)
