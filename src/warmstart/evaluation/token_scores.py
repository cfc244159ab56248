"""Sum token losses over batches; no logit is kept longer than it takes to read it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from warmstart.batching.batch import move
from warmstart.kernels.loss import IGNORE
from warmstart.runtime import Runtime


@dataclass(frozen=True)
class TokenScores:
    """Summed loss and hits over predicted tokens."""

    nll: float  # in nats
    num_tokens: int
    num_right: int

    @property
    def loss(self) -> float:
        """Return the mean loss of a token."""
        return self.nll / self.num_tokens

    @property
    def accuracy(self) -> float:
        """Return the share of tokens predicted right."""
        return self.num_right / self.num_tokens


@torch.inference_mode()
def score_tokens(
    score: Callable[[Any], tuple[Tensor, Tensor]], batches: Iterable[Any], runtime: Runtime
) -> TokenScores:
    """Add up what `score` returns for each batch: its summed loss and its hits."""
    nll, num_tokens, num_right = 0.0, 0, 0
    for batch in batches:
        with runtime.precision():
            loss, right = score(move(batch, runtime.device))
        nll += float(loss)
        num_tokens += int((batch.targets != IGNORE).sum())
        num_right += int(right)
    return TokenScores(nll, num_tokens, num_right)
