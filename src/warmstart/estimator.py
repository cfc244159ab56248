"""A classifier of texts as an estimator of scikit-learn: in pipelines, searches and validations."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from warmstart.dataframes import write_table
from warmstart.display import show_in_python
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.progress import silence
from warmstart.recipes.finetune import finetune
from warmstart.settings.python_words import python_words
from warmstart.settings.shared import Device, Pooling, Truncate
from warmstart.settings.training import Balance, FinetuneConfig
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.linear import LinearPredictor
from warmstart.tasks.logistic import class_direction
from warmstart.tasks.text_model import TextModel
from warmstart.tasks.tfidf import STRENGTHS, BaselineTexts, CountedTexts, TfidfTask

TRAINING = (  # parameters that only a Transformer has
    *("frozen", "epochs", "minutes", "learning_rate", "batch_size", "max_length"),
    *("pooling", "truncate", "device", "threads"),
)


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify texts: fine-tune a pretrained run, or without one count words (TF-IDF).

    The parameters are the settings of `warmstart.finetune`; `random_state` is its `seed`.
    """

    def __init__(
        self,
        from_run: str | Path | None = None,
        *,
        frozen: bool = False,
        epochs: int | None = None,
        minutes: float | None = None,
        learning_rate: float | None = None,
        batch_size: int = 16,
        max_length: int | None = None,
        pooling: Pooling = "mean",
        truncate: Truncate | None = None,
        balance: Balance = "none",
        device: Device = "auto",
        threads: int | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.from_run = from_run
        self.frozen = frozen
        self.epochs = epochs
        self.minutes = minutes
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_length = max_length
        self.pooling = pooling
        self.truncate = truncate
        self.balance = balance
        self.device = device
        self.threads = threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> "Classifier":  # noqa: N803 (scikit-learn's name)
        """Learn the classes of texts: a list, a column of a DataFrame or an array."""
        texts, labels = _texts(X), _labels(y)
        check_consistent_length(texts, labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; a classifier needs two")
        with self._messages():
            is_warm = self.from_run is not None
            self.model_ = self._finetune(texts, numbers) if is_warm else self._count(texts, numbers)
        return self

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the class of every text."""
        shares = self.predict_proba(X)
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of every class, (texts, classes), in the order of `classes_`."""
        check_is_fitted(self)
        names = [str(number) for number in range(len(self.classes_))]
        rows = [
            [prediction.probabilities[name] for name in names]
            for prediction in self.model_.predict(_texts(X))
        ]
        return np.array(rows, np.float64).reshape(-1, len(names))

    def _finetune(self, texts: list[str], numbers: NDArray[np.intp]) -> TextModel:
        """Fine-tune the run in a temporary folder, and return the model."""
        table = {"text": texts, "label": [str(number) for number in numbers]}
        with TemporaryDirectory(prefix="warmstart-") as folder:
            file = str(write_table(table, "train", "X", Path(folder)))
            try:
                result = finetune(self._settings(file, str(Path(folder, "run"))))
            except WarmstartError as error:
                raise ValueError(python_words(FinetuneConfig, {file: "X"})(str(error))) from None
            return replace(result.model, name="the classifier")

    def _settings(self, train: str, out: str) -> FinetuneConfig:
        return FinetuneConfig(
            from_run=None if self.from_run is None else str(self.from_run),
            train=(train,),
            out=out,
            task=ClassifyTask.name,
            columns=("text", "label"),
            frozen=self.frozen,
            epochs=self.epochs,
            minutes=self.minutes,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            max_length=self.max_length,
            pooling=self.pooling,
            truncate=self.truncate,
            balance=self.balance,
            device=self.device,
            threads=self.threads,
            seed=self.random_state,
        )

    def _count(self, texts: list[str], numbers: NDArray[np.intp]) -> TextModel:
        """Fit the baseline of every comparison, which needs no pretrained run."""
        defaults = type(self)()
        for name in TRAINING:
            if getattr(self, name) != getattr(defaults, name):
                raise ValueError(f"{name} has no effect without from_run: leave it out")
        counted = BaselineTexts(texts, numbers.tolist(), self.balance, CountedTexts())
        model, _ = counted.fit(STRENGTHS[0])
        return LinearPredictor(
            name="the classifier",
            description=TfidfTask.description,
            reads_pairs=False,
            linear=model,
            names=tuple(str(number) for number in range(len(self.classes_))),
            labelled=ClassifyTask(),
            direction=class_direction,
        )

    def _messages(self) -> AbstractContextManager[None]:
        return show_in_python() if self.verbose else silence()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags


def _labels(y: Any) -> NDArray[Any]:
    if y is None:
        raise ValueError("Classifier requires y to be passed, but the target y is None")
    labels = column_or_1d(y, warn=True)
    missing = [row for row, label in enumerate(labels.tolist()) if label is None or label != label]
    if missing:
        raise ValueError(
            f"y[{missing[0]}] is {labels[missing[0]]}: {quantity(len(missing), 'text')} of "
            f"{len(labels):,} without a label; leave them out of X and y, such as by "
            "df.dropna(subset=['label'])"
        )
    check_classification_targets(labels)
    return np.asarray(labels)


def _texts(X: Any) -> list[str]:  # noqa: N803
    """Return texts as a list; a frame or an array may have them in its only column."""
    if isinstance(X, str):
        raise ValueError("X is one text; give a list of texts")
    shape = getattr(X, "shape", (len(X),) if hasattr(X, "__len__") else ())
    if len(shape) != 1 and tuple(shape[1:]) != (1,):
        raise ValueError(f"X has the shape {tuple(shape)}; give one column of texts: X['text']")
    values = np.asarray(X, dtype=object).reshape(-1).tolist()
    for number, text in enumerate(values):
        if not isinstance(text, str):
            raise ValueError(f"X[{number}] is {text!r}, not a string; leave out rows without text")
    if not values:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required")
    return values
