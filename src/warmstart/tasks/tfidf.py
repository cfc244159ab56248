"""TF-IDF and logistic regression, an honest baseline.

Words and word pairs beside characters inside words. Knows nothing about validation: whoever calls
tries `settings` and keeps the best. A run of this kind has no Transformer: model.safetensors holds
the inverse document frequencies and the regression, features.json what each column counts.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion
from torch import nn

from warmstart.data.labelled import join_pair
from warmstart.errors import WarmstartError
from warmstart.files import write_json
from warmstart.inference.text_model import TextModel
from warmstart.jsonfiles import typed
from warmstart.runs.checkpoint import save_weights
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.finetuning import Balance
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.labelled import read_labelled_file, readable_rows, rows_seen
from warmstart.tasks.task import Task

WORD = r"\w+"  # words of one letter too
MAX_ITERATIONS = 1000
STRENGTHS = (10.0, 1.0, 100.0, 3.0, 30.0, 0.3, 300.0, 0.1, 1000.0)  # of C, tried in this order
CLASSIFY = ClassifyTask()
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
        """Return the probability of every class, (texts, C); 0 for those it never met."""
        if not len(texts):
            return np.zeros((0, num_classes))
        return self.column_probabilities(self.features.transform(texts), num_classes)

    def column_probabilities(self, columns: Any, num_classes: int) -> NDArray[np.float64]:
        """Return the probability of every class, (texts, C), given the features of the texts."""
        shares = np.zeros((columns.shape[0], num_classes))
        shares[:, self.model.classes_] = self.model.predict_proba(columns)
        return shares


@dataclass(frozen=True, kw_only=True)
class FeaturesFile:
    """features.json: the n-gram that each column counts, in order."""

    words: tuple[str, ...]
    characters: tuple[str, ...]


def save_baseline(baseline: Baseline, run: RunFolder) -> None:
    """Write the features and the weights of a baseline to its run folder."""
    vectorizers = dict(baseline.features.transformer_list)
    names = {
        kind: sorted(vectorizer.vocabulary_, key=vectorizer.vocabulary_.__getitem__)
        for kind, vectorizer in vectorizers.items()
    }
    arrays = {f"{kind}.idf": vectorizer.idf_ for kind, vectorizer in vectorizers.items()}
    arrays |= {"coef": baseline.model.coef_, "intercept": baseline.model.intercept_}
    arrays["classes"] = baseline.model.classes_
    write_json(run.path / "features.json", names)
    save_weights(
        run.weights_file,
        {name: torch.tensor(np.ascontiguousarray(array)) for name, array in arrays.items()},
    )


def read_baseline(run: SavedRun) -> Baseline:
    """Return the baseline of a run, which predicts what the saved one did."""
    file = run.folder.path / "features.json"
    names = typed(FeaturesFile, run.folder.read_json(file), file)
    try:
        baseline = _rebuilt(names, {name: array.numpy() for name, array in run.weights.items()})
    except (KeyError, TypeError, ValueError) as error:
        raise WarmstartError(f"{run.weights_file} does not fit {file}: {error}") from None
    numbers = baseline.model.classes_
    if numbers.dtype != np.int64 or not set(numbers) <= set(range(len(run.config["classes"]))):
        raise WarmstartError(f"{run.weights_file} does not fit the classes in config.json")
    return baseline


def _rebuilt(names: FeaturesFile, arrays: dict[str, Any]) -> Baseline:
    features = _new_features(1, asdict(names))
    for kind, vectorizer in features.transformer_list:
        vectorizer.idf_ = arrays[f"{kind}.idf"]
    model = LogisticRegression()
    model.coef_, model.intercept_ = arrays["coef"], arrays["intercept"]
    model.classes_ = arrays["classes"]
    num_features, num_classes = len(names.words) + len(names.characters), len(model.classes_)
    num_rows = 1 if num_classes == 2 else num_classes  # scikit-learn keeps one row for two classes
    if model.coef_.shape != (num_rows, num_features) or model.intercept_.shape != (num_rows,):
        raise ValueError(f"coef has the shape {model.coef_.shape}")
    return Baseline(features=features, model=model)


def settings(trials: int) -> list[float]:
    """Return the first `trials` values of C, the inverse of regularisation."""
    if not 1 <= trials <= len(STRENGTHS):
        raise WarmstartError(f"trials={trials} must be from 1 to {len(STRENGTHS)}")
    return list(STRENGTHS[:trials])


class BaselineTexts:
    """Labelled texts that are read once, whatever is then fitted on them.

    Nothing is random and the order of the texts does not matter, so that a baseline is fitted once
    for each value of C. Texts to predict are read once, too.
    """

    def __init__(self, texts: Sequence[str], classes: Sequence[int], balance: Balance) -> None:
        started = time.monotonic()
        rows = sorted(zip(texts, classes, strict=True))
        self._classes, self._balance = [number for _, number in rows], balance
        self.features, self._columns = _fit_features([text for text, _ in rows])
        self._read_s = time.monotonic() - started
        self._fitted: dict[float, tuple[Baseline, float]] = {}
        self._predicted: dict[tuple[str, ...], Any] = {}

    def fit(self, c: float) -> tuple[Baseline, float]:
        """Return the baseline of a value of C, and the seconds that it takes to train."""
        if c not in self._fitted:
            started = time.monotonic()
            model = _fit_model(self._columns, self._classes, c, self._balance)
            elapsed_s = self._read_s + time.monotonic() - started
            self._fitted[c] = Baseline(features=self.features, model=model), elapsed_s
        return self._fitted[c]

    def columns_of(self, texts: Sequence[str]) -> Any:
        """Return the features of texts to predict."""
        key = tuple(texts)
        if key not in self._predicted:
            self._predicted[key] = self.features.transform(texts)
        return self._predicted[key]


def _fit_features(texts: Sequence[str]) -> tuple[FeatureUnion, Any]:
    """Learn the features; those found in one text only are left out unless there are no others."""
    for rarest in (2, 1):
        union = _new_features(rarest)
        try:
            return union, union.fit_transform(texts)
        except ValueError:  # what scikit-learn says of an empty vocabulary
            continue
    raise WarmstartError(f"none of the {len(texts)} training texts holds a word")


def _new_features(
    rarest: int, vocabularies: Mapping[str, Sequence[str]] | None = None
) -> FeatureUnion:
    """Return features found in at least `rarest` texts, or those of known vocabularies."""
    options = {
        "words": {"token_pattern": WORD, "ngram_range": (1, 2)},
        "characters": {"analyzer": "char_wb", "ngram_range": (2, 5)},
    }
    vectorizers = [
        (
            kind,
            TfidfVectorizer(
                **chosen,
                sublinear_tf=True,
                min_df=rarest,
                vocabulary=vocabularies and vocabularies[kind],
            ),
        )
        for kind, chosen in options.items()
    ]
    return FeatureUnion(vectorizers)


def _fit_model(
    columns: Any, classes: Sequence[int], c: float, balance: Balance
) -> LogisticRegression:
    weights = "balanced" if balance == "weights" else None
    model = LogisticRegression(C=c, class_weight=weights, max_iter=MAX_ITERATIONS, tol=TOLERANCE)
    return model.fit(columns, list(classes))


@dataclass(frozen=True, kw_only=True)
class TfidfPredictor(TextModel):
    """A saved baseline in use."""

    baseline: Baseline
    names: tuple[str, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the classes that it tells apart."""
        return self.names

    def predict(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[Any]:
        """Label texts, or pairs of a text and its second text."""
        self.check_texts(texts, texts2)
        rows = list(map(join_pair, texts, texts2)) if texts2 is not None else texts
        outputs = self.baseline.probabilities(rows, len(self.names))
        return CLASSIFY.predictions(outputs, {"classes": self.names})


class TfidfTask(Task):
    """TF-IDF and logistic regression, as `compare` fits them."""

    name = "tfidf"
    description = "a TF-IDF classifier"
    command = "compare"
    hub_name = "text-classification"
    has_backbone = False

    def empty_model(self, run: SavedRun) -> nn.Module:
        raise WarmstartError(f"{run.path} is {self.description}, not a Transformer")

    def open(self, run: SavedRun, runtime: Runtime) -> TextModel:
        return TfidfPredictor(
            name=str(run.path),
            description=self.description,
            reads_pairs=run.config.get("pairs"),
            baseline=read_baseline(run),
            names=tuple(run.config["classes"]),
        )

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        data = read_labelled_file(settings.test or "", settings.test_labels, settings)
        self.open(run, runtime).check_form(data.seconds is not None)
        targets = CLASSIFY.targets(data, run.config)
        texts = readable_rows(data, settings.pieces)
        outputs = read_baseline(run).probabilities(texts, len(run.config["classes"]))
        seen = rows_seen(data, run.texts_seen(), settings.pieces)
        return CLASSIFY.all_scores(outputs, targets, run.config, seen)

    def usage(self, path: Path) -> str:
        return f"warmstart predict {path} texts.txt"
