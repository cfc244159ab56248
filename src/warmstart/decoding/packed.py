"""A translator laid out for one-token steps: for use, not for training.

Two costs decide there, and neither is arithmetic. On a CPU a plain matrix product lays the weights
out anew at every call, which costs more than the product when a step has few rows; so weights are
packed once. And a module call costs as much as a small product; so a step is a plain list of
operations, which on a GPU can be recorded. Knows nothing about how the next token is chosen.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.model.attention import CrossAttention, rotate
from warmstart.model.cache import BeamCache, LayerMemory, Memory, StaticCache
from warmstart.model.layers import ACTIVATIONS, Block
from warmstart.model.models import Translator
from warmstart.model.positions import rotations
from warmstart.runtime import Runtime

Function = Callable[[Tensor], Tensor]
Kept = BeamCache | StaticCache
SMALL = 1 << 16  # numbers in a matrix that a single row passes faster as it is
FEW = 5  # rows that a kernel with less to set up is faster for, though slower for many


class PackedLinear(nn.Module):
    """A linear layer whose weights cannot change any more."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, activation: str = "none"
    ) -> None:
        super().__init__()
        self.dtype, self.activation = dtype, activation
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype))
        self.bias = None if bias is None else bias.detach().to(dtype)
        is_small = weight.numel() <= SMALL and activation == "none"
        self.as_it_is = (weight.detach(), _detached(bias)) if is_small else None
        self.few = _packed_for_few(weight, bias, activation) if dtype == torch.bfloat16 else None

    def product(self, x: Tensor) -> Tensor:
        """Return the product, and its activation, in the layer's own precision or a better one."""
        if self.as_it_is is not None and x.numel() == x.shape[-1]:
            weight, bias = self.as_it_is
            return F.linear(x.to(weight.dtype), weight, bias)
        if self.few is not None and x.numel() <= FEW * x.shape[-1]:
            return self.few(x.to(torch.float32))
        return torch.ops.mkldnn._linear_pointwise.default(
            x.to(self.dtype), self.weight, self.bias, self.activation, [], ""
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the product in the precision of x."""
        return self.product(x).to(x.dtype)


class CastLinear(nn.Module):
    """A linear layer with its weights as they are now, in the precision of the products."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype, activation: str = "none"
    ) -> None:
        super().__init__()
        self.dtype, self.is_relu = dtype, activation == "relu"
        self.weight = weight.detach().to(dtype)
        self.bias = None if bias is None else bias.detach().to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the product, and its activation, in the layer's own precision."""
        found = F.linear(x.to(self.dtype), self.weight, self.bias)
        return found.relu_() if self.is_relu else found

    product = forward


def can_pack(runtime: Runtime) -> bool:
    """Tell whether this device has kernels for packed weights."""
    is_there = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return runtime.device.type == "cpu" and torch.backends.mkldnn.is_available() and is_there


def pack_linears(module: nn.Module, dtype: torch.dtype) -> None:
    """Replace every linear layer inside by a packed one."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and child.weight is not None:
            setattr(module, name, PackedLinear(child.weight, child.bias, dtype))
        else:
            pack_linears(child, dtype)


Kind = type[PackedLinear] | type[CastLinear]


class PackedDecoder:
    """The decoder and head of a translator as a function: tokens in, logits out."""

    def __init__(self, model: Translator, dtype: torch.dtype, kind: Kind) -> None:
        backbone = model.decoder
        self.config = backbone.config
        self.embedding = model.embedding.detach()
        self.blocks = [_PackedBlock(block, dtype, kind) for block in backbone.blocks]
        self.norm_embed = _norm(backbone.norm_embed) if self.config.embedding_norm else None
        self.norm_final = _norm(backbone.norm_final) if self.config.norm_position == "pre" else None
        self.head = kind(*model.head.weights(self.embedding), dtype)
        self.positions: Tensor | None = None  # (L, D)
        if self.config.positions == "sinusoidal":
            self.positions = backbone.sinusoids
        elif self.config.positions == "learned":
            self.positions = backbone.embed_positions.weight.detach()

    def __call__(self, tokens: Tensor, memory: Memory, cache: Kept) -> Tensor:
        """Return logits (N, V) for the token after these, the next (N,) of every row."""
        x = F.embedding(tokens, self.embedding)  # (N, D)
        if self.config.scale_embedding:
            x = x * self.config.width**0.5
        if self.positions is not None:
            x = x + self.positions[cache.place]
        if self.norm_embed is not None:
            x = self.norm_embed(x)
        turn = None
        if self.config.positions == "rope":
            here = torch.as_tensor(cache.place, device=x.device).view(1, 1)
            width = self.config.width // self.config.heads
            turn = rotations(here, width, self.config.rope_base)
        for index, block in enumerate(self.blocks):
            x = block(x, turn, memory.layers[index], cache, index)
        return self.head.forward(x if self.norm_final is None else self.norm_final(x))


class _PackedBlock:
    """One block of a decoder as plain operations on (N, D)."""

    def __init__(self, block: nn.Module, dtype: torch.dtype, kind: Kind) -> None:
        assert isinstance(block, Block)
        self.is_pre, self.heads = block.is_pre, block.attend.heads
        self.norms = [_norm(n) for n in (block.norm_attend, block.norm_cross, block.norm_ffn)]
        self.project = kind(block.attend.project.weight, block.attend.project.bias, dtype)
        self.output = kind(block.attend.output.weight, block.attend.output.bias, dtype)
        cross = block.cross
        assert isinstance(cross, CrossAttention)
        # Query and output weights are multiplied into a short source where that pays: on a CPU.
        self.by_head = _ByHead(cross) if kind is PackedLinear else None
        self.query = kind(cross.query.weight, cross.query.bias, dtype)
        self.cross_output = kind(cross.output.weight, cross.output.bias, dtype)
        self.short: tuple[LayerMemory, _ShortSource] | None = None  # the source met last
        ffn = block.ffn
        is_relu = ffn.activate is ACTIVATIONS["relu"]
        fused = "relu" if is_relu else "none"
        self.inner = kind(ffn.inner.weight, ffn.inner.bias, dtype, fused)
        self.outer = kind(ffn.outer.weight, ffn.outer.bias, dtype)
        self.activate = None if is_relu else ffn.activate
        self.is_gated = ffn.is_gated

    def __call__(
        self, x: Tensor, turn: Tensor | None, source: LayerMemory, cache: Kept, index: int
    ) -> Tensor:
        norm_attend, norm_cross, norm_ffn = self.norms
        if self.is_pre:
            x = x + self._attend(norm_attend(x), turn, cache, index)
            x = x + self._cross(norm_cross(x), source)
            return x + self._feed(norm_ffn(x))
        x = norm_attend(x + self._attend(x, turn, cache, index))
        x = norm_cross(x + self._cross(x, source))
        return norm_ffn(x + self._feed(x))

    def _attend(self, x: Tensor, turn: Tensor | None, cache: Kept, index: int) -> Tensor:
        N, D = x.shape
        W, H = cache.width, self.heads
        mixed = self.project.forward(x).view(N // W, W, 3, H, -1).permute(2, 0, 3, 1, 4)
        if turn is not None:
            mixed = torch.cat([rotate(mixed[:2], turn), mixed[2:]])
        keys, values = cache.append(index, mixed[1:])
        seen = _seen(mixed[0], keys, values, cache.mask)
        return self.output.product(seen.transpose(1, 2).reshape(N, D))

    def _cross(self, x: Tensor, source: LayerMemory) -> Tensor:
        N, D = x.shape
        B, H, S, _ = source.keys.shape
        if self.by_head is not None and B == 1 and H * S <= 2 * D:
            met, short = self.short or (None, None)
            if met is not source or short is None:
                short = _ShortSource(self.by_head, source)
                self.short = source, short
            return short.look(x)
        q = self.query.forward(x).view(B, N // B, self.heads, -1).transpose(1, 2)  # (B, H, W, K)
        seen = _seen(q, source.keys, source.values, source.mask)
        return self.cross_output.product(seen.transpose(1, 2).reshape(N, D))

    def _feed(self, x: Tensor) -> Tensor:
        inner = self.inner.product(x)
        if self.is_gated:
            assert self.activate is not None
            gate, inner = inner.chunk(2, -1)
            inner = self.activate(gate) * inner
        elif self.activate is not None:
            inner = self.activate(inner)
        return self.outer.product(inner)


def _seen(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Mix values by attention weights, for few queries (B, H, W, K) of many sources.

    On a CPU a fused kernel sets up more for every source than it then computes, unless each has a
    single query.
    """
    B, H, W, K = q.shape
    if q.device.type != "cpu" or 1 in (B, W):
        return F.scaled_dot_product_attention(q, keys, values, mask)
    scores = torch.bmm(q.reshape(B * H, W, K), keys.flatten(0, 1).transpose(1, 2))
    scores = scores.mul_(K**-0.5).view(B, H, W, -1)
    if mask is not None and mask.dtype == torch.bool:
        scores.masked_fill_(~mask, -torch.inf)
    elif mask is not None:
        scores.add_(mask)
    return torch.bmm(scores.softmax(-1).flatten(0, 1), values.flatten(0, 1)).view(B, H, W, K)


class _ByHead:
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

    Two small products in place of two large ones and an attention: the same result, and the large
    ones are most of a step's time when there is a single source.
    """

    def __init__(self, weights: _ByHead, source: LayerMemory) -> None:
        keys, values = source.keys[0], source.values[0]  # (H, S, K)
        if source.mask is not None:  # padded when others were read with it
            is_token = source.mask[0, 0, 0]
            keys, values = keys[:, is_token], values[:, is_token]
        self.heads = len(keys)
        D = weights.query.shape[2]
        self.scores = torch.bmm(keys, weights.query).view(-1, D).T  # (D, H S)
        self.offsets = torch.bmm(keys, weights.query_bias).flatten()  # (H S,)
        self.values = torch.bmm(values, weights.output).view(-1, D)  # (H S, D)
        self.bias = weights.output_bias

    def look(self, x: Tensor) -> Tensor:
        """Return what rows (N, D) see in the source."""
        scores = torch.addmm(self.offsets, x, self.scores)  # (N, H S)
        weights = scores.view(len(x), self.heads, -1).softmax(-1).view(len(x), -1)
        return torch.addmm(self.bias, weights, self.values)


def _packed_for_few(weight: Tensor, bias: Tensor | None, activation: str) -> Function | None:
    """Return the product with weights in float16, where there are kernels for it."""
    names = {"none": "linear_dynamic_fp16", "relu": "linear_relu_dynamic_fp16"}
    if torch.backends.quantized.engine not in ("fbgemm", "x86"):
        return None
    kernel = getattr(torch.ops.quantized, names[activation]).default
    floats = None if bias is None else bias.detach().float()
    packed = torch.ops.quantized.linear_prepack_fp16(weight.detach().float(), floats)
    return lambda x: kernel(x, packed)


def _detached(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else bias.detach()


def _bias(linear: nn.Linear) -> Tensor:
    if linear.bias is None:
        return linear.weight.detach().new_zeros(linear.out_features)
    return linear.bias.detach()


def _norm(norm: nn.Module) -> Function:
    """Return a normalisation as a function."""
    shape = tuple(norm.normalized_shape)  # type: ignore[arg-type]
    weight, eps = norm.weight.detach(), float(norm.eps)  # type: ignore[arg-type, operator]
    if isinstance(norm, nn.RMSNorm):
        return lambda x: torch.rms_norm(x, shape, weight, eps)
    bias = None if norm.bias is None else norm.bias.detach()  # type: ignore[operator]
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
