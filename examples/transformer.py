"""The Transformer on one page: encoder, decoder, language model, translator, generation.

Sizes in comments: B rows of a batch, T positions, S positions of the source, D width, H heads,
K = D / H, F inner width, V tokens of the vocabulary. Each line that changes a shape says so.
`python examples/characters.py` trains such a model on this file and lets it write.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """Sizes and choices. The defaults are those of 2017; comments name what came later."""

    vocab_size: int
    width: int = 512
    depth: int = 6
    heads: int = 8
    ffn_width: int = 2048
    max_length: int = 256
    norm: str = "layer"  # or rms: divides by the root mean square, subtracts no mean
    norm_position: str = "post"  # or pre: x + sublayer(norm(x)), which needs less warmup
    positions: str = "sinusoidal"  # or learned: a table; or rope: rotates queries and keys
    activation: str = "relu"  # or gelu; or swiglu: silu(gate) * inner
    tied: bool = True  # the output weights are the embedding
    biases: bool = True
    dropout: float = 0.1


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Return softmax(QK' / sqrt(K)) V; the mask is True where a query may see a key."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, S)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)  # each row sums to one
    return weights @ v  # (B, H, T, K)


def causal_mask(length: int) -> Tensor:
    """Let a position see itself and what precedes it: a lower triangle (T, T)."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def angles(length: int, num: int) -> Tensor:
    """Return position times frequency (T, num); frequencies fall from 1 towards 1 / 10,000."""
    frequencies = 10_000.0 ** (-torch.arange(num, dtype=torch.float64) / num)
    return torch.arange(length)[:, None] * frequencies


def sinusoids(length: int, width: int) -> Tensor:
    """Return sin in even columns and cos in odd ones (T, D): a shift is then a rotation."""
    angle = angles(length, width // 2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float()


def rotate(x: Tensor) -> Tensor:
    """Rotate the pairs (k, k + K / 2) of (B, H, T, K) by the angle of their position."""
    angle = angles(x.shape[2], x.shape[3] // 2)  # (T, K / 2)
    cos, sin = angle.cos().float(), angle.sin().float()
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class MultiHeadAttention(nn.Module):
    """Queries from x; keys and values from x itself or, across, from a source."""

    def __init__(self, c: Config, is_rotary: bool) -> None:
        super().__init__()
        self.heads, self.is_rotary = c.heads, is_rotary
        self.query = nn.Linear(c.width, c.width, bias=c.biases)  # W_Q
        self.key = nn.Linear(c.width, c.width, bias=c.biases)  # W_K
        self.value = nn.Linear(c.width, c.width, bias=c.biases)  # W_V
        self.output = nn.Linear(c.width, c.width, bias=c.biases)  # W_O

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, T, D) -> (B, H, T, K)

    def forward(self, x: Tensor, source: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.query(x), self.key(source), self.value(source)
        q, k, v = self.split(q), self.split(k), self.split(v)  # (B, H, T or S, K)
        if self.is_rotary:
            q, k = rotate(q), rotate(k)
        return self.output(attention(q, k, v, mask).transpose(1, 2).flatten(2))  # (B, T, D)


class FeedForward(nn.Module):
    """Two linear layers at each position by itself; only attention mixes positions."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.activation = c.activation
        inner_width = 2 * c.ffn_width if c.activation == "swiglu" else c.ffn_width
        self.inner = nn.Linear(c.width, inner_width, bias=c.biases)
        self.outer = nn.Linear(c.ffn_width, c.width, bias=c.biases)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)  # (B, T, F), with swiglu (B, T, 2 F)
        if self.activation == "swiglu":
            gate, x = x.chunk(2, -1)
            return self.outer(F.silu(gate) * x)  # (B, T, D)
        return self.outer(F.gelu(x) if self.activation == "gelu" else F.relu(x))  # (B, T, D)


def build_norm(c: Config) -> nn.Module:
    """Return a norm over the D numbers of one position: no batch, no other position."""
    return nn.RMSNorm(c.width, 1e-5) if c.norm == "rms" else nn.LayerNorm(c.width, bias=c.biases)


class Block(nn.Module):
    """Self-attention; in a decoder, attention to the source; feed-forward."""

    def __init__(self, c: Config, has_source: bool) -> None:
        super().__init__()
        self.is_pre, self.dropout = c.norm_position == "pre", nn.Dropout(c.dropout)
        self.attend, self.norm_attend = MultiHeadAttention(c, c.positions == "rope"), build_norm(c)
        if has_source:
            self.cross, self.norm_cross = MultiHeadAttention(c, False), build_norm(c)
        self.ffn, self.norm_ffn = FeedForward(c), build_norm(c)

    def residual(self, x: Tensor, norm: nn.Module, sublayer) -> Tensor:
        if self.is_pre:
            return x + self.dropout(sublayer(norm(x)))
        return norm(x + self.dropout(sublayer(x)))

    def forward(self, x: Tensor, mask: Tensor, source=None, source_mask=None) -> Tensor:
        x = self.residual(x, self.norm_attend, lambda x: self.attend(x, x, mask))
        if source is not None:
            x = self.residual(x, self.norm_cross, lambda x: self.cross(x, source, source_mask))
        return self.residual(x, self.norm_ffn, self.ffn)  # (B, T, D)


class Stack(nn.Module):
    """Embedding, positions, N blocks: an encoder, a decoder, a GPT or a BERT without its head."""

    def __init__(self, c: Config, has_source: bool = False) -> None:
        super().__init__()
        self.config, self.dropout = c, nn.Dropout(c.dropout)
        self.embed = nn.Embedding(c.vocab_size, c.width)
        nn.init.normal_(self.embed.weight, std=c.width**-0.5)
        if c.positions == "learned":
            self.embed_positions = nn.Embedding(c.max_length, c.width)
        self.blocks = nn.ModuleList(Block(c, has_source) for _ in range(c.depth))
        self.norm_final = build_norm(c) if c.norm_position == "pre" else nn.Identity()

    def forward(self, ids: Tensor, mask: Tensor, source=None, source_mask=None) -> Tensor:
        x, length, width = self.embed(ids), ids.shape[1], self.config.width  # (B, T, D)
        if self.config.positions == "sinusoidal":
            x = x * math.sqrt(width) + sinusoids(length, width)
        if self.config.positions == "learned":
            x = x + self.embed_positions.weight[:length]
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x, mask, source, source_mask)
        return self.norm_final(x)  # (B, T, D)


class LanguageModel(nn.Module):
    """A backbone and a linear head: logits of the token that follows each position."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.backbone = Stack(c)
        self.head = nn.Linear(c.width, c.vocab_size, bias=c.biases)
        if c.tied:
            self.head.weight = self.backbone.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.backbone(ids, causal_mask(ids.shape[1])))  # (B, T, V)


class Translator(nn.Module):
    """An encoder that sees the whole source; a decoder that sees it and the target so far."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.encoder, self.decoder = Stack(c), Stack(c, has_source=True)
        self.head = nn.Linear(c.width, c.vocab_size, bias=c.biases)
        self.decoder.embed = self.encoder.embed  # one vocabulary for both languages
        if c.tied:
            self.head.weight = self.encoder.embed.weight

    def forward(self, source: Tensor, is_token: Tensor, target: Tensor) -> Tensor:
        mask = is_token[:, None, None]  # (B, 1, 1, S): no query sees padding
        encoded = self.encoder(source, mask)  # (B, S, D)
        return self.head(self.decoder(target, causal_mask(target.shape[1]), encoded, mask))


@torch.inference_mode()
def generate(predict, ids: Tensor, limit: int, temperature: float = 0.0, end: int = -1) -> Tensor:
    """Append the likeliest tokens, or samples, to rows (B, T), until `end` or `limit` tokens."""
    while ids.shape[1] < limit and not (ids[:, -1] == end).all():
        logits = predict(ids)[:, -1]  # (B, V); the last position predicts the next token
        following = logits.argmax(-1, keepdim=True)  # (B, 1)
        if temperature:
            following = (logits / temperature).softmax(-1).multinomial(1)  # (B, 1)
        ids = torch.cat([ids, following.where(ids[:, -1:] != end, end)], 1)  # (B, T + 1)
    return ids
