"""Predict the target given the source.

Knows nothing about optimizers or decoding.
"""

from collections.abc import Sequence

from torch import Tensor

from warmstart.batching.pair_batches import PairBatch
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.models import Translator


class Translate:
    """Summed loss of every target token, given the true ones before it."""

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = smoothing  # share of each target spread over the whole vocabulary

    def count(self, group: Sequence[PairBatch]) -> dict[str, float]:
        """Count the predicted tokens."""
        return {"translate": max(1, sum(int((b.targets != IGNORE).sum()) for b in group))}

    def __call__(self, model: Translator, batch: PairBatch) -> dict[str, Tensor]:
        """Return the summed loss."""
        return {"translate": self.scored(model, batch)[0]}

    def scored(self, model: Translator, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """Return the summed loss and how many tokens were predicted right."""
        hidden = model.hidden(batch.inputs, model.remember(batch.ids, batch.is_token))
        weight, bias = model.head.weights(model.embedding)
        targets = batch.targets.flatten()
        return linear_cross_entropy(hidden.flatten(0, 1), weight, bias, targets, self.smoothing)
