"""Greedy and sampled decoding: temperature, top-k, top-p.

Sees a step function, never a Transformer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], Tensor]  # (N, T) prefixes, (N,) parents -> (N, V) log-probs


def log_probs(logits: Tensor) -> Tensor:
    """Return log-probabilities (N, V) in float32 or better."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is drawn."""

    temperature: float = 0.0  # 0: the likeliest token
    top_k: int | None = None
    top_p: float | None = None


def sample(
    step: Step,
    prefix: Sequence[int],
    eos: int,
    limit: int,
    sampling: Sampling,
    generator: torch.Generator,
    forbidden: Sequence[int] = (),
) -> list[int]:
    """Return the tokens that follow the prefix, up to `limit` or the end token (left out)."""
    ids = torch.tensor([list(prefix)])  # (1, T)
    only_row = torch.zeros(1, dtype=torch.long)
    never = torch.tensor(list(forbidden), dtype=torch.long)
    for _ in range(limit):
        logs = step(ids, only_row)[0].float().index_fill(0, never, float("-inf"))  # (V,)
        token = draw(logs, sampling, generator)
        if token == eos:
            break
        ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
    return [int(token) for token in ids[0, len(prefix) :]]


def draw(logs: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """Return one token for log-probabilities (V,)."""
    if sampling.temperature == 0:
        return int(logs.argmax())
    logs = logs / sampling.temperature
    if sampling.top_k is not None:
        kept = logs.topk(min(sampling.top_k, len(logs))).indices
        logs = torch.full_like(logs, float("-inf")).index_copy(0, kept, logs[kept])
    shares, order = logs.softmax(-1).sort(descending=True, stable=True)
    if sampling.top_p is not None:
        before = shares.cumsum(-1) - shares  # the likeliest token is always kept
        shares = shares.masked_fill(before >= sampling.top_p, 0.0)
    return int(order[torch.multinomial(shares, 1, generator=generator)])
