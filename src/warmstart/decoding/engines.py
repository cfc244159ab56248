"""Engines make the step function of a search from a translator, plain or tuned for a machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warmstart import progress
from warmstart.batching.batches import pad_ids
from warmstart.decoding.beam import Hypothesis, SpecialIds, Step, beam_search, to_log_probs
from warmstart.decoding.packed import PackedDecoder, unsupported_setting
from warmstart.errors import WarmstartError
from warmstart.kernels.graphs import record_graph
from warmstart.kernels.inference import (
    BeamCache,
    CastLinear,
    PackedLinear,
    SourceKeysValues,
    StaticCache,
    can_pack,
    packed_copy,
)
from warmstart.model.attention import KeyValueCache, sources_of
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import EncoderOutput, LanguageModel, Translator
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.using import Beam

Begin = Callable[[], Step]  # a step function for new texts
Read = Callable[[Tensor, KeyValueCache], Tensor]  # (N, T) tokens -> (N, V) log-probs after them


@dataclass(frozen=True)
class Engine:
    """A translator ready for decoding: it encodes sources and predicts one token at a time."""

    config: ModelConfig
    runtime: Runtime
    encoder: Backbone
    begin: Callable[[EncoderOutput, int], Step]  # sources, rows for each -> their step

    def encode(self, sources: Sequence[Sequence[int]]) -> EncoderOutput:
        """Encode sources, given as token ids."""
        ids, is_token = pad_ids(sources, 0)  # the mask hides padding, so any id will do
        device = self.runtime.device
        mask = None if bool(is_token.all()) else is_token.to(device)
        return EncoderOutput(
            self.encoder(ids.to(device), Layout(is_token=mask, skips_padding=True)), mask
        )


def plain_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return an engine that runs the layers of a model, which may be in training."""

    def predict(tokens: Tensor, encoder_output: EncoderOutput, cache: KeyValueCache) -> Tensor:
        hidden = model.decode(tokens[:, None].to(runtime.device), encoder_output, cache)[:, 0]
        return model.head(hidden, model.embedding)

    def begin(encoder_output: EncoderOutput, width: int) -> Step:
        cache = KeyValueCache(model.config.decoder_depth)
        return CachedStep(predict, encoder_output, cache, width)

    return Engine(model.config, runtime, model.encoder, begin)


def packed_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return an engine for a CPU, with linear layers packed; valid until the weights change."""
    dtype = runtime.dtype or torch.float32
    decoder = PackedDecoder(model, dtype, PackedLinear)
    encoder = packed_copy(model.encoder, dtype)

    def begin(encoder_output: EncoderOutput, width: int) -> Step:
        source = decoder.source_keys_values(encoder_output)
        source = source.contiguous() if width > 1 else source
        return CachedStep(decoder, source, BeamCache(len(decoder.blocks), width), width)

    return Engine(model.config, Runtime(runtime.device), encoder, begin)


def recorded_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return an engine for a GPU, which replays recorded steps; valid until the weights change."""
    decoder = PackedDecoder(model, runtime.dtype or model.embedding.dtype, CastLinear)

    def begin(encoder_output: EncoderOutput, width: int) -> Step:
        source = decoder.source_keys_values(encoder_output)
        return RecordedStep(decoder, width, source.no_positions(), source)

    return Engine(model.config, runtime, model.encoder, begin)


def check_can_decode(runtime: Runtime) -> None:
    """Refuse a device without double precision, in which beam search adds up."""
    if runtime.device.type == "mps":
        raise WarmstartError(
            "--device mps: translators need float64, which Apple GPUs lack; use --device cpu"
        )


def fast_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return the fastest engine for a device, to be used while the weights do not change."""
    check_can_decode(runtime)
    if runtime.device.type == "cuda":
        return _or_plain(recorded_engine, model, runtime)
    if can_pack(runtime.device, runtime.dtype):
        return _or_plain(packed_engine, model, runtime)
    return plain_engine(model, runtime)


def training_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return the engine for one use between training steps: the fastest that is quick to build."""
    if runtime.device.type == "cuda":
        return _or_plain(recorded_engine, model, runtime)
    return plain_engine(model, runtime)


def _or_plain(
    engine: Callable[[Translator, Runtime], Engine], model: Translator, runtime: Runtime
) -> Engine:
    """Return a fast engine, or the plain one for an architecture that the fast ones lack."""
    setting = unsupported_setting(model.decoder.config)
    if setting is None:
        return engine(model, runtime)
    progress.say(f"decoding is slower: the fast engines do not implement {setting}")
    return plain_engine(model, runtime)


class CachedStep:
    """A step function that computes every position once, and the keys of the sources once."""

    def __init__(
        self,
        predict: Callable[[Tensor, Any, Any], Tensor],  # (N,) tokens -> (N, V) logits
        source: EncoderOutput | SourceKeysValues,
        cache: KeyValueCache | BeamCache,
        width: int,
    ) -> None:
        self.predict, self.source, self.cache, self.width = predict, source, cache, width
        self.num_rows = 0

    def __call__(self, prefixes: Tensor, parents: Tensor) -> Tensor:
        """Return log-probabilities (N, V) of the next token of every row."""
        if self.cache.length and not self._is_same(parents):
            self.cache.select(parents)
            if len(parents) < self.num_rows:  # a source has finished
                self.source = self.source.select(sources_of(parents, self.width))
        self.num_rows = len(parents)
        return to_log_probs(self.predict(prefixes[:, -1], self.source, self.cache))

    def _is_same(self, parents: Tensor) -> bool:
        if len(parents) != self.num_rows:
            return False
        return self.num_rows == 1 or torch.equal(parents, torch.arange(len(parents)))


@torch.inference_mode()
def translate_ids(
    engine: Engine,
    sources: Sequence[Sequence[int]],
    limits: Sequence[int],
    special: SpecialIds,
    beam: Beam,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """Translate one batch of token ids; `special` are ids of the target vocabulary."""
    with engine.runtime.precision():  # around all steps, so that weights are cast once
        step = engine.begin(engine.encode(sources), beam.beam)
        return beam_search(step, limits, special, beam, n_best)


def plain_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return a function that begins texts with the layers of a model."""
    read = _reader(model, runtime)

    def after(cache: KeyValueCache) -> Step:
        def step(prefixes: Tensor, parents: Tensor) -> Tensor:
            if len(parents) < cache.num_rows:
                cache.select(parents)
            return read(prefixes[:, cache.length :], cache)

        return step

    return lambda: _PromptedStep(model.config.depth, read, after)


def packed_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return a function that begins texts on a CPU; valid until the weights change."""
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
    """Return a function that begins texts on a GPU by replaying recorded steps.

    It is valid until the weights change.
    """
    dtype = runtime.dtype or model.backbone.embed.weight.dtype
    decoder = PackedDecoder(model, dtype, CastLinear)

    def after(prompt: KeyValueCache) -> Step:
        step = RecordedStep(decoder, 1, prompt.held.to(dtype))
        return lambda prefixes, parents: step(prefixes, parents).cpu()

    return lambda: _PromptedStep(model.config.depth, _reader(model, runtime), after)


def fast_steps(model: LanguageModel, runtime: Runtime) -> Begin:
    """Return the fastest function that begins texts on a device; valid until the weights change."""
    if unsupported_setting(model.backbone.config) is None:
        if runtime.device.type == "cuda":
            return recorded_steps(model, runtime)
        if can_pack(runtime.device, runtime.dtype):
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
        self.cache = self.cache.copy_sources(slots, capacity)
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

        The first step takes no stream of its own: streams are few, and another thread may be
        recording on the same one.
        """
        position = self.cache.position.clone()
        self._compute()
        self.cache.position.copy_(position)
        self._graph = torch.cuda.CUDAGraph()
        with record_graph(self._graph):
            self._log_probs = self._compute()
