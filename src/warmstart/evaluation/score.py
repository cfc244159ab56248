"""Run a model over a split.

Knows nothing about files; never keeps a logit longer than it takes to read it.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warmstart.batching.batch import PackedBatch, move
from warmstart.batching.loader import budgeted, pad_texts
from warmstart.batching.pair_batches import PairBatch
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier, LanguageModel, Translator
from warmstart.objectives.causal import Causal
from warmstart.objectives.classify import text_layout
from warmstart.objectives.translate import Translate
from warmstart.runtime import Runtime


def score_tokens(
    model: LanguageModel, batches: Iterable[PackedBatch], runtime: Runtime
) -> tuple[float, int, int]:
    """Return the summed loss in nats, the tokens predicted, and how many were right."""
    return _summed(partial(Causal().scored, model), batches, runtime)


def score_pairs(
    model: Translator, batches: Iterable[PairBatch], runtime: Runtime
) -> tuple[float, int, int]:
    """Return the same of translations, each token given the true ones before it."""
    return _summed(partial(Translate().scored, model), batches, runtime)


@torch.inference_mode()
def _summed(
    scored: Callable[[Any], tuple[Tensor, Tensor]],
    batches: Iterable[PackedBatch] | Iterable[PairBatch],
    runtime: Runtime,
) -> tuple[float, int, int]:
    nll, num_tokens, num_right = 0.0, 0, 0
    for batch in batches:
        with runtime.precision():
            loss, right = scored(move(batch, runtime.device))
        nll += float(loss)
        num_tokens += int((batch.targets != IGNORE).sum())
        num_right += int(right)
    return nll, num_tokens, num_right


@torch.inference_mode()
def score_rows(
    model: LanguageModel, batches: Iterable[PackedBatch], runtime: Runtime
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the summed loss in nats and the tokens predicted of each row of text."""
    losses, counts = [], []
    weight, bias = model.head.weights(model.backbone.embed.weight)
    for batch in batches:
        moved = move(batch, runtime.device)
        layout = Layout(documents=moved.documents, positions=moved.positions)
        with runtime.precision():
            hidden = model.head.transform(model.backbone(moved.ids, layout))  # (B, T, D)
            for row, targets in zip(hidden, moved.targets, strict=True):
                losses.append(float(linear_cross_entropy(row, weight, bias, targets)[0]))
        counts += (batch.targets != IGNORE).sum(1).tolist()
    return np.array(losses), np.array(counts)


@torch.inference_mode()
def classify(
    model: Classifier,
    texts: Sequence[Sequence[int]],
    micro_tokens: int,
    pad: int,
    runtime: Runtime,
    starts: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """Return the probability of every class for every text: (texts, C)."""
    num_classes = model.head.output.out_features
    found = np.zeros((len(texts), num_classes))
    nothing = [0] * len(texts)
    for rows in budgeted(range(len(texts)), texts, micro_tokens):
        batch = move(pad_texts(texts, nothing, rows, pad, starts), runtime.device)
        with runtime.precision():
            logits = model(batch.ids, text_layout(model.config, batch))
        found[rows] = logits.double().softmax(-1).cpu().numpy()
    return found
