"""Greedy and sampled decoding of a step function: temperature, top-k, top-p."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from warmstart.errors import OVERFLOW, WarmstartError

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


def sampled_together(
    step: Step,
    prefix: Sequence[int],
    limit: int,
    special: SpecialIds,
    samplings: Sequence[Sampling],
) -> Iterator[dict[int, int]]:
    """Continue a prefix as often as there are samplings; yield the next token of each text.

    A text that has ended is missing.
    """
    texts = list(range(len(samplings)))  # that have not ended: a row each
    prefixes, parents = torch.tensor([list(prefix)] * len(texts)), torch.arange(len(texts))
    suppressed = torch.tensor(list(special.suppressed), dtype=torch.long)
    for _ in range(limit):
        log_probs = step(prefixes, parents).float().index_fill(1, suppressed, float("-inf"))
        tokens = [draw(row, samplings[text]) for row, text in zip(log_probs, texts, strict=True)]
        parents = torch.tensor([row for row, token in enumerate(tokens) if token != special.eos])
        if not len(parents):
            return
        texts, tokens = ([kept[row] for row in parents.tolist()] for kept in (texts, tokens))
        prefixes = torch.cat([prefixes[parents], torch.tensor(tokens)[:, None]], dim=1)
        yield dict(zip(texts, tokens, strict=True))


def draw(log_probs: Tensor, sampling: Sampling) -> int:
    """Return one token, given log-probabilities (V,)."""
    largest, token = log_probs.max(0)
    if largest.isnan():
        raise WarmstartError(f"the model's probabilities are NaN; {OVERFLOW}")
    if sampling.temperature == 0:
        return int(token)
    # In float64, with the largest at zero: no temperature above zero overflows every logit.
    logits = ((log_probs - largest).double() / sampling.temperature).float()
    if sampling.top_k is not None:
        top = logits.topk(min(sampling.top_k, len(logits))).indices
        logits = torch.full_like(logits, float("-inf")).index_copy(0, top, logits[top])
    probs = logits.softmax(-1)
    if sampling.top_p is None:
        return int(torch.multinomial(probs, 1, generator=sampling.generator))
    probs, order = probs.sort(descending=True, stable=True)
    is_beyond = probs.cumsum(-1) - probs >= sampling.top_p
    is_beyond[0] = False  # the most probable token always stays
    probs = probs.masked_fill(is_beyond, 0.0)
    return int(order[torch.multinomial(probs, 1, generator=sampling.generator)])
