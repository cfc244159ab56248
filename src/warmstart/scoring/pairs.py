"""Run a translator over sentence pairs.

Knows nothing about files or decoding.
"""

from collections.abc import Iterable

import torch

from warmstart.batches.batch import IGNORE, move
from warmstart.batches.pairs import PairBatch
from warmstart.model.runtime import Runtime
from warmstart.model.tasks import Translator
from warmstart.objectives.translate import Translate


@torch.inference_mode()
def score_pairs(
    model: Translator, batches: Iterable[PairBatch], runtime: Runtime
) -> tuple[float, int, int]:
    """Return the summed loss in nats, the tokens predicted, and how many were right."""
    objective = Translate()
    nll, num_tokens, num_right = 0.0, 0, 0
    for batch in batches:
        with runtime.precision():
            loss, right = objective.scored(model, move(batch, runtime.device))
        nll += float(loss)
        num_tokens += int((batch.targets != IGNORE).sum())
        num_right += int(right)
    return nll, num_tokens, num_right
