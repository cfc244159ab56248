"""The Transformer of 2017 in 80 lines: a language model, then a classifier with its backbone.

B rows, T positions, D width, H heads, K = D / H, V tokens, C labels. Next: `transformer.py`.
"""

import torch
from torch import nn


def attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, H, T, T): a row for each query
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v  # (B, H, T, K)


def causal_mask(length):
    return torch.ones(length, length, dtype=torch.bool).tril()  # (T, T); True: may be read


def sinusoids(length, width):
    angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, width, 2).double() / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()  # (T, D)


class Block(nn.Module):
    def __init__(self, width, heads, ffn_width):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.inner, self.outer = nn.Linear(width, ffn_width), nn.Linear(ffn_width, width)
        self.norm_attend, self.norm_ffn = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads = heads

    def forward(self, x, mask):
        parts = self.query(x), self.key(x), self.value(x)  # (B, T, D), split: (B, H, T, K)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        read = attention(q, k, v, mask).transpose(1, 2).flatten(2)  # joined again: (B, T, D)
        x = self.norm_attend(x + self.output(read))
        return self.norm_ffn(x + self.outer(torch.relu(self.inner(x))))


class Backbone(nn.Module):
    def __init__(self, vocab_size, width, heads, ffn_width, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.blocks = nn.ModuleList(Block(width, heads, ffn_width) for _ in range(depth))

    def forward(self, ids, mask):  # a causal mask: decoder-only; a padding mask: encoder-only
        x = self.embed(ids) * self.embed.embedding_dim**0.5  # (B, T, D)
        x = x + sinusoids(*x.shape[1:])
        for block in self.blocks:
            x = block(x, mask)
        return x


class Model(nn.Module):
    def __init__(self, backbone, num_outputs):  # V outputs: a language model; C: a classifier
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.embed.embedding_dim, num_outputs)  # random at first

    def forward(self, ids):
        return self.head(self.backbone(ids, causal_mask(ids.shape[1])))  # (B, T, V or C)


def swap_head(model, num_labels):
    return Model(model.backbone, num_labels)  # the backbone keeps its weights, and may learn


def classify(model, ids, lengths):  # the last token of a text has read all of it
    return model(ids)[torch.arange(len(ids)), lengths - 1]  # (B, T, C) -> (B, C)


def next_token_loss(logits, ids, pad):  # position t predicts token t + 1; padding is no target
    logits, targets = logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
    return nn.functional.cross_entropy(logits, targets, ignore_index=pad)


def greedy(predict, ids, end, limit):  # ids: (1, T)
    while ids.shape[1] < limit and ids[0, -1] != end:
        ids = torch.cat([ids, predict(ids)[:, -1].argmax(-1, keepdim=True)], 1)  # (1, T + 1)
    return ids
