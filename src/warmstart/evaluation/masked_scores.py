"""Scores of a masked language model, row by row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.evaluation.metrics import perplexity_of
from warmstart.results.summary import Interval

Floats = NDArray[np.float64]

RESAMPLES = 2000


@dataclass(frozen=True)
class MaskedRows:
    """The scores of each row; those of pairs are empty where rows are not pairs."""

    counts: Floats  # (rows,) masked tokens
    losses: Floats  # (rows,) summed over them, in nats
    right: Floats  # (rows,) restored
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
        names = [name for name in means if name.endswith(("_accuracy", "perplexity"))]
        rng = np.random.Generator(np.random.PCG64(0))
        resampled = [self._resampled(rng).figures() for _ in range(RESAMPLES)]
        return {
            name: _interval(means[name], [scores[name] for scores in resampled]) for name in names
        }

    def _resampled(self, rng: np.random.Generator) -> "MaskedRows":
        rows = rng.integers(0, len(self.counts), len(self.counts))
        pairs = rows if len(self.pair_losses) else rows[:0]
        return MaskedRows(
            self.counts[rows],
            self.losses[rows],
            self.right[rows],
            self.pair_losses[pairs],
            self.pair_right[pairs],
        )


def _interval(mean: float, values: list[float]) -> Interval:
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(mean=mean, low=float(low), high=float(high))
