"""The losses of masked pretraining, and what a model makes of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from warmstart.batching.batch import MaskedBatch
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel
from warmstart.tasks.document_loss import DocumentLoss


@dataclass(frozen=True)
class MaskedOutput:
    """What a model makes of a batch."""

    all_hidden: Tensor  # (B, T, D)
    hidden: Tensor  # (B, P, D) at masked positions, ready for the output weights
    pair_logits: Tensor | None  # (B, 2): follows, does not follow


@dataclass(frozen=True)
class MaskedObjective:
    """BERT's two losses and that of whole documents, each summed."""

    document_loss: DocumentLoss | None = None

    def count(self, group: Sequence[MaskedBatch]) -> dict[str, float]:
        """Count the masked tokens, the pairs and what documents' tokens count."""
        num_masked = sum(int((batch.targets != IGNORE).sum()) for batch in group)
        num_pairs = sum(len(batch.classes) for batch in group if batch.classes is not None)
        counts: dict[str, float] = {"mlm": num_masked, "nsp": num_pairs}
        if self.document_loss:
            counts["document"] = sum(map(self.document_loss.count, group))
        return counts

    def __call__(self, model: LanguageModel, batch: MaskedBatch) -> dict[str, Tensor]:
        """Return the summed losses."""
        output = masked_output(model, batch)
        weight, bias = model.head.weights(model.backbone.embed.weight)
        hidden, targets = output.hidden.flatten(0, 1), batch.targets.flatten()
        sums = {"mlm": linear_cross_entropy(hidden, weight, bias, targets)[0]}
        if output.pair_logits is not None and batch.classes is not None:
            sums["nsp"] = F.cross_entropy(output.pair_logits, batch.classes, reduction="sum")
        if self.document_loss:
            sums["document"] = self.document_loss(model, output.all_hidden, batch)
        return sums


def masked_output(model: LanguageModel, batch: MaskedBatch) -> MaskedOutput:
    """Run a model over a batch; only masked positions go through the head."""
    layout = Layout(batch.is_token, batch.documents, batch.positions, batch.segments)
    hidden = model.backbone(batch.ids, layout)  # (B, T, D)
    masked = batch.masked_positions[..., None].expand(-1, -1, hidden.shape[-1])
    at_masked = model.head.transform(hidden.gather(1, masked))  # (B, P, D)
    if batch.classes is None:
        return MaskedOutput(hidden, at_masked, None)
    first = model.backbone.pool_first(hidden)  # (B, D)
    with torch.autocast(first.device.type, enabled=False):
        logits = model.next_sentence(first.to(model.next_sentence.weight.dtype))
    return MaskedOutput(hidden, at_masked, logits)
