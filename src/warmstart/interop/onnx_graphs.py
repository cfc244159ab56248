"""Our models as graphs for ONNX: tensors in, tensors out, under the names that its users expect.

A graph calls the blocks of the model itself. What a graph needs to be explicit, it makes explicit:
masks, positions, and keys and values of earlier steps, which come in and go out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.model.attention import (
    AttentionContext,
    CrossAttention,
    KeyValueCache,
    padding_mask,
    rope_cos_sin,
)
from warmstart.model.backbone import Layout, Stack
from warmstart.model.models import (
    BackboneOnly,
    Classifier,
    LanguageModel,
    SpanFinder,
    TokenClassifier,
    Translator,
    pool,
)
from warmstart.settings.model import ModelConfig

TextReader = BackboneOnly | Classifier | TokenClassifier | LanguageModel
Axes = dict[int, str]  # the axes of a tensor whose size is free, and their names
TEXT: Axes = {0: "batch", 1: "tokens"}
SOURCE: Axes = {0: "batch", 1: "source"}
CACHE_AXES: dict[str, Axes] = {  # of keys and values (B, H, P, K)
    "past": {0: "batch", 2: "past"},
    "source": {0: "batch", 2: "source"},
}
SIZES = {"batch": 2, "tokens": 5, "source": 4, "past": 3, "all_tokens": 8}  # of example inputs


@dataclass(frozen=True)
class Graph:
    """What becomes one ONNX file: a module, its inputs by parameter, its outputs."""

    file: str
    module: nn.Module
    inputs: dict[str, Axes]
    outputs: list[str]
    caches: dict[str, list[str]] = field(default_factory=dict)  # names of their tensors


def graphs_of(model: nn.Module) -> list[Graph]:
    """Return the graphs of a model; refuse a kind of model that has none."""
    if isinstance(model, Translator):
        return _translator_graphs(model)
    if isinstance(model, LanguageModel) and model.config.is_causal:
        return [_causal_graph(model)]
    if isinstance(model, TextReader):
        return [_text_graph(model)]
    raise WarmstartError(f"no ONNX graph is defined for a {type(model).__name__}")


def _text_graph(model: TextReader) -> Graph:
    inputs = {"input_ids": TEXT, "attention_mask": TEXT}
    if model.config.segments > 1:
        inputs["token_type_ids"] = TEXT
    outputs = [] if isinstance(model, BackboneOnly) else ["logits"]
    if isinstance(model, SpanFinder):
        outputs = ["start_logits", "end_logits"]
    if not isinstance(model, Classifier | TokenClassifier):
        outputs += ["last_hidden_state", "sentence_embedding"]
    return Graph("model.onnx", TextGraph(model), inputs, outputs)


def _causal_graph(model: LanguageModel) -> Graph:
    inputs = {"input_ids": TEXT, "attention_mask": {0: "batch", 1: "all_tokens"}}
    outputs = ["logits", *_cache_names("present", model.config.depth)]
    caches = {"past": _cache_names("past_key_values", model.config.depth)}
    return Graph("model.onnx", CausalGraph(model), inputs, outputs, caches)


def _translator_graphs(model: Translator) -> list[Graph]:
    depth = model.config.decoder_depth
    encoder = Graph(
        "encoder_model.onnx",
        EncoderGraph(model),
        {"input_ids": SOURCE, "attention_mask": SOURCE},
        ["last_hidden_state", *_cache_names("present", depth, "encoder.")],
    )
    decoder = Graph(
        "decoder_model.onnx",
        DecoderGraph(model),
        {"input_ids": TEXT, "encoder_attention_mask": SOURCE},
        ["logits", *_cache_names("present", depth, "decoder.")],
        {
            "source": _cache_names("past_key_values", depth, "encoder."),
            "past": _cache_names("past_key_values", depth, "decoder."),
        },
    )
    return [encoder, decoder]


def _cache_names(prefix: str, depth: int, part: str = "") -> list[str]:
    """Return the names of the keys and values of every layer."""
    sides = ("key", "value")
    return [f"{prefix}.{layer}.{part}{side}" for layer in range(depth) for side in sides]


class ConcatenatedCache(KeyValueCache):
    """Keys and values as whole tensors: those of the past, with new positions behind them."""

    def __init__(self, past: Sequence[Tensor], source: Sequence[Tensor] = ()) -> None:
        super().__init__(len(past) // 2)
        self.past, self.present = past, list[Tensor]()
        self.source = dict(enumerate(zip(source[::2], source[1::2], strict=True)))

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append new positions (B, H, T, K) of a layer and return all of its keys and values."""
        keys = torch.cat([self.past[2 * layer], keys], 2)
        values = torch.cat([self.past[2 * layer + 1], values], 2)
        self.present += [keys, values]
        return keys, values


class _StackGraph(nn.Module):
    """What all graphs share: a stack that is told its masks and positions."""

    cos_sin: Tensor  # (2, 2, T, K / 2): of blocks that see all, and of local ones

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        config: ModelConfig = model.config
        if config.position_encoding == "rope":  # looked up, so that no graph computes an angle
            positions = torch.arange(config.max_length)[None]
            bases, width = (config.rope_base, config.local_rope_base), config.width // config.heads
            tables = [rope_cos_sin(positions, width, base)[:, 0, 0] for base in bases]
            self.register_buffer("cos_sin", torch.stack(tables), persistent=False)

    def run_stack(
        self,
        stack: Stack,
        tokens: Tensor,
        layout: Layout,
        own: AttentionContext,
        to_source: AttentionContext | None = None,
    ) -> Tensor:
        """Return hidden vectors from the embeddings of tokens (B, T, D), with these masks."""
        assert layout.positions is not None
        x, (context, *_) = stack.prepare(tokens, layout, None, None)
        context = replace(context, mask=own.mask, is_causal=False, cache=own.cache)
        has_angles = context.cos_sin is not None
        contexts = stack.context_by_block(context, layout.positions)
        if has_angles:
            cos_sin = self.cos_sin[:, :, layout.positions][:, :, :, None]  # (2, 2, B, 1, T, K / 2)
        for layer, (block, context) in enumerate(zip(stack.blocks, contexts, strict=True)):
            if has_angles:
                context = replace(context, cos_sin=cos_sin[int(stack.config.is_local(layer))])
            # A cache holds the source, so that no block reads the x that is given in place of it.
            x = block(x, context, *([] if to_source is None else [x, to_source]))
        return stack.normalize(x)


class TextGraph(_StackGraph):
    """A model that reads whole texts."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the logits of a text or its tokens, else any logits, hidden vectors and mean."""
        backbone, is_token = self.model.backbone, attention_mask.bool()
        T = input_ids.shape[1]
        is_causal = backbone.config.is_causal
        mask = _mask_of_new(attention_mask, T) if is_causal else padding_mask(is_token)
        layout = Layout(positions=torch.arange(T).expand_as(input_ids), segments=token_type_ids)
        tokens = backbone.embed(input_ids)
        hidden = self.run_stack(backbone, tokens, layout, AttentionContext(mask))
        return self._outputs(hidden, is_token)

    def _outputs(self, hidden: Tensor, is_token: Tensor) -> tuple[Tensor, ...]:
        model = self.model
        if isinstance(model, Classifier):
            text = pool(model.backbone, hidden, is_token, model.head.pooling)
            return (model.head.output(text),)
        if isinstance(model, SpanFinder):
            return model.head.output(hidden).unbind(-1)
        if isinstance(model, TokenClassifier):
            return (model.head.output(hidden),)
        vectors = (hidden, pool(model.backbone, hidden, is_token, "mean"))
        if isinstance(model, LanguageModel):
            return (model.head(hidden, model.backbone.embed.weight), *vectors)
        return vectors


class CausalGraph(_StackGraph):
    """A causal language model with its key/value cache; texts may be padded at the left."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, past: list[Tensor]
    ) -> tuple[Tensor, ...]:
        """Return logits (B, T, V), and keys and values of all positions so far."""
        backbone, T = self.model.backbone, input_ids.shape[1]
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0)[:, -T:]  # (B, T)
        cache = ConcatenatedCache(past)
        own = AttentionContext(_mask_of_new(attention_mask, T), cache=cache)
        tokens = backbone.embed(input_ids)
        hidden = self.run_stack(backbone, tokens, Layout(positions=positions), own)
        return self.model.head(hidden, backbone.embed.weight), *cache.present


class EncoderGraph(_StackGraph):
    """The encoder of a translator, with the keys and values that its decoder attends to."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """Return hidden vectors (B, S, D), and keys and values of each decoder block."""
        encoder = self.model.encoder
        layout = Layout(positions=torch.arange(input_ids.shape[1]).expand_as(input_ids))
        own = AttentionContext(padding_mask(attention_mask.bool()))
        hidden = self.run_stack(encoder, encoder.embed(input_ids), layout, own)
        of_source = list[Tensor]()
        for module in self.model.decoder.modules():
            if isinstance(module, CrossAttention):
                of_source += module.keys_values(hidden)
        return hidden, *of_source


class DecoderGraph(_StackGraph):
    """The decoder of a translator with its key/value cache."""

    def forward(
        self,
        input_ids: Tensor,
        encoder_attention_mask: Tensor,
        source: list[Tensor],
        past: list[Tensor],
    ) -> tuple[Tensor, ...]:
        """Return logits (B, T, V), and keys and values of all target positions so far."""
        (B, T), P = input_ids.shape, past[0].shape[2]
        layout = Layout(positions=torch.arange(P, P + T).expand(B, T))
        tokens = F.embedding(input_ids, self.model.embedding)  # (B, T, D)
        cache = ConcatenatedCache(past, source)
        mask = _mask_of_new(torch.ones(B, P + T, dtype=torch.long), T)
        own = AttentionContext(mask, cache=cache)
        to_source = AttentionContext(padding_mask(encoder_attention_mask.bool()), cache=cache)
        hidden = self.run_stack(self.model.decoder, tokens, layout, own, to_source)
        return self.model.head(hidden, self.model.embedding), *cache.present


def _mask_of_new(attention_mask: Tensor, num_new: int) -> Tensor:
    """Return the mask (B, 1, T, S) of the last positions; padding attends to itself."""
    keys = torch.arange(attention_mask.shape[1])  # (S,)
    queries = keys[-num_new:, None]  # (T, 1)
    return (keys <= queries) & padding_mask(attention_mask.bool()) | (keys == queries)
