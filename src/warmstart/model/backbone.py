"""The backbone: embeddings, blocks, final norm. Token ids in, hidden vectors out."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from warmstart.errors import WarmstartError
from warmstart.kernels.documents import splits_documents, text_bounds
from warmstart.kernels.layers import Dropout, grid_of
from warmstart.model.attention import (
    AttentionContext,
    KeyValueCache,
    causal_mask,
    document_mask,
    padding_mask,
    rope_cos_sin,
    sinusoids,
    window_mask,
)
from warmstart.model.layers import Block, BlockOptions, DecoderBlock, build_norm
from warmstart.runtime import total_memory
from warmstart.settings.model import ModelConfig


@dataclass(frozen=True)
class Layout:
    """How a batch lies in memory; None where absent."""

    is_token: Tensor | None = None  # (B, T) False where padded, at the right
    documents: Tensor | None = None  # (B, T) document numbers of packed rows
    positions: Tensor | None = None  # (B, T) restarting at each document
    segments: Tensor | None = None  # (B, T) segment of each token
    skips_padding: bool = False  # on a CPU only attention computes padding; the result has zeros
    bounds: Tensor | None = None  # (N + 1,) where documents begin, in rows laid side by side


class Stack(nn.Module):
    """What an encoder and a decoder have in common: embeddings, N blocks, a final norm."""

    def __init__(
        self,
        config: ModelConfig,
        block_type: type[Block] | type[DecoderBlock],
        embed: nn.Embedding | None,
    ) -> None:
        check_memory(config)
        super().__init__()
        self.config = config
        width = config.width
        if embed is not None:
            self.embed = embed
        if config.position_encoding == "learned":
            self.embed_positions = nn.Embedding(config.max_length, width)
        if config.position_encoding == "sinusoidal":
            table = sinusoids(config.max_length, width, torch.device("cpu")).float()
            self.sinusoids: Tensor
            self.register_buffer("sinusoids", table, persistent=False)
        if config.segments:
            self.embed_segments = nn.Embedding(config.segments, width)
        if config.embedding_norm:
            self.norm_embed = build_norm(config.norm_kind, width, config.biases, config.norm_eps)
        self.dropout = Dropout(config.dropout)
        options = block_options(config)
        self.blocks = nn.ModuleList(block_type(options, layer) for layer in range(config.depth))
        if not config.first_norm:
            self.blocks[0].norm_attend = nn.Identity()
        self.is_recomputed = False  # blocks are computed again in the backward pass
        if config.norm_position == "pre":
            self.norm_final = build_norm(config.norm_kind, width, config.biases, config.norm_eps)

    def prepare(
        self,
        tokens: Tensor,
        layout: Layout,
        cache: KeyValueCache | None,
        attention_weights: list[Tensor] | None,
    ) -> tuple[Tensor, list[AttentionContext]]:
        """Return what enters the blocks, from the embeddings of tokens (B, T, D).

        Where padding is skipped, tokens enter side by side: (1, N, D).
        """
        B, T, _ = tokens.shape
        num_past = cache.length if cache is not None else 0
        positions = layout.positions
        if positions is None:
            positions = torch.arange(num_past, num_past + T, device=tokens.device).expand(B, T)
        cos_sin = self._cos_sin(positions, self.config.rope_base)
        bounds = None
        if cache is None and attention_weights is None:
            bounds = self._bounds(layout, tokens.device)
        mask, is_causal = (
            (None, self.config.is_causal)
            if bounds is not None
            else self._mask(layout, tokens, num_past)
        )
        is_scaled = self.config.ablated != "scale"
        grid = grid_of(layout.is_token) if layout.skips_padding else None
        context = AttentionContext(
            mask, is_causal, cos_sin, cache, is_scaled, attention_weights, grid, bounds
        )
        x = self._add_positions(tokens, positions, layout.segments)
        x = x if grid is None else grid.side_by_side(x)
        return x, self.context_by_block(context, positions)

    def context_by_block(
        self, context: AttentionContext, positions: Tensor
    ) -> list[AttentionContext]:
        """Return the context of each block: local blocks see a window and have their own angles."""
        config = self.config
        if not config.local_window:
            return [context] * config.depth
        window = window_mask(positions.shape[1], config.local_window, positions.device)
        mask = window if context.mask is None else context.mask & window
        cos_sin = self._cos_sin(positions, config.local_rope_base)
        local = replace(context, mask=mask, cos_sin=cos_sin)
        return [local if config.is_local(layer) else context for layer in range(config.depth)]

    def run_block(self, block: nn.Module, *inputs: Any) -> Tensor:
        """Apply a block; its activations are kept for the backward pass, or recomputed in it."""
        if self.is_recomputed and torch.is_grad_enabled():
            return checkpoint(block, *inputs, use_reentrant=False)
        return block(*inputs)

    def normalize(self, x: Tensor) -> Tensor:
        """Apply the final norm, which follows pre-norm blocks only."""
        return self.norm_final(x) if self.config.norm_position == "pre" else x

    def _add_positions(self, x: Tensor, positions: Tensor, segments: Tensor | None) -> Tensor:
        """Scale token embeddings; add those of positions and segments; normalise and drop."""
        config = self.config
        if config.scale_embedding:
            x = x * math.sqrt(config.width)
        if config.position_encoding == "learned":
            x = x + self.embed_positions(positions)
        elif config.position_encoding == "sinusoidal":
            x = x + self.sinusoids[positions].to(x.dtype)
        if config.segments:
            if segments is None or config.segments == 1:
                segments = torch.zeros_like(positions)
            x = x + self.embed_segments(segments)
        if config.embedding_norm:
            x = self.norm_embed(x)
        return self.dropout(x)

    def _cos_sin(self, positions: Tensor, base: float) -> Tensor | None:
        """Return cos and sin of rotary positions; None: the model has none."""
        if self.config.position_encoding != "rope":
            return None
        return rope_cos_sin(positions, self.config.width // self.config.heads, base)

    def _bounds(self, layout: Layout, device: torch.device) -> Tensor | None:
        """Return the bounds of documents, or of texts in training; None: masks keep them apart."""
        config = self.config
        has_dropout = self.training and config.inner_dropout and config.dropout > 0
        if has_dropout or config.local_window:
            return None
        if not splits_documents(device, config.width // config.heads):
            return None
        if layout.is_token is None:
            return layout.bounds
        is_alone = layout.documents is None and self.training and not config.is_causal
        return text_bounds(layout.is_token) if is_alone else None

    def _mask(self, layout: Layout, tokens: Tensor, num_past: int) -> tuple[Tensor | None, bool]:
        """Return the mask to apply, and whether the kernel masks causally instead."""
        T, device = tokens.shape[1], tokens.device
        if not self.config.is_causal:
            masks = []
            if layout.documents is not None:
                masks.append(document_mask(layout.documents))
            if layout.is_token is not None:
                masks.append(padding_mask(layout.is_token))
            return (masks[0] & masks[-1] if masks else None), False
        # Padding is at the right, where the causal mask hides it from every token.
        if layout.documents is not None:
            causal = causal_mask(T, num_past + T, device)
            return causal & document_mask(layout.documents), False
        if num_past == 0:
            return None, True
        return (None if T == 1 else causal_mask(T, num_past + T, device)), False


class Backbone(Stack):
    """The Transformer without its head: what is pretrained and transferred.

    With bidirectional attention it is the encoder of the 2017 paper, with causal attention a GPT.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, Block, nn.Embedding(config.vocab_size, config.width))
        if config.pooler:
            self.pooler = nn.Linear(config.width, config.width, bias=config.biases)

    def forward(
        self,
        ids: Tensor,
        layout: Layout | None = None,
        cache: KeyValueCache | None = None,
        attention_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return hidden vectors (B, T, D); `attention_weights` receives (B, H, T, S) per layer.

        A backbone with fewer than two segment embeddings reads every segment as the first.
        """
        x, contexts = self.prepare(self.embed(ids), layout or Layout(), cache, attention_weights)
        for block, context in zip(self.blocks, contexts, strict=True):
            x = self.run_block(block, x, context)
        x, grid = self.normalize(x), contexts[0].grid
        return x if grid is None else grid.in_rows(x)

    def pool_first(self, hidden: Tensor) -> Tensor:
        """Return the first position's vector (B, D), through the pooler where there is one."""
        first = hidden[:, 0]
        return torch.tanh(self.pooler(first)) if self.config.pooler else first


def recompute_activations(model: nn.Module) -> None:
    """Keep only what enters each block; the backward pass computes the rest again."""
    for module in model.modules():
        if isinstance(module, Stack):
            module.is_recomputed = True


def check_memory(config: ModelConfig) -> None:
    """Refuse a model whose weights do not fit into this machine, before anything is allocated."""
    memory = total_memory()
    if memory is not None and 4 * config.num_large_parameters > memory:
        raise WarmstartError(
            f"the weights of this model need {4 * config.num_large_parameters / 2**30:,.0f} GiB, "
            f"and this machine has {memory / 2**30:,.0f}: lower --width, --ffn-width, --depth, "
            "--max-length or --vocab-size"
        )


def block_options(config: ModelConfig) -> BlockOptions:
    """Return what a model's blocks need to know of its config."""
    return BlockOptions(
        width=config.width,
        heads=config.heads,
        ffn_width=config.ffn_width,
        activation=config.activation,
        norm=config.norm_kind,
        norm_position=config.norm_position,
        norm_eps=config.norm_eps,
        biases=config.biases,
        dropout=config.dropout,
        inner_dropout=config.dropout if config.inner_dropout else 0.0,
        has_residual=config.ablated != "residual",
    )
