"""Label a text.

Knows nothing about optimizers.
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from warmstart.batches.batch import LabelledBatch
from warmstart.model.body import Layout
from warmstart.model.tasks import Classifier


def class_weights(classes: Sequence[int], num_classes: int) -> list[float]:
    """Return weights that give every class the same say; all one when balanced."""
    counts = [max(1, classes.count(k)) for k in range(num_classes)]
    return [len(classes) / (num_classes * count) for count in counts]


class Classify:
    """Summed cross-entropy over labelled texts, each class with its weight."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights  # (C,)

    def count(self, group: Sequence[LabelledBatch]) -> dict[str, float]:
        """Add up the weights of the texts."""
        weights = self.weights.cpu().double()
        return {"label": sum(float(weights[batch.classes.cpu()].sum()) for batch in group)}

    def __call__(self, model: Classifier, batch: LabelledBatch) -> dict[str, Tensor]:
        """Return the summed loss."""
        logits = model(batch.ids, Layout(is_token=batch.is_token))
        weights = self.weights.to(logits)
        return {"label": F.cross_entropy(logits, batch.classes, weights, reduction="sum")}
