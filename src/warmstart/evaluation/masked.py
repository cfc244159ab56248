"""Score a masked language model over batches with hidden tokens, row by row.

Knows nothing about files; never keeps a logit longer than it takes to read it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.batch import MaskedBatch, move
from warmstart.evaluation.metrics import perplexity_of
from warmstart.kernels.loss import HELD, IGNORE
from warmstart.model.models import LanguageModel
from warmstart.objectives.masked import read
from warmstart.results.summary import Interval
from warmstart.runtime import Runtime

Floats = NDArray[np.float64]

RESAMPLES = 2000


@dataclass(frozen=True)
class MaskedRows:
    """What became of each row; pairs are empty where rows are no pairs."""

    counts: Floats  # (rows,) hidden tokens
    losses: Floats  # (rows,) summed over them, in nats
    right: Floats  # (rows,) restored
    pair_losses: Floats  # (rows,) in nats
    pair_right: Floats  # (rows,) 0 or 1

    def figures(self) -> dict[str, float]:
        """Return loss and accuracy of each task, and the sum of the losses."""
        num = max(1.0, float(self.counts.sum()))
        loss = float(self.losses.sum()) / num
        found = {
            "loss": loss,
            "mlm_loss": loss,
            "mlm_accuracy": float(self.right.sum()) / num,
            "pseudo_perplexity": perplexity_of(loss),
        }
        if len(self.pair_losses):
            pair_loss = float(self.pair_losses.mean())
            found["loss"] = loss + pair_loss
            found["nsp_loss"] = pair_loss
            found["nsp_accuracy"] = float(self.pair_right.mean())
        return found

    def intervals(self) -> dict[str, Interval]:
        """Return 95% intervals: rows are drawn again, as tokens of one row are not independent."""
        means = self.figures()
        names = [name for name in means if name.endswith(("_accuracy", "perplexity"))]
        rng = np.random.Generator(np.random.PCG64(0))
        drawn = [self._drawn(rng).figures() for _ in range(RESAMPLES)]
        return {name: _interval(means[name], [one[name] for one in drawn]) for name in names}

    def _drawn(self, rng: np.random.Generator) -> "MaskedRows":
        rows = rng.integers(0, len(self.counts), len(self.counts))
        pairs = rows if len(self.pair_losses) else rows[:0]
        return MaskedRows(
            self.counts[rows],
            self.losses[rows],
            self.right[rows],
            self.pair_losses[pairs],
            self.pair_right[pairs],
        )


@torch.inference_mode()
def score_masked(
    model: LanguageModel, batches: Iterable[MaskedBatch], runtime: Runtime
) -> MaskedRows:
    """Score every row."""
    columns: list[list[float]] = [[], [], [], [], []]
    for batch in batches:
        moved = move(batch, runtime.device)
        with runtime.precision():
            found = read(model, moved)
            losses, right = _token_scores(model, found.hidden, moved.targets)
        columns[0] += (batch.targets != IGNORE).sum(1).tolist()
        columns[1] += losses.sum(1).tolist()
        columns[2] += right.sum(1).tolist()
        if found.pairs is not None and moved.classes is not None:
            logits = found.pairs.double()
            columns[3] += F.cross_entropy(logits, moved.classes, reduction="none").tolist()
            columns[4] += (logits.argmax(1) == moved.classes).tolist()
    return MaskedRows(*(np.array(column, np.float64) for column in columns))


def _token_scores(model: LanguageModel, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return loss and success of every hidden token, both (B, P); unused places have neither."""
    weight, bias = model.head.weights(model.backbone.embed.weight)
    size = max(1, HELD[hidden.device.type] // len(weight))
    losses, right = [], []
    for part, wanted in zip(
        hidden.flatten(0, 1).split(size), targets.flatten().split(size), strict=True
    ):
        logits = F.linear(part, weight, bias).to(weight.dtype)  # (n, V)
        losses.append(F.cross_entropy(logits, wanted, ignore_index=IGNORE, reduction="none"))
        right.append(logits.argmax(1) == wanted)
    return torch.cat(losses).double().view_as(targets), torch.cat(right).view_as(targets)


def _interval(mean: float, values: list[float]) -> Interval:
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(mean=mean, low=float(low), high=float(high))
