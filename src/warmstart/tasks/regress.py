"""Give a text a number: a rating, a price, an age.

Training sees numbers of mean zero and variance one; the weights that are kept, and every export,
answer in the unit of the labels. The errors on the validation texts say how wide an interval must
be to hold nine of ten numbers.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart.batching.batches import LabelledBatch, pad_texts
from warmstart.data.labelled import Dataset
from warmstart.data.numbers import numbers_form, read_numbers, summarise_numbers
from warmstart.errors import WarmstartError
from warmstart.evaluation.numbers import (
    COVERAGE,
    conformal_margin,
    least_residuals,
    number_intervals,
    number_scores,
)
from warmstart.evaluation.scale import Errors
from warmstart.formats import quantity, significant
from warmstart.model.backbone import Layout
from warmstart.model.models import Regressor
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import LabelledColumns, Pooling, TableFormat
from warmstart.settings.training import Tuning
from warmstart.tasks.baseline import Baseline
from warmstart.tasks.finetuning import FinetuningTask, Fit, Labels
from warmstart.tasks.frozen import FrozenVectors, SolvedHead
from warmstart.tasks.latent_semantics import LatentSpace
from warmstart.tasks.task import TrainingJob
from warmstart.tasks.vectors import TextBatches, text_outputs
from warmstart.training.step import Evaluation, Objective

Floats = NDArray[np.float64]  # outputs: (texts, 2), a number and the margin of its interval
NUM_STRATA = 4  # subsets of the labels have as many numbers of each quarter
LEAST_SPREAD = 1e-6  # of numbers relative to their mean, that single precision tells apart


class RegressObjective:
    """Summed squared error over labelled texts."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegressObjective)

    __hash__ = None  # type: ignore[assignment]

    def count(self, group: Sequence[LabelledBatch]) -> dict[str, float]:
        """Count the texts."""
        return {"number": float(sum(len(batch.targets) for batch in group))}

    def __call__(self, model: Regressor, batch: LabelledBatch) -> dict[str, Tensor]:
        """Return the summed loss."""
        layout = Layout(batch.is_token, segments=batch.segments, skips_padding=True)
        outputs = model(batch.ids, layout)[:, 0]
        return {"number": F.mse_loss(outputs, batch.targets.to(outputs.dtype), reduction="sum")}


@dataclass(frozen=True)
class NumberPrediction:
    """The number of one text, and the interval that holds nine of ten such numbers."""

    number: float
    low: float | None  # None: too few validation texts for an interval
    high: float | None

    @property
    def label(self) -> str:
        """Return the number as text."""
        return f"{self.number:.6g}"

    def support(self, other: "NumberPrediction") -> float:
        """Return the other number: a word weighs as much as it adds to the number."""
        return other.number

    def columns(self) -> dict[str, float | None]:
        """Return the columns of a table, to six digits."""
        values = asdict(self).items()
        return {name: None if v is None else float(f"{v:.6g}") for name, v in values}


class RegressTask(FinetuningTask):
    """A model that gives a number to a text."""

    name = "regress"
    description = "a regression model"
    hub_name = "text-classification"
    hub_class = "ForSequenceClassification"
    hub_problem = "regression"
    select_by = "mae"
    other_score = ("pearson", "Pearson correlation")
    scale = Errors("MAE", "the median")
    has_classes = False
    is_right_or_wrong = False
    solves_heads = True
    truncate = "middle"
    limit = "It answers with a number to every text, also where none makes sense."

    def detect(self, path: Path, tables: TableFormat) -> str | None:
        return numbers_form(path, tables)

    def read_file(self, path: Path, labels: Path | None, settings: LabelledColumns) -> Dataset:
        return read_numbers(path, settings, labels)

    def read_labels(self, train: Dataset) -> dict[str, Any]:
        numbers = np.array(train.labels, np.float64)
        mean, std = float(numbers.mean()), float(numbers.std())
        low, high = float(numbers.min()), float(numbers.max())
        if low == high:
            raise WarmstartError(
                f"{train.file}: every text to train on has the number {low:g}; there is nothing to "
                "learn"
            )
        if std < LEAST_SPREAD * abs(mean):
            raise WarmstartError(
                f"{train.file}: the numbers are {significant(mean)} on average and differ by "
                f"{significant(std)} only, which single precision cannot tell apart; subtract "
                f"{mean:.0f} from all labels"
            )
        return {"numbers": {"mean": mean, "std": std, "low": low, "high": high}}

    def targets(self, data: Dataset, labels: Labels) -> list[Any]:
        return list(data.labels)

    def training_rows(self, train: Dataset, labels: Labels, max_length: int) -> Dataset:
        """Return texts with targets of mean zero and variance one."""
        scaled = (np.array(train.targets) - labels["numbers"]["mean"]) / labels["numbers"]["std"]
        return replace(train, targets=scaled.tolist())

    def label_notes(self, train: Dataset, valid: Dataset) -> list[str]:
        notes, (low, high) = [], (min(train.labels), max(train.labels))
        num_outside = sum(not low <= number <= high for number in valid.labels)
        if num_outside:
            notes.append(
                f"{valid.file}: {quantity(num_outside, 'number')} of {len(valid):,} outside those "
                f"to train on ({significant(low)} to {significant(high)})"
            )
        if len(valid) < least_residuals():
            notes.append(
                f"{valid.file}: {quantity(len(valid), 'text')} to validate on are too few for "
                f"{COVERAGE:.0%} intervals of predicted numbers; {least_residuals()} are needed"
            )
        return notes

    def describe_data(self, targets: Sequence[Any], labels: Labels) -> str:
        return f"numbers from {summarise_numbers(targets)}"

    def strata(self, targets: Sequence[Any]) -> Sequence[int]:
        """Return the quarter of the numbers that each is in."""
        inner = np.quantile(targets, np.arange(1, NUM_STRATA) / NUM_STRATA)
        return [int(number) for number in np.searchsorted(inner, targets, side="right")]

    def split_classes(self, data: Dataset) -> Sequence[str]:
        return list(map(str, self.strata(data.labels)))

    def num_outputs(self, labels: Mapping[str, Any]) -> int:
        return 1

    def new_model(self, model: ModelConfig, labels: Labels, tuning: Tuning) -> nn.Module:
        return Regressor(model, tuning.pooling, tuning.classifier_dropout)

    def planned_model(self, job: TrainingJob) -> nn.Module:
        return Regressor(job.model, Tuning.pooling, Tuning.classifier_dropout)

    def planned_objective(self, job: TrainingJob, device: torch.device) -> Objective:
        return RegressObjective()

    def random_batch(self, job: TrainingJob, rows: int, generator: torch.Generator) -> Any:
        texts = job.random_ids(rows, job.length, generator).tolist()
        return pad_texts(texts, [float(row % 2) for row in range(rows)], range(rows), pad=0)

    def objective(self, fit: Fit) -> Objective:
        if fit.tuning.balance == "weights":
            raise WarmstartError("--balance weights is for classifiers: numbers have no classes")
        return RegressObjective()

    def outputs(self, model: nn.Module, texts: Dataset, batches: TextBatches) -> Floats:
        numbers = text_outputs(model, texts.ids, batches, texts.starts).reshape(-1, 1).numpy()
        return with_margin(numbers[:, 0], float(cast(Regressor, model).margin))

    def validate_epoch(self, model: nn.Module, outputs: Floats, fit: Fit) -> Evaluation:
        """Validate in the unit of the labels, in which the weights that are kept answer, too."""
        mean, std = fit.labels["numbers"]["mean"], fit.labels["numbers"]["std"]
        evaluation = super().validate_epoch(model, outputs * std + [mean, 0.0], fit)
        head = cast(Regressor, model).head.output
        weights = {
            "head.output.weight": head.weight.detach() * std,
            "head.output.bias": head.bias.detach() * std + mean,
        }
        return replace(evaluation, weights={**evaluation.weights, **weights})

    def validate(self, model: nn.Module, outputs: Floats, fit: Fit) -> Evaluation:
        """Score the numbers, and take the margin of their intervals from the errors."""
        margin = (fit.temperature or self.temperature(outputs, fit.valid.targets)) - 1
        evaluation = super().validate(model, outputs, fit)
        figures = {**evaluation.figures, "valid_margin": margin}
        return replace(evaluation, figures=figures, weights={"margin": torch.tensor(margin)})

    def temperature(self, outputs: Floats, targets: Sequence[Any]) -> float:
        """Return 1 and the margin of intervals, in the unit of the labels; 1: there is none."""
        return 1 + (conformal_margin(outputs[:, 0] - np.asarray(targets)) or 0.0)

    def scores(self, outputs: Floats, targets: Sequence[Any], labels: Labels) -> dict[str, float]:
        scores = number_scores(outputs[:, 0], targets)
        std = labels.get("numbers", {}).get("std", 1.0)  # an imported model has no such record
        return {"loss": (scores["rmse"] / std) ** 2, **scores}

    def selection_score(self, scores: Mapping[str, float], tuning: Tuning) -> float:
        return -scores["mae"]

    def compared_score(self, scores: Mapping[str, float], labels: Labels) -> float:
        return -scores["mae"]

    def metric_name(self, labels: Labels) -> str:
        return "MAE"

    def summary(self, scores: Mapping[str, float]) -> str:
        errors = f"MAE {significant(scores['mae'])}, RMSE {significant(scores['rmse'])}"
        return f"{errors}, Pearson {scores['pearson']:.3f}, Spearman {scores['spearman']:.3f}"

    def test_scores(
        self, outputs: Floats, targets: Sequence[Any], labels: Labels
    ) -> dict[str, Any]:
        """Return every score with its interval, and how often the intervals of numbers hold."""
        truth, (predicted, margins) = np.asarray(targets), outputs.T
        scores: dict[str, Any] = dict(number_scores(predicted, truth))
        if (margins > 0).all():
            scores["interval_coverage"] = float((np.abs(predicted - truth) <= margins).mean())
        trained = labels.get("numbers")
        if trained:
            is_outside = (truth < trained["low"]) | (truth > trained["high"])
            scores["outside_training_range"] = int(is_outside.sum())
        intervals = number_intervals(predicted, truth)
        return {**scores, "intervals": {name: asdict(i) for name, i in intervals.items()}}

    def predictions(self, outputs: Floats, labels: Labels) -> list[Any]:
        return [
            NumberPrediction(number, number - margin, number + margin)
            if margin > 0
            else NumberPrediction(number, None, None)
            for number, margin in outputs.tolist()
        ]

    def answers(self, outputs: Floats, labels: Labels) -> list[Any]:
        answers: list[Any] = outputs[:, 0].tolist()
        return answers

    def text_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> Floats:
        return -np.abs(np.array(answers, np.float64) - np.array(targets, np.float64))

    def answer_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> dict[str, float]:
        return number_scores(answers, targets)

    def describe_answer(self, answer: Any, labels: Labels) -> str:
        return significant(float(answer))

    def is_answer(self, answer: Any, target: Any, labels: Labels) -> bool:
        return type(answer) in (int, float) and abs(answer) <= sys.float_info.max

    def chance(self, targets: Sequence[Any]) -> float:
        """Return the score of always giving the median."""
        return -float(np.abs(np.asarray(targets) - np.median(targets)).mean())

    def baselines(
        self,
        labels: Labels,
        tuning: Tuning,
        spaces: Mapping[str, LatentSpace],
        unlabelled: Iterable[str],
    ) -> Iterator[Baseline]:
        from warmstart.tasks.ridge import LsaRidge, TfidfRidge  # are regression models too
        from warmstart.tasks.tfidf import CountedTexts

        counted = CountedTexts()
        for name, space in spaces.items():
            yield LsaRidge(name, space, counted)
        yield TfidfRidge(counted)

    def solve_head(
        self, model: nn.Module, fit: Fit, poolings: Sequence[Pooling], known: FrozenVectors
    ) -> SolvedHead:
        from warmstart.tasks.ridge_regression import solve_number_head

        regressor, numbers = cast(Regressor, model), fit.labels["numbers"]
        vectors = {p: known.of(regressor, fit.train, fit.batches, p) for p in poolings}
        head = solve_number_head(vectors, np.array(fit.train.targets))
        head = head.scale(numbers["mean"], numbers["std"])
        head.load_into(regressor)
        return head

    def describe_head(self, value: float) -> str:
        from warmstart.tasks.ridge_regression import describe_number_head

        return describe_number_head(value)


def with_margin(numbers: Floats, margin: float) -> Floats:
    """Return outputs: every number with the same margin, (texts, 2)."""
    return np.column_stack([numbers, np.full(len(numbers), margin)])
