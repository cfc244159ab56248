"""Restore hidden tokens and, where rows are pairs, judge whether the second segment follows.

Knows nothing about optimizers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from warmstart.batching.batch import MaskedBatch
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel


@dataclass(frozen=True)
class Outcome:
    """What a model made of a batch: the vectors that predict, and its word on the pairs."""

    hidden: Tensor  # (B, P, D) ready for the output weights
    pairs: Tensor | None  # (B, 2) logits: follows, does not


class Masked:
    """BERT's two losses, each summed."""

    def count(self, group: Sequence[MaskedBatch]) -> dict[str, float]:
        """Count the hidden tokens, and the pairs where there are any."""
        hidden = sum(int((batch.targets != IGNORE).sum()) for batch in group)
        pairs = sum(len(batch.classes) for batch in group if batch.classes is not None)
        return {"mlm": max(1, hidden), **({"nsp": pairs} if pairs else {})}

    def __call__(self, model: LanguageModel, batch: MaskedBatch) -> dict[str, Tensor]:
        """Return the summed losses."""
        found = read(model, batch)
        weight, bias = model.head.weights(model.backbone.embed.weight)
        hidden, targets = found.hidden.flatten(0, 1), batch.targets.flatten()
        sums = {"mlm": linear_cross_entropy(hidden, weight, bias, targets)[0]}
        if found.pairs is not None and batch.classes is not None:
            sums["nsp"] = F.cross_entropy(found.pairs, batch.classes, reduction="sum")
        return sums


def read(model: LanguageModel, batch: MaskedBatch) -> Outcome:
    """Run a model over a batch; only hidden places go on towards the vocabulary."""
    layout = Layout(batch.is_token, batch.documents, batch.positions, _segments(model, batch))
    backbone = model.backbone(batch.ids, layout)  # (B, T, D)
    places = batch.places[..., None].expand(-1, -1, backbone.shape[-1])
    hidden = model.head.transform(backbone.gather(1, places))  # (B, P, D)
    if batch.classes is None:
        return Outcome(hidden, None)
    first = model.backbone.pool_first(backbone)  # (B, D)
    with torch.autocast(first.device.type, enabled=False):
        return Outcome(hidden, model.next_sentence(first.to(model.next_sentence.weight.dtype)))


def _segments(model: LanguageModel, batch: MaskedBatch) -> Tensor | None:
    return batch.segments if model.config.segments > 1 else None
