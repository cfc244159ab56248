"""Steps of a language model: it reads the prompt at once, then one token after the other.

One prompt may be continued several times, in a row each.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from warmstart.decoding.packed import PackedDecoder, unsupported_setting
from warmstart.decoding.recorded import RecordedStep
from warmstart.decoding.sample import Step, to_log_probs
from warmstart.kernels.caches import BeamCache
from warmstart.kernels.linear import CastLinear, PackedLinear, can_pack
from warmstart.model.cache import KeyValueCache
from warmstart.model.models import LanguageModel
from warmstart.runtime import Runtime

Begin = Callable[[], Step]  # a step function for new texts


def plain_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return what begins a text with the model itself."""

    def begin() -> Step:
        cache = KeyValueCache(model.config.depth)

        def step(prefixes: Tensor, parents: Tensor) -> Tensor:
            is_same = len(parents) == 1 == cache.num_rows
            if cache.length and not is_same:
                cache.select(parents)
            return _read(model, runtime, prefixes[:, cache.length :], cache)

        return step

    return begin


def packed_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return what begins a text on a CPU, with weights packed; valid until they change."""
    decoder = PackedDecoder(model, runtime.dtype or torch.float32, PackedLinear)

    def after(held: Tensor) -> Step:
        cache = BeamCache(len(decoder.blocks), 1, held.to(decoder.embedding.dtype))

        def step(prefixes: Tensor, parents: Tensor) -> Tensor:
            if len(parents) < cache.num_sources:  # a text has ended
                cache.select(parents)
            return to_log_probs(decoder(prefixes[:, -1], None, cache))

        return step

    return lambda: _PromptedStep(model, runtime, after)


def recorded_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return what begins a text on a GPU, which replays steps; valid until weights change."""
    dtype = runtime.dtype or model.backbone.embed.weight.dtype
    decoder = PackedDecoder(model, dtype, CastLinear)

    def after(held: Tensor) -> Step:
        step = RecordedStep(decoder, 1, held.to(dtype))
        return lambda prefixes, parents: step(prefixes, parents).cpu()

    return lambda: _PromptedStep(model, runtime, after)


def fast_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return the fastest way for a device, to be used while the weights do not change."""
    if unsupported_setting(model.backbone.config) is None:
        if runtime.device.type == "cuda":
            return recorded_steps(model, runtime)
        if can_pack(runtime.device):
            return packed_steps(model, runtime)
    return plain_steps(model, runtime)


class _PromptedStep:
    """A step function: the model reads the prompt, another function what follows."""

    def __init__(
        self, model: LanguageModel, runtime: Runtime, after: Callable[[Tensor], Step]
    ) -> None:
        self._model, self._runtime, self._after = model, runtime, after
        self._step: Step | None = None

    def __call__(self, prefixes: Tensor, parents: Tensor) -> Tensor:
        """Return log-probabilities (N, V) of the next token of every row; all begin alike."""
        if self._step is not None:
            return self._step(prefixes, parents)
        cache, num_rows = KeyValueCache(self._model.config.depth), len(prefixes)
        log_probs = _read(self._model, self._runtime, prefixes[:1], cache)
        self._step = self._after(cache.held.expand(-1, -1, num_rows, -1, -1, -1))
        return log_probs.expand(num_rows, -1)


def _read(model: LanguageModel, runtime: Runtime, ids: Tensor, cache: KeyValueCache) -> Tensor:
    """Return log-probabilities (N, V) of the token after these (N, T), which the cache receives."""
    with runtime.precision():
        hidden = model.backbone(ids.to(runtime.device), cache=cache)[:, -1]
        logits = model.head(hidden, model.backbone.embed.weight)
    return to_log_probs(logits).cpu()
