"""A frozen backbone: it reads each text once, and the best head for its vectors is solved for.

The head is a logistic regression on scaled vectors. Its pooling, scaling and regularisation are
chosen inside the training labels; it is written in the form that every other head has.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.data.labelled import Dataset
from warmstart.model.models import Classifier
from warmstart.settings.shared import Pooling
from warmstart.settings.training import Balance
from warmstart.tasks.logistic import (
    ROUGH_TOLERANCE,
    FitRows,
    PredictRows,
    class_shares,
    fit_logistic,
    folds_of,
)
from warmstart.tasks.vectors import TextBatches, text_vectors

Floats = NDArray[np.float64]
STRENGTHS = (0.01, 0.1, 0.001, 1.0, 0.0001)  # of C, the default first
Scaling = Literal["each", "all"]  # to variance one: each dimension, or all by one factor
Setting = tuple[Pooling, Scaling, float]
# Comparisons record the number of a setting: a new choice goes to the end.
SETTINGS: tuple[Setting, ...] = tuple(
    (pooling, scaling, c)
    for scaling, pooling, c in product(get_args(Scaling), get_args(Pooling), STRENGTHS)
)
ABSENT = -30.0  # logit of a class that no training text has


@dataclass(frozen=True)
class SolvedHead:
    """A linear head: logits = vectors @ weight.T + bias."""

    number: int  # of its setting
    pooling: Pooling
    weight: Floats  # (C, D)
    bias: Floats  # (C,)
    method: ClassVar[str] = "logistic regression"

    def outputs(self, vectors: Floats) -> Floats:
        """Return the outputs of the task: the probability of every class, (texts, C)."""
        logits = torch.from_numpy(vectors @ self.weight.T + self.bias)
        return logits.softmax(-1).numpy()

    @torch.no_grad()
    def load_into(self, model: Classifier) -> None:
        """Make this the head of a model."""
        model.head.pooling = self.pooling
        model.head.output.weight.copy_(torch.from_numpy(self.weight))
        model.head.output.bias.copy_(torch.from_numpy(self.bias))


class FrozenVectors:
    """The vectors of texts, each read once however many heads are solved for them."""

    def __init__(self) -> None:
        self._known: dict[tuple[Pooling, bytes], NDArray[np.float32]] = {}

    def of(
        self, model: Classifier, texts: Dataset, batches: TextBatches, pooling: Pooling
    ) -> Floats:
        """Return one vector for every text: (texts, D)."""
        starts = texts.starts
        keys = [
            (pooling, _digest(ids, None if starts is None else starts[row]))
            for row, ids in enumerate(texts.ids)
        ]
        new = {key: row for row, key in enumerate(keys) if key not in self._known}
        if new:
            rows = list(new.values())
            vectors = text_vectors(
                model.backbone,
                [texts.ids[row] for row in rows],
                batches,
                pooling,
                starts=None if starts is None else [starts[row] for row in rows],
            )
            self._known.update(zip(new, vectors.float().numpy(), strict=True))
        return np.array([self._known[key] for key in keys], np.float64)


def _digest(ids: Sequence[int], start: int | None) -> bytes:
    return hashlib.blake2b(f"{start} {ids}".encode(), digest_size=16).digest()


def solve_head(
    vectors: dict[Pooling, Floats], classes: Sequence[int], num_classes: int, balance: Balance
) -> SolvedHead:
    """Return the best head for vectors by pooling, the default first."""
    settings = _candidates(list(vectors))
    scaled = {(p, how): scale(vectors[p], how) for p, how, _ in settings}
    chosen = settings[0]
    if folds := folds_of(classes):
        truth = np.asarray(classes)
        fits = (_fits(scaled[p, how][0], truth, c, balance) for p, how, c in settings)
        chosen = settings[folds.choose([folds.predict(fit) for fit in fits], clearly=0.0)]
    pooling, scaling, c = chosen
    columns, mean, spread = scaled[pooling, scaling]
    model = fit_logistic(columns, classes, c, balance)
    rows = model.coef_ if len(model.coef_) > 1 else np.concatenate([-model.coef_, model.coef_]) / 2
    offsets = model.intercept_
    if len(offsets) == 1:  # scikit-learn keeps one row for two classes
        offsets = np.concatenate([-offsets, offsets]) / 2
    weight = np.zeros((num_classes, columns.shape[1]))
    bias = np.full(num_classes, ABSENT)
    weight[model.classes_] = rows / spread
    bias[model.classes_] = offsets - weight[model.classes_] @ mean
    return SolvedHead(SETTINGS.index(chosen), pooling, weight, bias)


def _candidates(poolings: Sequence[Pooling]) -> list[Setting]:
    """Return the settings to try, the default first; only its pooling is scaled both ways."""
    return [
        (pooling, scaling, c)
        for pooling in poolings
        for scaling in get_args(Scaling)
        for c in STRENGTHS
        if scaling == "each" or pooling == poolings[0]
    ]


def describe_head(number: float) -> str:
    """Write a setting by its number."""
    pooling, scaling, c = SETTINGS[int(number)]
    spread = ", dimensions keep their spread" if scaling == "all" else ""
    return f"{pooling} pooling, C {c:g}{spread}"


def scale(vectors: Floats, scaling: Scaling) -> tuple[Floats, Floats, Floats]:
    """Return vectors of mean zero and variance one, with their mean and what they were divided by.

    Where the embeddings start from LSA, dimensions that vary more say more: `all` keeps that.
    """
    columns, mean, spread = standardise(vectors)
    if scaling == "each":
        return columns, mean, spread
    whole = float(np.sqrt(((vectors - mean) ** 2).mean())) or 1.0
    return (vectors - mean) / whole, mean, np.full_like(spread, whole)


def standardise(vectors: Floats) -> tuple[Floats, Floats, Floats]:
    """Return vectors of mean zero and variance one, with their mean and spread."""
    mean, spread = vectors.mean(axis=0), vectors.std(axis=0)
    spread = np.where(spread > 1e-9 * max(float(spread.max()), 1e-12), spread, 1.0)
    return (vectors - mean) / spread, mean, spread


def _fits(columns: Floats, truth: NDArray[Any], c: float, balance: Balance) -> FitRows:
    """Return what fits a head on some rows, and predicts others with it."""

    def fit(inside: NDArray[Any]) -> PredictRows:
        model = fit_logistic(columns[inside], truth[inside], c, balance, ROUGH_TOLERANCE)
        return lambda outside: class_shares(model, columns[outside], int(truth.max()) + 1)

    return fit
