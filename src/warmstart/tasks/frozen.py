"""Labelled texts under a frozen backbone, which reads each of them once and never again."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.batch import ALL_ROWS, Batch
from warmstart.batching.padding import LabelledStream
from warmstart.inference.vectors import text_vectors
from warmstart.model.models import Classifier
from warmstart.tasks.fit import Fit
from warmstart.tasks.labelled_data import Examples


@dataclass(frozen=True)
class VectorBatch(Batch):
    """Texts that a frozen backbone has already read; `ids` are their row numbers."""

    vectors: Tensor  # (B, D)
    targets: Tensor  # (B,)


def label_vectors(model: Classifier, vectors: Tensor) -> Tensor:
    """Return logits (B, C) of texts whose vectors are known."""
    with torch.autocast(vectors.device.type, enabled=False):
        return model.head.output(model.head.dropout(vectors))


@dataclass
class FrozenTexts:
    """Texts as a frozen backbone reads them: once, and without dropout."""

    model: Classifier
    texts: Examples
    fit: Fit

    @cached_property
    def vectors(self) -> Tensor:
        """Return one vector for every text: (texts, D)."""
        vectors = text_vectors(
            self.model.backbone,
            self.texts.ids,
            self.fit.batches,
            self.model.head.pooling,
            starts=self.texts.starts,
        )
        return vectors.to(self.fit.runtime.device)

    @torch.no_grad()
    def outputs(self) -> NDArray[np.float64]:
        """Return the probability of every class for every text: (texts, C)."""
        return label_vectors(self.model, self.vectors).double().softmax(-1).cpu().numpy()


@dataclass
class FrozenStream:
    """The batches of a stream of texts, as vectors."""

    stream: LabelledStream
    texts: FrozenTexts

    def group(self, step: int, share: slice = ALL_ROWS) -> list[VectorBatch]:
        """Return the batches of one optimizer step."""
        return [self._batch(rows) for rows in self.stream.rows(step, share)]

    def _batch(self, rows: list[int]) -> VectorBatch:
        classes = torch.tensor([self.stream.targets[row] for row in rows])
        return VectorBatch(torch.tensor(rows), self.texts.vectors[rows], classes)
