"""Steps of a language model: it reads the prompt at once, then one token after the other.

One prompt may be continued several times, in a row each. A row may end, but rows never change
places.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from warmstart.decoding.packed import PackedDecoder, unsupported_setting
from warmstart.decoding.recorded import RecordedStep
from warmstart.decoding.sample import Step, to_log_probs
from warmstart.kernels.caches import BeamCache
from warmstart.kernels.linear import CastLinear, PackedLinear, can_pack, packed_copy
from warmstart.model.cache import KeyValueCache
from warmstart.model.models import LanguageModel
from warmstart.runtime import Runtime

Begin = Callable[[], Step]  # a step function for new texts
Read = Callable[[Tensor, KeyValueCache], Tensor]  # (N, T) tokens -> (N, V) log-probs after them


def plain_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return what begins texts with the model itself."""
    read = _reader(model, runtime)

    def after(cache: KeyValueCache) -> Step:
        def step(prefixes: Tensor, parents: Tensor) -> Tensor:
            if len(parents) < cache.num_rows:
                cache.select(parents)
            return read(prefixes[:, cache.length :], cache)

        return step

    return lambda: _PromptedStep(model.config.depth, read, after)


def packed_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return what begins texts on a CPU, with weights packed; valid until they change."""
    dtype = runtime.dtype or torch.float32
    packed = packed_copy(model, dtype, inside="backbone")
    decoder = PackedDecoder(packed, dtype, PackedLinear)

    def read(ids: Tensor, cache: KeyValueCache) -> Tensor:
        return to_log_probs(decoder.logits(packed.backbone(ids, cache=cache)[:, -1]))

    def after(prompt: KeyValueCache) -> Step:
        cache = BeamCache(len(decoder.blocks), 1, prompt.held)

        def step(prefixes: Tensor, parents: Tensor) -> Tensor:
            if len(parents) < cache.num_sources:
                cache.select(parents)
            return to_log_probs(decoder(prefixes[:, -1], None, cache))

        return step

    return lambda: _PromptedStep(model.config.depth, read, after)


def recorded_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return what begins texts on a GPU, which replays steps; valid until weights change."""
    dtype = runtime.dtype or model.backbone.embed.weight.dtype
    decoder = PackedDecoder(model, dtype, CastLinear)

    def after(prompt: KeyValueCache) -> Step:
        step = RecordedStep(decoder, 1, prompt.held.to(dtype))
        return lambda prefixes, parents: step(prefixes, parents).cpu()

    return lambda: _PromptedStep(model.config.depth, _reader(model, runtime), after)


def fast_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return the fastest way for a device, to be used while the weights do not change."""
    if unsupported_setting(model.backbone.config) is None:
        if runtime.device.type == "cuda":
            return recorded_steps(model, runtime)
        if can_pack(runtime.device):
            return packed_steps(model, runtime)
    return plain_steps(model, runtime)


class _PromptedStep:
    """A step function: one function reads the prompt, another one predicts what follows."""

    def __init__(self, depth: int, read: Read, after: Callable[[KeyValueCache], Step]) -> None:
        self._depth, self._read, self._after = depth, read, after
        self._step: Step | None = None

    def __call__(self, prefixes: Tensor, parents: Tensor) -> Tensor:
        """Return log-probabilities (N, V) of the next token of every row; all begin alike."""
        if self._step is not None:
            return self._step(prefixes, parents)
        cache, num_rows = KeyValueCache(self._depth), len(prefixes)
        log_probs = self._read(prefixes[:1], cache)
        if num_rows > 1:
            cache.select(torch.zeros(num_rows, dtype=torch.long))
        self._step = self._after(cache)
        return log_probs.expand(num_rows, -1)


def _reader(model: LanguageModel, runtime: Runtime) -> Read:
    def read(ids: Tensor, cache: KeyValueCache) -> Tensor:
        with runtime.precision():
            hidden = model.backbone(ids.to(runtime.device), cache=cache)[:, -1]
            logits = model.head(hidden, model.backbone.embed.weight)
        return to_log_probs(logits).cpu()

    return read
