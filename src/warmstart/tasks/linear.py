"""What baselines share in use: features of texts, logistic regression, classes or numbers out."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from warmstart.data.labelled import join_pair
from warmstart.errors import WarmstartError
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.classify import ClassifyTask
from warmstart.tasks.explaining import Explanation, PartWeight
from warmstart.tasks.finetuning import FinetuningTask
from warmstart.tasks.labelled_data import read_labelled_file, readable_rows, rows_seen
from warmstart.tasks.logistic import class_direction
from warmstart.tasks.task import Task
from warmstart.tasks.text_model import Predictions, TextModel

Floats = NDArray[np.float64]
Direction = Callable[[Any, Any], Floats]  # regression, prediction -> coefficients that support it


class LinearModel(Protocol):
    """A fitted regression with its features."""

    def outputs(self, texts: Sequence[str], num_classes: int) -> Floats:
        """Return what the task makes predictions of: the probability of every class, (texts, C)."""

    @property
    def model(self) -> Any:
        """Return the regression."""

    def word_weights(self, texts: Sequence[str], directions: Iterable[Floats]) -> Iterator[Floats]:
        """Yield what each word of a text contributes to coefficients times features: (words,)."""


@dataclass(frozen=True, kw_only=True)
class LinearPredictor(TextModel):
    """A saved regression in use."""

    linear: LinearModel
    names: tuple[str, ...]
    labelled: FinetuningTask  # the task whose answers it gives
    direction: Direction

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the classes that it tells apart."""
        return self.names

    def predict(self, texts: Iterable[str], texts2: Iterable[str] | None = None) -> Predictions:
        """Label texts, or pairs of a text and its second text."""
        texts, texts2 = self.check_texts(texts, texts2)
        rows = list(map(join_pair, texts, texts2)) if texts2 is not None else texts
        outputs = self.linear.outputs(rows, len(self.names))
        return Predictions(self.labelled.predictions(outputs, {"classes": self.names}))

    def explain(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> Predictions:
        """Label texts, and tell what each word contributes: to log-odds of a label, to a number."""
        predictions = self.predict(texts, texts2)
        rows = list(map(join_pair, texts, texts2)) if texts2 is not None else texts
        if not rows:
            return predictions
        directions = (self.direction(self.linear.model, prediction) for prediction in predictions)
        weights = self.linear.word_weights(rows, directions)
        return Predictions(
            Explanation(prediction, tuple(map(PartWeight, text.split(), of_words.tolist())))
            for text, prediction, of_words in zip(rows, predictions, weights, strict=True)
        )


class LinearTask(Task):
    """A baseline of `compare`: features of texts and a linear regression."""

    command = "compare"
    hub_name = "text-classification"
    has_backbone = False
    labelled: ClassVar[FinetuningTask] = ClassifyTask()  # the task whose files and scores it has
    predictor: type[LinearPredictor] = LinearPredictor
    direction: Direction = staticmethod(class_direction)

    @abstractmethod
    def read_model(self, run: SavedRun) -> Any:
        """Return the regression of a run with its features."""

    def empty_model(self, run: SavedRun) -> nn.Module:
        raise WarmstartError(f"{run.path} is {self.description}, not a Transformer")

    def open(self, run: SavedRun, runtime: Runtime) -> TextModel:
        return self.predictor(
            name=str(run.path),
            description=self.description,
            reads_pairs=run.config.get("pairs"),
            linear=self.read_model(run),
            names=run.classes,
            labelled=self.labelled,
            direction=self.direction,
        )

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        data = read_labelled_file(
            self.labelled, settings.test or "", settings.test_labels, settings
        )
        self.open(run, runtime).check_form(data.seconds is not None)
        targets = self.labelled.targets(data, run.config)
        texts = readable_rows(data, settings.pieces)
        outputs = self.read_model(run).outputs(texts, len(run.classes))
        seen = rows_seen(data, run.texts_seen(), settings.pieces)
        return self.labelled.all_scores(outputs, targets, run.config, seen)

    def usage(self, path: Path) -> str:
        return f"warmstart predict {path} texts.txt"
