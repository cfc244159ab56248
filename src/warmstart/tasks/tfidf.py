"""TF-IDF and logistic regression, an honest baseline.

Words and word pairs beside characters inside words. Knows nothing about validation: whoever calls
tries `settings` and keeps the best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion

from warmstart.errors import WarmstartError
from warmstart.settings.finetuning import Balance

WORD = r"\w+"  # words of one letter too
MAX_ITERATIONS = 1000
STRENGTHS = (10.0, 1.0, 100.0, 3.0, 30.0, 0.3, 300.0, 0.1, 1000.0)  # of C, tried in this order
TOLERANCE = 1e-6  # tight enough that the score follows C, not where the solver happened to stop


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A fitted baseline: texts in, classes out."""

    features: FeatureUnion
    model: LogisticRegression

    def predict(self, texts: Sequence[str]) -> list[int]:
        """Return the class index of each text."""
        return [int(found) for found in self.model.predict(self.features.transform(texts))]

    def probabilities(self, texts: Sequence[str], num_classes: int) -> NDArray[np.float64]:
        """Return the probability of every class, (texts, classes); 0 for those it never met."""
        shares = np.zeros((len(texts), num_classes))
        shares[:, self.model.classes_] = self.model.predict_proba(self.features.transform(texts))
        return shares


def settings(trials: int) -> list[float]:
    """Return the first `trials` values of C, the inverse of regularisation."""
    if not 1 <= trials <= len(STRENGTHS):
        raise WarmstartError(f"trials={trials} must be from 1 to {len(STRENGTHS)}")
    return list(STRENGTHS[:trials])


def fit_baselines(
    texts: Sequence[str], classes: Sequence[int], values: Sequence[float], balance: Balance
) -> list[Baseline]:
    """Fit one baseline for each value of C, reading the texts once; nothing in it is random."""
    features, columns = _fit_features(texts)
    models = (_fit_model(columns, classes, c, balance) for c in values)
    return [Baseline(features=features, model=model) for model in models]


def _fit_features(texts: Sequence[str]) -> tuple[FeatureUnion, Any]:
    """Learn the features; those found in one text only are left out unless there are no others."""
    for rarest in (2, 1):
        words = TfidfVectorizer(
            token_pattern=WORD, ngram_range=(1, 2), sublinear_tf=True, min_df=rarest
        )
        characters = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=rarest
        )
        union = FeatureUnion([("words", words), ("characters", characters)])
        try:
            return union, union.fit_transform(texts)
        except ValueError:  # what scikit-learn says of an empty vocabulary
            continue
    raise WarmstartError(f"none of the {len(texts)} training texts holds a word")


def _fit_model(
    columns: Any, classes: Sequence[int], c: float, balance: Balance
) -> LogisticRegression:
    weights = "balanced" if balance == "weights" else None
    model = LogisticRegression(C=c, class_weight=weights, max_iter=MAX_ITERATIONS, tol=TOLERANCE)
    return model.fit(columns, list(classes))
