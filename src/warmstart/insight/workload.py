"""Batches of random tokens for a job, and the objective that learns from them.

They have the shapes of real ones; what they say does not matter for time and memory.
"""

from typing import Any

import torch
from torch import Tensor

from warmstart.batching.batch import MaskedBatch
from warmstart.batching.loader import pad_texts
from warmstart.batching.packing import pack
from warmstart.batching.pair_batches import PairBatch
from warmstart.insight.job import Job
from warmstart.objectives.causal import Causal
from warmstart.objectives.classify import Classify
from warmstart.objectives.masked import Masked
from warmstart.objectives.translate import Translate
from warmstart.training.trainer import Objective

BOS, EOS = 0, 1  # of the random documents
DOCUMENT = 150  # mean tokens of one
SMOOTHING = 0.1  # of a translator's targets


def objective_of(job: Job) -> Objective:
    """Return what the job learns."""
    if job.objective == "translate":
        return Translate(SMOOTHING)
    if job.objective == "classify":
        return Classify(torch.ones(job.labels))
    return Masked() if job.objective == "masked" else Causal()


def random_batch(job: Job, rows: int, generator: torch.Generator) -> Any:
    """Return full rows of random tokens."""
    if job.objective == "translate":
        target = _drawn(job, rows, job.length + 1, generator)
        is_token = torch.ones(rows, job.length, dtype=torch.bool)
        source = _drawn(job, rows, job.length, generator)
        return PairBatch(source, is_token, target[:, :-1], target[:, 1:])
    if job.objective == "classify":
        texts = _drawn(job, rows, job.length, generator).tolist()
        return pad_texts(texts, [row % job.labels for row in range(rows)], range(rows), EOS)
    packed = pack(_running(job, rows, generator), BOS, EOS)
    if job.objective == "causal":
        return packed
    places = torch.rand(rows, job.length, generator=generator).argsort(1)
    places = places[:, : job.predictions(1)]  # (B, P)
    targets = packed.ids.gather(1, places)
    if not job.has_pairs:
        layout = (None, packed.documents, packed.positions, None)
        return MaskedBatch(packed.ids, places, targets, None, *layout)
    segments = (torch.arange(job.length) >= job.length // 2).long().expand(rows, -1)
    is_token, classes = torch.ones_like(segments, dtype=torch.bool), torch.arange(rows) % 2
    return MaskedBatch(packed.ids, places, targets, classes, is_token, None, None, segments)


def _drawn(job: Job, rows: int, length: int, generator: torch.Generator) -> Tensor:
    size = min(job.model.vocab_size, job.model.target_vocab_size or job.model.vocab_size)
    return torch.randint(0, size, (rows, length), generator=generator)


def _running(job: Job, rows: int, generator: torch.Generator) -> Tensor:
    """Return running tokens (B, T + 1) with a document's end here and there."""
    ids = _drawn(job, rows, job.length + 1, generator)
    ends = torch.rand(ids.shape, generator=generator) < 1 / DOCUMENT
    ends[:, -1] = False
    ids[ends] = EOS
    ids[:, 1:][ends[:, :-1]] = BOS
    return ids
