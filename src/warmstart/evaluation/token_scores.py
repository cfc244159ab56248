"""Scores of language models, summed over batches or kept by row, and their intervals."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.batch import move
from warmstart.evaluation.metrics import perplexity_of
from warmstart.kernels.loss import IGNORE
from warmstart.results.summary import Interval
from warmstart.runtime import Runtime

Floats = NDArray[np.float64]
RESAMPLES = 2000


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


@dataclass(frozen=True)
class MaskedRows:
    """The scores of each row; `pair_` columns are empty where rows are not pairs."""

    counts: Floats  # (rows,) masked tokens
    losses: Floats  # (rows,) summed over them, in nats
    right: Floats  # (rows,) masked tokens predicted correctly
    pair_losses: Floats  # (rows,) in nats
    pair_right: Floats  # (rows,) 0 or 1

    def figures(self) -> dict[str, float]:
        """Return loss and accuracy of each task, and the sum of the losses."""
        num = max(1.0, float(self.counts.sum()))
        loss = float(self.losses.sum()) / num
        scores = {
            "loss": loss,
            "mlm_loss": loss,
            "mlm_accuracy": float(self.right.sum()) / num,
            "pseudo_perplexity": perplexity_of(loss),
        }
        if len(self.pair_losses):
            pair_loss = float(self.pair_losses.mean())
            scores["loss"] = loss + pair_loss
            scores["nsp_loss"] = pair_loss
            scores["nsp_accuracy"] = float(self.pair_right.mean())
        return scores

    def intervals(self) -> dict[str, Interval]:
        """Return 95% intervals over resampled rows: tokens of one row are not independent."""
        means = self.figures()
        rng, num_rows = np.random.Generator(np.random.PCG64(0)), len(self.counts)
        resampled = []
        for _ in range(RESAMPLES):
            rows = rng.integers(0, num_rows, num_rows)
            columns = (column[rows] if len(column) else column for column in vars(self).values())
            resampled.append(MaskedRows(*columns).figures())
        intervals = {}
        for name, mean in means.items():
            if name.endswith(("_accuracy", "perplexity")):
                low, high = np.quantile([scores[name] for scores in resampled], [0.025, 0.975])
                intervals[name] = Interval(mean=mean, low=float(low), high=float(high))
        return intervals
