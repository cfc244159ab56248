"""Engines make the step function of a search from a translator, plain or tuned for a machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warmstart import progress
from warmstart.batching.padding import padded
from warmstart.decoding.beam import Beam, Hypothesis, beam_search
from warmstart.decoding.packed import PackedDecoder, unsupported_setting
from warmstart.decoding.recorded import RecordedStep
from warmstart.decoding.sample import SpecialIds, Step, to_log_probs
from warmstart.kernels.caches import BeamCache, SourceKeysValues
from warmstart.kernels.linear import CastLinear, PackedLinear, can_pack, packed_copy
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.cache import KeyValueCache, sources_of
from warmstart.model.decoder import EncoderOutput
from warmstart.model.models import Translator
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig


@dataclass(frozen=True)
class Engine:
    """A translator ready for decoding: it encodes sources and predicts one token at a time."""

    config: ModelConfig
    runtime: Runtime
    encoder: Backbone
    begin: Callable[[EncoderOutput, int], Step]  # decodes these sources in so many rows each

    def encode(self, sources: Sequence[Sequence[int]]) -> EncoderOutput:
        """Encode sources, given as token ids."""
        ids, is_token = padded(sources, 0)  # the mask hides padding, so any id will do
        device = self.runtime.device
        mask = None if bool(is_token.all()) else is_token.to(device)
        return EncoderOutput(
            self.encoder(ids.to(device), Layout(is_token=mask, skips_padding=True)), mask
        )


def plain_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return an engine that runs the model itself, which may be in training."""

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


def fast_engine(model: Translator, runtime: Runtime) -> Engine:
    """Return the fastest engine for a device, to be used while the weights do not change."""
    if runtime.device.type == "cuda":
        return _or_plain(recorded_engine, model, runtime)
    if can_pack(runtime.device):
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
    """Return an engine, or the plain one where it does not implement the architecture."""
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
) -> list[list[Hypothesis]]:
    """Translate one batch of token ids; `special` are the target's."""
    with engine.runtime.precision():  # around all steps, so that weights are cast once
        step = engine.begin(engine.encode(sources), beam.width)
        return beam_search(step, limits, special, beam)
