"""TF-IDF and logistic regression, the honest rival.

Words and word pairs beside characters inside words, each class weighted alike. Knows nothing about
validation: whoever calls tries `settings` and keeps the best.
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
from warmstart.text.pieces import join_pieces

WORD = r"\w+"  # words of one letter too
MAX_ITERATIONS = 1000
TOLERANCE = 1e-6  # tight enough that the score follows C, not where the solver happened to stop


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A fitted baseline: texts in, classes out."""

    features: FeatureUnion
    model: LogisticRegression
    pieces: bool  # texts arrive split into pieces

    @property
    def num_features(self) -> int:
        """Count the words and character runs it looks at."""
        return int(self.model.n_features_in_)

    @property
    def num_parameters(self) -> int:
        """Count weights and intercepts."""
        return int(self.model.coef_.size + self.model.intercept_.size)

    def predict(self, texts: Sequence[str]) -> list[int]:
        """Return the class index of each text."""
        return [int(found) for found in self.model.predict(self._columns(texts))]

    def probabilities(self, texts: Sequence[str], num_classes: int) -> NDArray[np.float64]:
        """Return (texts, classes); a class it never met has probability 0."""
        given = np.zeros((len(texts), num_classes))
        given[:, self.model.classes_] = self.model.predict_proba(self._columns(texts))
        return given

    def _columns(self, texts: Sequence[str]) -> Any:
        return self.features.transform(_readable(texts, self.pieces))


def settings(trials: int) -> list[float]:
    """Return `trials` values of C, the inverse of regularisation, evenly spaced in logarithm."""
    if trials < 1:
        raise WarmstartError(f"trials={trials} must be at least 1")
    return [10.0] if trials == 1 else [float(c) for c in np.geomspace(1, 100, trials).round(2)]


def fit_baseline(
    texts: Sequence[str], classes: Sequence[int], c: float, pieces: bool = False
) -> Baseline:
    """Fit one baseline; nothing in it is random."""
    return fit_baselines(texts, classes, [c], pieces)[0]


def fit_baselines(
    texts: Sequence[str], classes: Sequence[int], values: Sequence[float], pieces: bool = False
) -> list[Baseline]:
    """Fit one baseline for each value of C, reading the texts once for all."""
    features, columns = _fit_features(_readable(texts, pieces))
    return [
        Baseline(features=features, model=_fit_model(columns, classes, c), pieces=pieces)
        for c in values
    ]


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


def _fit_model(columns: Any, classes: Sequence[int], c: float) -> LogisticRegression:
    model = LogisticRegression(C=c, class_weight="balanced", max_iter=MAX_ITERATIONS, tol=TOLERANCE)
    return model.fit(columns, list(classes))


def _readable(texts: Sequence[str], pieces: bool) -> Sequence[str]:
    """Join texts that were split into pieces, `▁Que ▁fai re`, back into words."""
    if not pieces:
        return texts
    return [join_pieces(text) for text in texts]
