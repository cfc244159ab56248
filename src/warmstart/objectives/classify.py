"""Label a text, or a pair of texts.

Knows nothing about optimizers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from warmstart.batching.batch import Batch, LabelledBatch
from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier
from warmstart.settings.model import ModelConfig


def class_weights(classes: Sequence[int], num_classes: int) -> list[float]:
    """Return weights that give every class the same say; all one when balanced."""
    counts = [max(1, classes.count(k)) for k in range(num_classes)]
    return [len(classes) / (num_classes * count) for count in counts]


def text_layout(config: ModelConfig, batch: LabelledBatch) -> Layout:
    """Say where tokens are, and in which text of a pair where the model can tell."""
    has_segments = config.segments > 1
    return Layout(is_token=batch.is_token, segments=batch.segments if has_segments else None)


class Classify:
    """Summed cross-entropy over labelled texts, each class with its weight."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights  # (C,)

    def count(self, group: Sequence["LabelledBatch | VectorBatch"]) -> dict[str, float]:
        """Add up the weights of the texts."""
        weights = self.weights.cpu().double()
        return {"label": sum(float(weights[batch.classes.cpu()].sum()) for batch in group)}

    def __call__(
        self, model: Classifier, batch: "LabelledBatch | VectorBatch"
    ) -> dict[str, Tensor]:
        """Return the summed loss."""
        if isinstance(batch, VectorBatch):
            logits = label_vectors(model, batch.vectors)
        else:
            logits = model(batch.ids, text_layout(model.config, batch))
        weights = self.weights.to(logits)
        return {"label": F.cross_entropy(logits, batch.classes, weights, reduction="sum")}


@dataclass(frozen=True)
class VectorBatch(Batch):
    """Texts that a frozen base has read already; `ids` are their row numbers."""

    vectors: Tensor  # (B, D)
    classes: Tensor  # (B,)


def label_vectors(model: Classifier, vectors: Tensor) -> Tensor:
    """Return logits (B, C) of texts of which the base's vectors are known."""
    with torch.autocast(vectors.device.type, enabled=False):
        return model.head.output(model.head.dropout(vectors))
