"""Predict the next token.

Knows nothing about optimizers.
"""

from collections.abc import Sequence

from torch import Tensor

from warmstart.batching.batch import PackedBatch
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel


class Causal:
    """Summed next-token loss over packed rows."""

    def count(self, group: Sequence[PackedBatch]) -> dict[str, float]:
        """Count the predicted tokens."""
        return {"lm": max(1, sum(int((batch.targets != IGNORE).sum()) for batch in group))}

    def __call__(self, model: LanguageModel, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the summed loss."""
        return {"lm": self.scored(model, batch)[0]}

    def scored(self, model: LanguageModel, batch: PackedBatch) -> tuple[Tensor, Tensor]:
        """Return the summed loss and how many tokens were predicted right."""
        layout = Layout(documents=batch.documents, positions=batch.positions)
        hidden = model.head.transform(model.backbone(batch.ids, layout))
        weight, bias = model.head.weights(model.backbone.embed.weight)
        return linear_cross_entropy(hidden.flatten(0, 1), weight, bias, batch.targets.flatten())
