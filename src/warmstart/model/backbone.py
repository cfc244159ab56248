"""The base Transformer: embeddings, blocks, final norm. Token ids in, hidden vectors out.

Knows nothing about tasks, losses or text.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.model.cache import Cache, LayerMemory, Memory
from warmstart.model.layers import Block, build_norm
from warmstart.model.masks import causal_mask, document_mask, padding_mask
from warmstart.model.positions import rotations, sinusoids
from warmstart.settings.model import ModelConfig


@dataclass(frozen=True)
class Layout:
    """How a batch lies in memory; what is None is absent."""

    is_token: Tensor | None = None  # (B, T) False where padded
    documents: Tensor | None = None  # (B, T) document numbers of packed rows
    positions: Tensor | None = None  # (B, T) restarting at each document
    segments: Tensor | None = None  # (B, T) segment of each token


class Backbone(nn.Module):
    """Embedding, positions, N blocks: what is pretrained and carried over.

    With `has_memory` its blocks look at a source too; without `has_embedding` it borrows one.
    """

    def __init__(
        self, config: ModelConfig, has_memory: bool = False, has_embedding: bool = True
    ) -> None:
        super().__init__()
        self.config = config
        width = config.width
        if has_embedding:
            self.embed = nn.Embedding(config.vocab_size, width)
        if config.positions == "learned":
            self.embed_positions = nn.Embedding(config.max_length, width)
        if config.positions == "sinusoidal":
            table = sinusoids(config.max_length, width, torch.device("cpu")).float()
            self.sinusoids: Tensor
            self.register_buffer("sinusoids", table, persistent=False)
        if config.segments:
            self.embed_segments = nn.Embedding(config.segments, width)
        if config.embedding_norm:
            self.norm_embed = build_norm(config.norm, width, config.biases, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            Block(
                width,
                config.heads,
                config.ffn_width,
                config.activation,
                config.norm,
                config.norm_position,
                config.dropout,
                config.biases,
                config.norm_eps,
                config.dropout if config.inner_dropout else 0.0,
                has_memory,
            )
            for _ in range(config.depth)
        )
        if config.norm_position == "pre":
            self.norm_final = build_norm(config.norm, width, config.biases, config.norm_eps)
        if config.pooler:
            self.pooler = nn.Linear(width, width, bias=config.biases)

    def forward(
        self,
        ids: Tensor,
        layout: Layout | None = None,
        cache: Cache | None = None,
        keep: list[Tensor] | None = None,
        memory: Memory | None = None,
        embedding: Tensor | None = None,
    ) -> Tensor:
        """Return hidden vectors (B, T, D); attention weights go to `keep` when it is given."""
        B, T = ids.shape
        layout = layout or Layout()
        past = cache.length if cache else 0
        positions = layout.positions
        if positions is None:
            positions = torch.arange(past, past + T, device=ids.device).expand(B, T)
        turn = None
        if self.config.positions == "rope":
            turn = rotations(
                positions, self.config.width // self.config.heads, self.config.rope_base
            )
        mask, is_causal = self._mask(ids, layout, past)
        x = self._embedded(ids, positions, layout.segments, embedding)
        for index, block in enumerate(self.blocks):
            layer = cache.layers[index] if cache else None
            source = memory.layers[index] if memory else None
            x = block(x, mask, is_causal, turn, layer, keep, source)
        return self.norm_final(x) if self.config.norm_position == "pre" else x

    def remember(
        self, source: Tensor, is_token: Tensor | None, keep: list[Tensor] | None = None
    ) -> Memory:
        """Return a source (B, S, D) as this backbone's blocks will look at it."""
        mask = None if is_token is None else padding_mask(is_token)
        layers = []
        for block in self.blocks:
            assert isinstance(block, Block)
            keys, values = block.cross.remember(source)
            layers.append(LayerMemory(keys, values, mask, keep))
        return Memory(layers)

    def pool_first(self, hidden: Tensor) -> Tensor:
        """Return the first position's vector, through the pooler where there is one."""
        first = hidden[:, 0]  # (B, D)
        return torch.tanh(self.pooler(first)) if self.config.pooler else first

    def _embedded(
        self, ids: Tensor, positions: Tensor, segments: Tensor | None, embedding: Tensor | None
    ) -> Tensor:
        x = self.embed(ids) if embedding is None else F.embedding(ids, embedding)  # (B, T, D)
        if self.config.scale_embedding:
            x = x * math.sqrt(self.config.width)
        if self.config.positions == "learned":
            x = x + self.embed_positions(positions)
        elif self.config.positions == "sinusoidal":
            x = x + self.sinusoids[positions].to(x.dtype)
        if self.config.segments:
            x = x + self.embed_segments(torch.zeros_like(ids) if segments is None else segments)
        if self.config.embedding_norm:
            x = self.norm_embed(x)
        return self.dropout(x)

    def _mask(self, ids: Tensor, layout: Layout, past: int) -> tuple[Tensor | None, bool]:
        """Return the mask that remains to be applied, and whether the kernel masks causally."""
        T = ids.shape[1]
        if self.config.attention == "bidirectional":
            masks = []
            if layout.documents is not None:
                masks.append(document_mask(layout.documents))
            if layout.is_token is not None:
                masks.append(padding_mask(layout.is_token))
            return (masks[0] & masks[-1] if masks else None), False
        # Padding stands at the right, where the causal mask hides it from every real token.
        if layout.documents is not None:
            square = causal_mask(T, past + T, ids.device)
            return square & document_mask(layout.documents), False
        if past == 0:
            return None, True
        return (None if T == 1 else causal_mask(T, past + T, ids.device)), False
