"""Sum the loss and the correct predictions of tokens over batches."""

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
    """Summed loss and correct predictions over target tokens."""

    nll: float  # in nats
    num_tokens: int
    num_right: int

    @property
    def loss(self) -> float:
        return self.nll / self.num_tokens

    @property
    def accuracy(self) -> float:
        return self.num_right / self.num_tokens


@torch.inference_mode()
def score_tokens(
    score: Callable[[Any], tuple[Tensor, Tensor]], batches: Iterable[Any], runtime: Runtime
) -> TokenScores:
    """Add up what `score` returns for each batch: its summed loss and its correct predictions."""
    nll, num_tokens, num_right = 0.0, 0, 0
    for batch in batches:
        with runtime.precision():
            loss, right = score(move(batch, runtime.device))
        nll += float(loss)
        num_tokens += int((batch.targets != IGNORE).sum())
        num_right += int(right)
    return TokenScores(nll, num_tokens, num_right)
