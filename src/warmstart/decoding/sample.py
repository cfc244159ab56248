"""Greedy and sampled decoding of a step function: temperature, top-k, top-p."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], Tensor]  # (N, T) prefixes, (N,) parents -> (N, V) log-probs


@dataclass(frozen=True)
class SpecialIds:
    """The ids that begin and end a generated text, and those that must not occur in it."""

    bos: int
    eos: int
    suppressed: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is drawn."""

    temperature: float = 0.0  # 0: the most probable token
    top_k: int | None = None
    top_p: float | None = None
    generator: torch.Generator | None = None  # None: PyTorch's global one


def to_log_probs(logits: Tensor) -> Tensor:
    """Return log-probabilities (N, V) in float32 or better."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def sample(
    step: Step, prefix: Sequence[int], limit: int, special: SpecialIds, sampling: Sampling
) -> list[int]:
    """Return the tokens after the prefix, up to `limit` or the end token, which is left out."""
    return list(sampled(step, prefix, limit, special, sampling))


def sampled(
    step: Step, prefix: Sequence[int], limit: int, special: SpecialIds, sampling: Sampling
) -> Iterator[int]:
    """Yield the tokens after the prefix, up to `limit` or the end token, which is left out."""
    ids = torch.tensor([list(prefix)])  # (1, T)
    only_row = torch.zeros(1, dtype=torch.long)
    suppressed = torch.tensor(list(special.suppressed), dtype=torch.long)
    for _ in range(limit):
        log_probs = step(ids, only_row)[0].float()  # (V,)
        token = draw(log_probs.index_fill(0, suppressed, float("-inf")), sampling)
        if token == special.eos:
            return
        ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
        yield token


def draw(log_probs: Tensor, sampling: Sampling) -> int:
    """Return one token, given log-probabilities (V,)."""
    if sampling.temperature == 0:
        return int(log_probs.argmax())
    # In float64, with the largest at zero: no temperature above zero overflows every logit.
    logits = ((log_probs - log_probs.max()).double() / sampling.temperature).float()
    if sampling.top_k is not None:
        top = logits.topk(min(sampling.top_k, len(logits))).indices
        logits = torch.full_like(logits, float("-inf")).index_copy(0, top, logits[top])
    probs, order = logits.softmax(-1).sort(descending=True, stable=True)
    if sampling.top_p is not None:
        is_beyond = probs.cumsum(-1) - probs >= sampling.top_p
        is_beyond[0] = False  # the most probable token always stays
        probs = probs.masked_fill(is_beyond, 0.0)
    return int(order[torch.multinomial(probs, 1, generator=sampling.generator)])
