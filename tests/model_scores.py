"""Scores of models on ids, as the product computes them."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from warmstart.data.labelled import Dataset
from warmstart.evaluation.metrics import TokenScores, score_tokens
from warmstart.runtime import Runtime
from warmstart.tasks.causal import CausalObjective
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.translate import TranslateObjective
from warmstart.tasks.vectors import TextBatches


def class_probabilities(
    model: nn.Module,
    texts: Sequence[Sequence[int]],
    batches: TextBatches,
    starts: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """Return the probability of every class for every text."""
    return ClassifyTask().outputs(model, Dataset(ids=texts, starts=starts), batches)


def causal_scores(model: Any, batches: Iterable[Any], runtime: Runtime) -> TokenScores:
    """Score next tokens."""
    return score_tokens(partial(CausalObjective().score, model), batches, runtime)


def translation_scores(model: Any, batches: Iterable[Any], runtime: Runtime) -> TokenScores:
    """Score target tokens."""
    return score_tokens(partial(TranslateObjective().score, model), batches, runtime)
