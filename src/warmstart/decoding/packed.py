"""The decoder of a translator or language model laid out for one-token steps, not for training.

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

from warmstart.kernels.inference import (
    BeamCache,
    CastLinear,
    PackedLinear,
    SourceKeysValues,
    StaticCache,
)
from warmstart.kernels.layers import attend_few_queries
from warmstart.model.attention import CrossAttention, apply_rope, rope_cos_sin
from warmstart.model.backbone import Stack
from warmstart.model.layers import ACTIVATIONS, Block, DecoderBlock
from warmstart.model.models import EncoderOutput, LanguageModel, Transform, Translator
from warmstart.settings.model import ModelConfig

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
    "ablated": ("nothing",),
    **dict.fromkeys(("vocab_size", "width", "depth", "heads", "ffn_width", "max_length")),
    **dict.fromkeys(("tied", "biases", "output_bias", "dropout", "inner_dropout", "norm_eps")),
    **dict.fromkeys(("scale_embedding", "embedding_norm", "rope_base", "first_norm")),
    **dict.fromkeys(("segments", "pooler", "transform")),
    **dict.fromkeys(("global_every", "local_rope_base")),  # of local windows
    **dict.fromkeys(("decoder_depth", "target_vocab_size", "shared")),
}


def unsupported_setting(shape: ModelConfig) -> str | None:
    """Return a setting of a decoder that `PackedDecoder` does not implement, or None."""
    for field in fields(shape):
        value, values = getattr(shape, field.name), IMPLEMENTED.get(field.name, ())
        if values is not None and value not in values:
            return f"model.{field.name}={value!r}"
    return None


class PackedDecoder:
    """A decoder and its head as a function: tokens in, logits out."""

    def __init__(
        self, model: Translator | LanguageModel, dtype: torch.dtype, linear_type: LinearType
    ) -> None:
        decoder: Stack
        if isinstance(model, Translator):
            decoder, embedding = model.decoder, model.embedding
        else:
            decoder, embedding = model.backbone, model.backbone.embed.weight
        if (setting := unsupported_setting(decoder.config)) is not None:
            raise ValueError(f"the packed decoder does not implement {setting}")
        self.config = decoder.config
        self.embedding = embedding.detach()
        self.blocks = [_PackedBlock(block, dtype, linear_type) for block in decoder.blocks]
        self.norm_embed: Function = _identity
        self.norm_final: Function = _identity
        if self.config.embedding_norm:
            self.norm_embed = _norm(decoder.norm_embed, linear_type)
        if self.config.norm_position == "pre":
            self.norm_final = _norm(decoder.norm_final, linear_type)
        self.transform: Function = _identity
        if self.config.transform:
            assert isinstance(model.head.transform, Transform)
            self.transform = _pack_transform(model.head.transform, dtype, linear_type)
        self.head = linear_type(*model.head.weights(self.embedding), dtype)
        # Without a second text, all tokens have the first segment.
        self.segment = decoder.embed_segments.weight[0].detach() if self.config.segments else None
        self.positions: Tensor | None = None  # (L, D)
        if self.config.positions == "sinusoidal":
            self.positions = decoder.sinusoids
        elif self.config.positions == "learned":
            self.positions = decoder.embed_positions.weight.detach()

    def source_keys_values(self, encoder_output: EncoderOutput) -> SourceKeysValues:
        """Return the keys and values of the sources in every block of a translator."""
        crosses = [block.cross for block in self.blocks if block.cross is not None]
        pairs = [cross.source_keys_values(encoder_output.hidden) for cross in crosses]
        keys, values = zip(*pairs, strict=True)
        return SourceKeysValues(list(keys), list(values), encoder_output.mask)

    def __call__(self, tokens: Tensor, source: SourceKeysValues | None, cache: Cache) -> Tensor:
        """Return logits (N, V) for the token after `tokens`, the latest (N,) of every row.

        Only a translator has a source.
        """
        x = F.embedding(tokens, self.embedding)  # (N, D)
        if self.config.scale_embedding:
            x = x * self.config.width**0.5
        if self.positions is not None:
            x = x + self.positions[cache.position]
        if self.segment is not None:
            x = x + self.segment
        x, cos_sin = self.norm_embed(x), None
        if self.config.positions == "rope":
            position = torch.as_tensor(cache.position, device=x.device).view(1, 1)
            width = self.config.width // self.config.heads
            cos_sin = rope_cos_sin(position, width, self.config.rope_base)
        for block in self.blocks:
            x = block(x, cos_sin, source, cache)
        return self.logits(self.norm_final(x))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits (N, V) of hidden vectors (N, D)."""
        return self.head.forward(self.transform(hidden))


class _PackedBlock:
    """One block of a decoder as plain operations on (N, D)."""

    def __init__(self, block: nn.Module, dtype: torch.dtype, linear_type: LinearType) -> None:
        assert isinstance(block, Block | DecoderBlock)
        attend, ffn = block.attend, block.ffn
        self.is_pre, self.heads, self.layer = block.is_pre, attend.heads, attend.layer
        self.norm_attend = _norm(block.norm_attend, linear_type)
        self.norm_cross: Function = _identity
        self.norm_ffn = _norm(block.norm_ffn, linear_type)
        self.project = _pack(attend.project, dtype, linear_type)
        self.output = _pack(attend.output, dtype, linear_type)
        self.cross: _PackedCross | None = None  # of a translator
        if isinstance(block, DecoderBlock):
            self.cross = _PackedCross(block.cross, dtype, linear_type)
            self.norm_cross = _norm(block.norm_cross, linear_type)
        fuses = ffn.activate is ACTIVATIONS["relu"] and isinstance(ffn.inner, nn.Linear)
        self.inner = _pack(ffn.inner, dtype, linear_type, "relu" if fuses else "none")
        self.outer = _pack(ffn.outer, dtype, linear_type)
        self.activate: Function = _identity if fuses else ffn.activate
        self.is_gated = ffn.is_gated

    def __call__(
        self, x: Tensor, cos_sin: Tensor | None, source: SourceKeysValues | None, cache: Cache
    ) -> Tensor:
        if self.is_pre:
            x = x + self._attend(self.norm_attend(x), cos_sin, cache)
            if self.cross is not None:
                assert source is not None
                x = x + self.cross(self.norm_cross(x), source)
            return x + self._feed_forward(self.norm_ffn(x))
        x = self.norm_attend(x + self._attend(x, cos_sin, cache))
        if self.cross is not None:
            assert source is not None
            x = self.norm_cross(x + self.cross(x, source))
        return self.norm_ffn(x + self._feed_forward(x))

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

    def _feed_forward(self, x: Tensor) -> Tensor:
        inner = self.inner.product(x)
        if self.is_gated:
            gate, inner = inner.chunk(2, -1)
            return self.outer.product(self.activate(gate) * inner)
        return self.outer.product(self.activate(inner))


class _PackedCross:
    """The attention of one block to the source."""

    def __init__(self, cross: CrossAttention, dtype: torch.dtype, linear_type: LinearType) -> None:
        self.heads, self.layer = cross.heads, cross.layer
        self.query = _pack(cross.query, dtype, linear_type)
        self.project = _pack(cross.project, dtype, linear_type)
        self.output = _pack(cross.output, dtype, linear_type)
        # On a CPU it pays to multiply query and output weights into a short source.
        self.plain = cross if linear_type is PackedLinear else None
        self.short: tuple[SourceKeysValues, _ShortSource] | None = None  # of the latest source

    def source_keys_values(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values (B, H, S, K) of the encoder output (B, S, D)."""
        B, S, _ = hidden.shape
        projected = self.project.forward(hidden).view(B, S, 2, self.heads, -1)
        keys, values = projected.permute(2, 0, 3, 1, 4).unbind(0)
        return keys, values

    def __call__(self, x: Tensor, source: SourceKeysValues) -> Tensor:
        N, D = x.shape
        keys, values = source.keys[self.layer], source.values[self.layer]
        B, H, S, _ = keys.shape
        if self.plain is not None and B == 1 and H * S <= 2 * D:
            if self.short is None or self.short[0] is not source:
                self.short = source, _ShortSource(self.plain, keys[0], values[0], source.mask)
            return self.short[1].attend(x)
        q = self.query.forward(x).view(B, N // B, H, -1).transpose(1, 2)  # (B, H, W, K)
        mixed = attend_few_queries(q, keys, values, source.mask)
        return self.output.product(mixed.transpose(1, 2).reshape(N, D))


class _ShortSource:
    """One short source with the query and output weights multiplied into it.

    Two small products replace two large ones and an attention. The result is the same, and the
    large products are most of a step's time when there is a single source.
    """

    def __init__(
        self, cross: CrossAttention, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> None:
        if mask is not None:  # padded when it was encoded in a batch
            is_token = mask[0, 0, 0]
            keys, values = keys[:, is_token], values[:, is_token]  # (H, S, K)
        H, _, K = keys.shape
        keys, D, self.heads = keys * K**-0.5, cross.query.in_features, H
        query, output = cross.query.weight.detach(), cross.output.weight.detach()
        self.scores = torch.bmm(keys, query.view(H, K, D)).view(-1, D).T  # (D, H S)
        self.score_biases = torch.bmm(keys, _bias(cross.query).view(H, K, 1)).flatten()  # (H S,)
        self.values = torch.bmm(values, output.view(D, H, K).permute(1, 2, 0)).view(-1, D)
        self.bias = _bias(cross.output)

    def attend(self, x: Tensor) -> Tensor:
        """Return the output of cross-attention for rows (N, D)."""
        N = x.shape[0]
        scores = torch.addmm(self.score_biases, x, self.scores)  # (N, H S)
        weights = scores.view(N, self.heads, -1).softmax(-1).view(N, -1)
        return torch.addmm(self.bias, weights, self.values)


def _pack(
    linear: nn.Module, dtype: torch.dtype, linear_type: LinearType, activation: str = "none"
) -> PackedLinear | CastLinear:
    """Return a linear layer for one-token steps; a packed layer is returned as it is."""
    if isinstance(linear, PackedLinear):
        return linear
    assert isinstance(linear, nn.Linear)
    return linear_type(linear.weight, linear.bias, dtype, activation)


def _pack_transform(transform: Transform, dtype: torch.dtype, linear_type: LinearType) -> Function:
    """Return the layers that BERT has before its output weights as a function."""
    dense = _pack(transform.dense, dtype, linear_type)
    activate, norm = transform.activate, _norm(transform.norm, linear_type)
    return lambda x: norm(activate(dense.forward(x)))


def _bias(linear: nn.Linear) -> Tensor:
    if linear.bias is None:
        return linear.weight.detach().new_zeros(linear.out_features)
    return linear.bias.detach()


def _identity(x: Tensor) -> Tensor:
    return x


def _norm(norm: nn.Module, linear_type: LinearType) -> Function:
    """Return a normalisation layer as a function; a missing one changes nothing."""
    if isinstance(norm, nn.Identity):
        return _identity
    shape = tuple(norm.normalized_shape)  # type: ignore[arg-type]
    weight, eps = norm.weight.detach(), float(norm.eps)  # type: ignore[arg-type, operator]
    if isinstance(norm, nn.RMSNorm):
        if linear_type is CastLinear:
            return lambda x: torch.rms_norm(x, shape, weight, eps)
        # A CPU has no kernel for RMS norm, and PyTorch takes more operations than these.
        return lambda x: x * x.square().mean(-1, True).add_(eps).rsqrt_() * weight
    bias = None if norm.bias is None else norm.bias.detach()  # type: ignore[operator]
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
