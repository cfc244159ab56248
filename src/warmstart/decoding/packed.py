"""A translator's decoder laid out for one-token steps: for inference, not for training.

Two costs dominate such steps, and neither is arithmetic. On a CPU a plain matrix product rearranges
the weights at every call, which costs more than the product when a step has few rows. So weights
are packed once. And a module call costs as much as a small product. So a step is a plain list of
operations, which on a GPU can be recorded.
"""

from collections.abc import Callable
from dataclasses import fields

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.kernels.caches import BeamCache, SourceKeysValues, StaticCache
from warmstart.kernels.fast_attention import attend_few_queries
from warmstart.kernels.linear import CastLinear, PackedLinear
from warmstart.model.attention import CrossAttention, apply_rope
from warmstart.model.decoder import EncoderOutput
from warmstart.model.layers import ACTIVATIONS, DecoderBlock
from warmstart.model.models import Translator
from warmstart.model.positions import rope_cos_sin
from warmstart.settings.model import ModelConfig, decoder_config

Function = Callable[[Tensor], Tensor]
LinearType = type[PackedLinear] | type[CastLinear]
Cache = BeamCache | StaticCache

# Every setting of a decoder, and the values implemented here; None: any value.
IMPLEMENTED: dict[str, tuple[object, ...] | None] = {
    "attention": ("causal",),
    "norm": ("layer", "rms"),
    "norm_position": ("post", "pre"),
    "positions": ("sinusoidal", "learned", "rope"),
    "activation": ("relu", "gelu", "gelu_tanh", "silu", "relu2", "swiglu", "geglu"),
    "local_window": (0,),
    "first_norm": (True,),
    "segments": (0,),
    "ablated": ("nothing",),
    "pooler": (False,),
    "transform": (False,),
    **dict.fromkeys(("vocab_size", "width", "depth", "heads", "ffn_width", "max_length")),
    **dict.fromkeys(("tied", "biases", "output_bias", "dropout", "inner_dropout", "norm_eps")),
    **dict.fromkeys(("scale_embedding", "embedding_norm", "rope_base")),
    **dict.fromkeys(("global_every", "local_rope_base")),  # of local windows
    **dict.fromkeys(("decoder_depth", "target_vocab_size", "shared")),
}


def unsupported_setting(config: ModelConfig) -> str | None:
    """Return a setting of a translator that `PackedDecoder` does not implement, or None."""
    shape = decoder_config(config)
    for field in fields(shape):
        value, values = getattr(shape, field.name), IMPLEMENTED.get(field.name, ())
        if values is not None and value not in values:
            return f"model.{field.name}={value!r}"
    return None


class PackedDecoder:
    """The decoder and head of a translator as a function: tokens in, logits out."""

    def __init__(self, model: Translator, dtype: torch.dtype, linear_type: LinearType) -> None:
        if (setting := unsupported_setting(model.config)) is not None:
            raise ValueError(f"the packed decoder does not implement {setting}")
        decoder = model.decoder
        self.config = decoder.config
        self.embedding = model.embedding.detach()
        self.blocks = [_PackedBlock(block, dtype, linear_type) for block in decoder.blocks]
        self.norm_embed = _norm(decoder.norm_embed) if self.config.embedding_norm else None
        self.norm_final = _norm(decoder.norm_final) if self.config.norm_position == "pre" else None
        self.head = linear_type(*model.head.weights(self.embedding), dtype)
        self.positions: Tensor | None = None  # (L, D)
        if self.config.positions == "sinusoidal":
            self.positions = decoder.sinusoids
        elif self.config.positions == "learned":
            self.positions = decoder.embed_positions.weight.detach()

    def source_keys_values(self, encoder_output: EncoderOutput) -> SourceKeysValues:
        """Return the keys and values of the sources in every block."""
        pairs = [block.source_keys_values(encoder_output.hidden) for block in self.blocks]
        keys, values = zip(*pairs, strict=True)
        return SourceKeysValues(list(keys), list(values), encoder_output.mask)

    def __call__(self, tokens: Tensor, source: SourceKeysValues, cache: Cache) -> Tensor:
        """Return logits (N, V) for the token after these, the latest (N,) of every row."""
        x = F.embedding(tokens, self.embedding)  # (N, D)
        if self.config.scale_embedding:
            x = x * self.config.width**0.5
        if self.positions is not None:
            x = x + self.positions[cache.position]
        if self.norm_embed is not None:
            x = self.norm_embed(x)
        cos_sin = None
        if self.config.positions == "rope":
            position = torch.as_tensor(cache.position, device=x.device).view(1, 1)
            width = self.config.width // self.config.heads
            cos_sin = rope_cos_sin(position, width, self.config.rope_base)
        for block in self.blocks:
            x = block(x, cos_sin, source, cache)
        return self.head.forward(x if self.norm_final is None else self.norm_final(x))


class _PackedBlock:
    """One block of a decoder as plain operations on (N, D)."""

    def __init__(self, block: nn.Module, dtype: torch.dtype, linear_type: LinearType) -> None:
        assert isinstance(block, DecoderBlock)

        def packed(linear: nn.Linear, activation: str = "none") -> PackedLinear | CastLinear:
            return linear_type(linear.weight, linear.bias, dtype, activation)

        attend, cross, ffn = block.attend, block.cross, block.ffn
        self.is_pre, self.heads, self.layer = block.is_pre, attend.heads, attend.layer
        self.norms = [_norm(n) for n in (block.norm_attend, block.norm_cross, block.norm_ffn)]
        self.project, self.output = packed(attend.project), packed(attend.output)
        self.cross_query, self.cross_output = packed(cross.query), packed(cross.output)
        self.cross_project = packed(cross.project)
        # On a CPU it pays to multiply query and output weights into a short source.
        self.by_head = _WeightsByHead(cross) if linear_type is PackedLinear else None
        self.short: tuple[SourceKeysValues, _ShortSource] | None = None  # of the latest source
        is_relu = ffn.activate is ACTIVATIONS["relu"]
        self.inner, self.outer = packed(ffn.inner, "relu" if is_relu else "none"), packed(ffn.outer)
        self.activate = None if is_relu else ffn.activate
        self.is_gated = ffn.is_gated

    def source_keys_values(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (B, H, S, K) of the encoder output (B, S, D)."""
        B, S, _ = hidden.shape
        projected = self.cross_project.forward(hidden).view(B, S, 2, self.heads, -1)
        keys, values = projected.permute(2, 0, 3, 1, 4).unbind(0)
        return keys, values

    def __call__(
        self, x: Tensor, cos_sin: Tensor | None, source: SourceKeysValues, cache: Cache
    ) -> Tensor:
        norm_attend, norm_cross, norm_ffn = self.norms
        if self.is_pre:
            x = x + self._attend(norm_attend(x), cos_sin, cache)
            x = x + self._cross(norm_cross(x), source)
            return x + self._feed_forward(norm_ffn(x))
        x = norm_attend(x + self._attend(x, cos_sin, cache))
        x = norm_cross(x + self._cross(x, source))
        return norm_ffn(x + self._feed_forward(x))

    def _attend(self, x: Tensor, cos_sin: Tensor | None, cache: Cache) -> Tensor:
        N, D = x.shape
        W, H = cache.width, self.heads
        # (3, B, H, W, K)
        qkv = self.project.forward(x).view(N // W, W, 3, H, -1).permute(2, 0, 3, 1, 4)
        if cos_sin is not None:
            qkv = torch.cat([apply_rope(qkv[:2], cos_sin), qkv[2:]])
        keys, values = cache.append(self.layer, qkv[1:])
        mixed = attend_few_queries(qkv[0], keys, values, cache.mask)
        return self.output.product(mixed.transpose(1, 2).reshape(N, D))

    def _cross(self, x: Tensor, source: SourceKeysValues) -> Tensor:
        N, D = x.shape
        keys, values = source.keys[self.layer], source.values[self.layer]
        B, H, S, _ = keys.shape
        if self.by_head is not None and B == 1 and H * S <= 2 * D:
            if self.short is None or self.short[0] is not source:
                self.short = source, _ShortSource(self.by_head, keys[0], values[0], source.mask)
            return self.short[1].attend(x)
        q = self.cross_query.forward(x).view(B, N // B, H, -1).transpose(1, 2)  # (B, H, W, K)
        mixed = attend_few_queries(q, keys, values, source.mask)
        return self.cross_output.product(mixed.transpose(1, 2).reshape(N, D))

    def _feed_forward(self, x: Tensor) -> Tensor:
        inner = self.inner.product(x)
        if self.is_gated:
            assert self.activate is not None
            gate, inner = inner.chunk(2, -1)
            inner = self.activate(gate) * inner
        elif self.activate is not None:
            inner = self.activate(inner)
        return self.outer.product(inner)


class _WeightsByHead:
    """The query and output weights of cross-attention, head by head."""

    def __init__(self, cross: CrossAttention) -> None:
        H, D = cross.heads, cross.query.in_features
        scale = (D // H) ** -0.5
        self.query = cross.query.weight.detach().view(H, -1, D) * scale  # (H, K, D)
        self.query_bias = _bias(cross.query).view(H, -1, 1) * scale
        self.output = cross.output.weight.detach().view(D, H, -1).permute(1, 2, 0).contiguous()
        self.output_bias = _bias(cross.output)


class _ShortSource:
    """One short source with the query and output weights multiplied into it.

    Two small products replace two large ones and an attention. The result is the same, and the
    large products are most of a step's time when there is a single source.
    """

    def __init__(
        self, weights: _WeightsByHead, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> None:
        if mask is not None:  # padded when it was encoded in a batch
            is_token = mask[0, 0, 0]
            keys, values = keys[:, is_token], values[:, is_token]  # (H, S, K)
        self.heads = len(keys)
        D = weights.query.shape[2]
        self.scores = torch.bmm(keys, weights.query).view(-1, D).T  # (D, H S)
        self.score_biases = torch.bmm(keys, weights.query_bias).flatten()  # (H S,)
        self.values = torch.bmm(values, weights.output).view(-1, D)  # (H S, D)
        self.bias = weights.output_bias

    def attend(self, x: Tensor) -> Tensor:
        """Return the output of cross-attention for rows (N, D)."""
        scores = torch.addmm(self.score_biases, x, self.scores)  # (N, H S)
        weights = scores.view(len(x), self.heads, -1).softmax(-1).view(len(x), -1)
        return torch.addmm(self.bias, weights, self.values)


def _bias(linear: nn.Linear) -> Tensor:
    if linear.bias is None:
        return linear.weight.detach().new_zeros(linear.out_features)
    return linear.bias.detach()


def _norm(norm: nn.Module) -> Function:
    """Return a normalisation layer as a function."""
    shape = tuple(norm.normalized_shape)  # type: ignore[arg-type]
    weight, eps = norm.weight.detach(), float(norm.eps)  # type: ignore[arg-type, operator]
    if isinstance(norm, nn.RMSNorm):
        return lambda x: torch.rms_norm(x, shape, weight, eps)
    bias = None if norm.bias is None else norm.bias.detach()  # type: ignore[operator]
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
