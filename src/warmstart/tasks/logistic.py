"""Logistic regression on the features of texts, its setting chosen inside the training labels."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import WarmstartError
from warmstart.evaluation.calibration import at_temperature, fit_temperature
from warmstart.runs.saved import SavedRun
from warmstart.settings.training import Balance

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Floats = NDArray[np.float64]
Rows = NDArray[Any]  # numbers of rows
PredictRows = Callable[[Rows], Floats]  # the probabilities of every class, (rows, C)
FitRows = Callable[[Rows], PredictRows]
CHOSEN_INSIDE = -1.0  # in place of the number of a setting: choose inside the training labels
MAX_ITERATIONS = 1000
TOLERANCE = 1e-6  # tight enough that the score follows C, not where the solver happened to stop
ROUGH_TOLERANCE = 1e-3  # enough to rank settings
FOLDS, FEW_FOLDS = 10, 3
MANY_LABELS = 500  # from which on a few folds choose as well
CLEARLY = 2.0  # standard errors by which a setting is better than the default
MOST_CHOOSING = 2000  # labels that choose a setting: more take time and change nothing


def fit_logistic(
    columns: Any,
    classes: Sequence[int] | Rows,
    c: float,
    balance: Balance,
    tolerance: float = TOLERANCE,
) -> "LogisticRegression":
    """Fit a logistic regression; C is the inverse of regularisation."""
    from sklearn.linear_model import LogisticRegression

    weights = "balanced" if balance == "weights" else None
    model = LogisticRegression(C=c, class_weight=weights, max_iter=MAX_ITERATIONS, tol=tolerance)
    # Threads that meet after every small sum take twice as long.
    with _thread_pools().limit(limits=1, user_api="blas"):
        return model.fit(columns, list(classes))


@functools.cache
def _thread_pools() -> Any:
    """Return the thread pools of the libraries loaded; to find them takes as long as three fits."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def class_shares(model: "LogisticRegression", columns: Any, num_classes: int) -> Floats:
    """Return the probability of every class, (texts, C); 0 for classes it was not fitted on."""
    shares = np.zeros((columns.shape[0], num_classes))
    if columns.shape[0]:
        shares[:, model.classes_] = model.predict_proba(columns)
    return shares


def class_direction(model: "LogisticRegression", prediction: Any) -> Floats:
    """Return the coefficients of the log-odds of the most probable class to the next: (D,)."""
    shares = np.array(list(prediction.probabilities.values()))
    order = np.argsort(-shares[model.classes_], kind="stable")
    rows = model.coef_
    if len(rows) == 1:  # scikit-learn keeps one row for two classes
        rows = np.concatenate([np.zeros_like(rows), rows])
    direction: Floats = rows[order[0]] - rows[order[1]]
    return direction


def rebuild_logistic(arrays: dict[str, Any], num_features: int) -> "LogisticRegression":
    """Return the regression of a run from its arrays; ValueError if they do not fit."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression()
    model.coef_, model.intercept_ = arrays["coef"], arrays["intercept"]
    model.classes_ = arrays["classes"]
    num_classes = len(model.classes_)
    num_rows = 1 if num_classes == 2 else num_classes  # scikit-learn keeps one row for two classes
    if model.coef_.shape != (num_rows, num_features) or model.intercept_.shape != (num_rows,):
        raise ValueError(f"coef has the shape {model.coef_.shape}")
    return model


def check_classes(model: "LogisticRegression", run: SavedRun) -> None:
    """Refuse a regression on classes that its run does not have."""
    numbers = model.classes_
    if numbers.dtype != np.int64 or not set(numbers) <= set(range(len(run.classes))):
        raise WarmstartError(f"{run.weights_file} does not fit the classes in config.json")


@dataclass(frozen=True)
class Folds:
    """Training labels in parts, each of which is predicted by a model fitted on the others."""

    rows: NDArray[Any]  # of the labels that choose
    numbers: NDArray[Any]  # the fold of each
    truth: NDArray[Any]  # the class of each

    def predict(self, fit: FitRows) -> Floats:
        """Return the probabilities of every class, (rows, C), by models that did not see them."""
        shares = np.zeros((len(self.rows), int(self.truth.max()) + 1))
        for fold in range(self.numbers.max() + 1):
            inside = self.numbers != fold
            shares[~inside] = fit(self.rows[inside])(self.rows[~inside])
        return shares

    def choose(self, candidates: Sequence[Floats], clearly: float = CLEARLY) -> int:
        """Return which probabilities are best; the first ones unless others are clearly better.

        Clearly means by so many standard errors. Probabilities are compared by their loss once
        calibrated, which says more than accuracy where labels are few.
        """
        losses = [self._calibrated_losses(shares) for shares in candidates]
        best = int(np.argmin([loss.mean() for loss in losses]))
        gains = losses[0] - losses[best]
        return best if gains.mean() > clearly * gains.std() / len(gains) ** 0.5 else 0

    def _calibrated_losses(self, shares: Floats) -> Floats:
        """Return the loss of every text at the temperature that fits all of them best."""
        temperature = fit_temperature(self.truth, shares, self._is_known(shares.shape[1]))
        true_shares = at_temperature(shares, temperature)[np.arange(len(self.truth)), self.truth]
        losses: Floats = -np.log(np.maximum(true_shares, 1e-6))
        return losses

    def _is_known(self, num_classes: int) -> NDArray[np.bool_]:
        """Tell for every text which classes occur outside its fold: (rows, C)."""
        counts = np.zeros((self.numbers.max() + 1, num_classes), np.int64)
        np.add.at(counts, (self.numbers, self.truth), 1)
        is_known: NDArray[np.bool_] = counts.sum(0) > counts[self.numbers]
        return is_known


def folds_of(classes: Sequence[int]) -> Folds | None:
    """Spread labels over folds, each class evenly; None: too few labels.

    A class with two texts is in every training.
    """
    truth = np.asarray(classes)
    rows = np.argsort(truth, kind="stable")
    rows = rows[:: -(-len(rows) // MOST_CHOOSING)]
    _, counts = np.unique(truth[rows], return_counts=True)
    if (counts >= 2).sum() < 2:
        return None
    num = min(FOLDS if len(rows) < MANY_LABELS else FEW_FOLDS, len(rows))
    return Folds(rows, np.arange(len(rows)) % num, truth[rows])
