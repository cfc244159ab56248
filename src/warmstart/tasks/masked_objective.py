"""Predict a document's masked tokens from the mean of its hidden vectors.

Masked tokens alone teach a model about words; this teaches it what a whole text is like.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from warmstart.batching.batch import MaskedBatch
from warmstart.data.token_file import Ids
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel

RARITY = 0.25  # a token counts in inverse proportion to this power of its frequency
SAMPLED_TOKENS = 4_000_000  # from which frequencies are estimated, at most


def rarities(ids: Ids, vocab_size: int) -> Tensor:
    """Return how much each token counts as a target: (V,)."""
    sample = ids[:: max(1, len(ids) // SAMPLED_TOKENS)]
    counts = np.bincount(sample, minlength=vocab_size)
    return torch.from_numpy(np.maximum(counts, 1) ** -RARITY)


@dataclass(frozen=True)
class DocumentLoss:
    """The loss of a document's masked tokens, each counted once, given the document's mean vector.

    A row may contain several documents; of a document, it sees the part within its row.
    """

    weight: float  # relative to the loss of masked tokens at their positions
    rarities: Tensor  # (V,)

    def count(self, batch: MaskedBatch) -> float:
        """Return the sum of what the targets of a batch count."""
        return float(self.rarities[_targets(batch, len(self.rarities))[1]].sum())

    def __call__(self, model: LanguageModel, hidden: Tensor, batch: MaskedBatch) -> Tensor:
        """Return the summed loss, from the hidden vectors (B, T, D) of a batch."""
        embedding = model.backbone.embed.weight
        means = _means(hidden.to(embedding.dtype), _documents(batch))  # (documents, D)
        log_shares = model.head(means, embedding).to(embedding.dtype).log_softmax(-1)
        documents, tokens = _targets(batch, len(self.rarities))
        counted = self.rarities.to(log_shares)[tokens]
        return -self.weight * (counted * log_shares[documents, tokens]).sum()


def _documents(batch: MaskedBatch) -> Tensor:
    """Return the number of each token's document within the batch: (B, T)."""
    rows = torch.arange(len(batch.ids), device=batch.ids.device)[:, None]
    if batch.documents is None:
        return rows.expand_as(batch.ids)
    return batch.documents + rows * (batch.documents.max() + 1)


def _means(hidden: Tensor, documents: Tensor) -> Tensor:
    """Return the mean vector of each document: (documents, D)."""
    num_documents = int(documents.max()) + 1
    sums = hidden.new_zeros(num_documents, hidden.shape[-1])
    sums = sums.index_add(0, documents.flatten(), hidden.flatten(0, 1))
    sizes = documents.flatten().bincount(minlength=num_documents)
    return sums / sizes.clamp(min=1)[:, None]  # numbers that no document has get zeros


def _targets(batch: MaskedBatch, vocab_size: int) -> tuple[Tensor, Tensor]:
    """Return the documents and the tokens of all distinct pairs of document and masked token."""
    documents = _documents(batch).gather(1, batch.masked_positions)  # (B, P)
    is_used = batch.targets != IGNORE
    pairs = (documents * vocab_size + batch.targets)[is_used].unique()
    return pairs // vocab_size, pairs % vocab_size


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
            loss = self.document_loss(model, output.all_hidden, batch)
            # Its gradient alone: what is reported stays comparable with the loss in validation.
            sums["document"] = loss - loss.detach()
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
