"""Label a text, or a pair of texts, with one of several classes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart.batching.batches import LabelledBatch, pad_texts
from warmstart.data.labelled import Dataset
from warmstart.data.splits import describe_labels
from warmstart.errors import WarmstartError
from warmstart.evaluation.calibration import at_temperature, calibration, fit_temperature
from warmstart.evaluation.confident_learning import DoubtedLabels, doubt_classes
from warmstart.evaluation.intervals import accuracy_interval
from warmstart.evaluation.metrics import accuracy, class_scores, macro_f1
from warmstart.formats import percent_range
from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import Pooling
from warmstart.settings.training import Tuning
from warmstart.tasks.baseline import Baseline
from warmstart.tasks.finetuning import FinetuningTask, Fit, Labels
from warmstart.tasks.frozen import FrozenVectors, SolvedHead, describe_head, solve_head
from warmstart.tasks.latent_semantics import LatentSpace
from warmstart.tasks.task import TrainingJob
from warmstart.tasks.teaching import share_rows
from warmstart.tasks.text_model import Prediction
from warmstart.tasks.vectors import TextBatches, text_outputs
from warmstart.training.step import Evaluation, Objective

Floats = NDArray[np.float64]


class ClassifyObjective:
    """Summed cross-entropy over labelled texts, weighted by class.

    A target is the number of a class, or the share of every class: of a doubtful label, or a
    teacher's probabilities.
    """

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights  # (C,) on the device of the model
        self.counted = weights.cpu().double()  # read at every step, which must not wait

    def __eq__(self, other: object) -> bool:
        """Tell whether another objective computes the same loss."""
        return isinstance(other, ClassifyObjective) and torch.equal(self.counted, other.counted)

    __hash__ = None  # type: ignore[assignment]

    def count(self, group: Sequence[LabelledBatch]) -> dict[str, float]:
        """Add up the weights of the texts."""
        return {"label": sum(float(self._weights_of(batch.targets).sum()) for batch in group)}

    def _weights_of(self, targets: Tensor) -> Tensor:
        """Return the weight of every text: (B,)."""
        is_shared = targets.dim() == 2
        return targets.double() @ self.counted if is_shared else self.counted[targets]

    def __call__(self, model: Classifier, batch: LabelledBatch) -> dict[str, Tensor]:
        """Return the summed loss."""
        layout = Layout(batch.is_token, segments=batch.segments, skips_padding=True)
        logits = model(batch.ids, layout)
        weights, targets = self.weights.to(logits.dtype), batch.targets
        if targets.is_floating_point():
            targets = targets.to(logits.dtype)
        return {"label": F.cross_entropy(logits, targets, weights, reduction="sum")}


def class_weights(targets: Sequence[Any], num_classes: int) -> list[float]:
    """Return weights that give every class the same total; all one when classes are balanced."""
    counts = np.maximum(1.0, sum_shares(targets, num_classes))
    return (len(targets) / (num_classes * counts)).tolist()


def sum_shares(targets: Sequence[Any], num_classes: int) -> Floats:
    """Return how many texts each class has; a text with shares counts in part for each: (C,)."""
    if len(targets) and isinstance(targets[0], np.ndarray):
        return np.sum(targets, axis=0, dtype=np.float64)
    return np.bincount(targets, minlength=num_classes).astype(np.float64)


def class_names(train: Dataset) -> tuple[str, ...]:
    """Return the classes to tell apart, in sorted order."""
    names = tuple(sorted(set(train.labels)))
    if len(names) < 2:
        raise WarmstartError(
            f"{train.file}: every text to train on has the label '{names[0]}'; a classifier needs "
            "at least two labels"
        )
    return names


def class_numbers(data: Dataset, names: Sequence[str]) -> list[int]:
    """Return each row's class number; refuse a label that the training data does not have."""
    numbers = {name: number for number, name in enumerate(names)}
    for label, line in zip(data.labels, data.lines, strict=True):
        if label not in numbers:
            raise WarmstartError(
                f"{data.file} line {line}: the label '{label}' is not in the training data, "
                f"which has {', '.join(names)}"
            )
    return [numbers[label] for label in data.labels]


def count_classes(classes: Sequence[int], names: Sequence[str]) -> dict[str, int]:
    """Return how many texts each class has."""
    counts = Counter(classes)
    return {name: counts[number] for number, name in enumerate(names)}


class ClassifyTask(FinetuningTask):
    """A classifier with any number of classes."""

    name = "classify"
    description = "a classifier"
    hub_name = "text-classification"
    hub_class = "ForSequenceClassification"
    solves_heads = True
    follows_select = True
    learns_shares = True
    page_output = "label"
    truncate = "middle"  # both ends of a text say more than its beginning alone

    def label_notes(self, train: Dataset, valid: Dataset) -> list[str]:
        return describe_labels(train, valid)

    def read_labels(self, train: Dataset) -> dict[str, Any]:
        if not train.shares:
            return {"classes": list(class_names(train))}
        return {"classes": sorted({*train.labels, *chain.from_iterable(train.shares)})}

    def targets(self, data: Dataset, labels: Labels) -> list[Any]:
        return class_numbers(data, labels["classes"])

    def training_rows(self, train: Dataset, labels: Labels, max_length: int) -> Dataset:
        """Return a class number for each text, or the share of every class where there are any."""
        if not train.shares:
            return train
        return replace(train, targets=tuple(share_rows(train.shares, labels["classes"])))

    def describe_data(self, targets: Sequence[Any], labels: Labels) -> str:
        counts = count_classes(targets, labels["classes"])
        return ", ".join(f"{name} {count:,}" for name, count in counts.items())

    def new_model(self, model: ModelConfig, labels: Labels, tuning: Tuning) -> nn.Module:
        if "classes" not in labels:
            raise WarmstartError("config.json has no 'classes'")
        num_classes = len(labels["classes"])
        return Classifier(model, num_classes, tuning.pooling, tuning.classifier_dropout)

    def planned_model(self, job: TrainingJob) -> nn.Module:
        return Classifier(job.model, job.labels, Tuning.pooling, Tuning.classifier_dropout)

    def planned_objective(self, job: TrainingJob, device: torch.device) -> Objective:
        return ClassifyObjective(torch.ones(job.labels, device=device))

    def random_batch(self, job: TrainingJob, rows: int, generator: torch.Generator) -> Any:
        texts = job.random_ids(rows, job.length, generator).tolist()
        return pad_texts(texts, [row % job.labels for row in range(rows)], range(rows), pad=0)

    def objective(self, fit: Fit) -> Objective:
        num_classes = len(fit.labels["classes"])
        weights = [1.0] * num_classes
        if fit.tuning.balance == "weights":
            weights = class_weights(fit.train.targets, num_classes)
        return ClassifyObjective(torch.tensor(weights, device=fit.runtime.device))

    def outputs(self, model: nn.Module, texts: Dataset, batches: TextBatches) -> Floats:
        probabilities = text_outputs(model, texts.ids, batches, texts.starts).softmax(-1)
        return probabilities.numpy()

    def scores(
        self, outputs: NDArray[Any], targets: Sequence[Any], labels: Labels
    ) -> dict[str, float]:
        predicted = outputs.argmax(1)
        truth = np.asarray(targets)
        of_truth = outputs[np.arange(len(truth)), truth]
        return {
            "loss": float(-np.log(np.maximum(of_truth, 1e-12)).mean()),
            "accuracy": accuracy(truth, predicted),
            "f1": macro_f1(truth, predicted),
        }

    def summary(self, scores: Mapping[str, float]) -> str:
        summary = f"accuracy {scores['accuracy']:.1%}"
        if "accuracy_low" in scores:
            limits = percent_range(scores["accuracy_low"], scores["accuracy_high"])
            summary += f" (95% interval {limits})"
        summary += f", F1 {scores['f1']:.3f}"
        if "temperature" not in scores:
            return summary
        errors = (scores[name] for name in ("uncalibrated_error", "calibration_error"))
        return f"{summary}, calibration error {' -> '.join(f'{error:.1%}' for error in errors)}"

    def valid_interval(self, scores: Mapping[str, float], num_texts: int) -> dict[str, float]:
        num_right = round(scores["accuracy"] * num_texts)
        interval = accuracy_interval(np.arange(num_texts) < num_right)
        return {"accuracy_low": interval.low, "accuracy_high": interval.high}

    def selection_score(self, scores: Mapping[str, float], tuning: Tuning) -> float:
        return scores[tuning.select]

    def validate(self, model: nn.Module, outputs: NDArray[Any], fit: Fit) -> Evaluation:
        """Score the probabilities of the calibrated model, which is the one that is kept.

        Dividing the head's weights by a temperature calibrates every use and every export.
        """
        temperature = fit.temperature or self.temperature(outputs, fit.valid.targets)
        calibrated = at_temperature(outputs, temperature)
        evaluation = super().validate(model, calibrated, fit)
        before, after = (
            calibration(fit.valid.targets, shares).expected_error
            for shares in (outputs, calibrated)
        )
        figures = {
            "valid_temperature": temperature,
            "valid_uncalibrated_error": before,
            "valid_calibration_error": after,
        }
        head = cast(Classifier, model).head.output.state_dict(prefix="head.output.")
        weights = {name: tensor / temperature for name, tensor in head.items()}
        return replace(evaluation, figures={**evaluation.figures, **figures}, weights=weights)

    def test_scores(
        self, outputs: NDArray[Any], targets: Sequence[Any], labels: Labels
    ) -> dict[str, Any]:
        predicted = outputs.argmax(1)
        scores = asdict(class_scores(targets, predicted, labels["classes"]))
        scores.pop("num_texts")
        return {
            **scores,
            "interval": asdict(accuracy_interval(predicted == np.asarray(targets))),
            "calibration": asdict(calibration(targets, outputs)),
        }

    def predictions(self, outputs: NDArray[Any], labels: Labels) -> list[Any]:
        names = labels["classes"]
        return [
            Prediction(
                names[int(row.argmax())],
                float(row.max()),
                {name: float(share) for name, share in zip(names, row, strict=True)},
            )
            for row in outputs
        ]

    def answers(self, outputs: NDArray[Any], labels: Labels) -> list[Any]:
        return [int(number) for number in outputs.argmax(1)]

    def text_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> Floats:
        return (np.asarray(answers) == np.asarray(targets)).astype(np.float64)

    def answer_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> dict[str, float]:
        return {"accuracy": accuracy(targets, answers), "f1": macro_f1(targets, answers)}

    def describe_answer(self, answer: Any, labels: Labels) -> str:
        return str(labels["classes"][answer])

    def is_answer(self, answer: Any, target: Any, labels: Labels) -> bool:
        return type(answer) is int and answer in range(len(labels["classes"]))

    def class_counts(self, targets: Sequence[Any], labels: Labels) -> dict[str, int]:
        return count_classes(targets, labels["classes"])

    def strata(self, targets: Sequence[Any]) -> Sequence[int]:
        return targets

    def temperature(self, outputs: NDArray[Any], targets: Sequence[Any]) -> float:
        return fit_temperature(targets, outputs)

    def calibrate(self, outputs: NDArray[Any], targets: Sequence[Any]) -> Floats:
        return at_temperature(outputs, self.temperature(outputs, targets))

    def doubted_labels(self, outputs: NDArray[Any], targets: Sequence[Any]) -> DoubtedLabels:
        return doubt_classes(outputs, targets)

    def baselines(
        self,
        labels: Labels,
        tuning: Tuning,
        spaces: Mapping[str, LatentSpace],
        unlabelled: Iterable[str],
    ) -> Iterator[Baseline]:
        from warmstart.tasks.lsa import LsaBaseline  # baselines are classifiers too
        from warmstart.tasks.tfidf import CountedTexts, TfidfBaseline

        num_classes, balance, counted = len(labels["classes"]), tuning.balance, CountedTexts()
        for name, space in spaces.items():
            yield LsaBaseline(name, space, num_classes, balance, counted)
        yield TfidfBaseline(num_classes, balance, counted)

    def solve_head(
        self, model: nn.Module, fit: Fit, poolings: Sequence[Pooling], known: FrozenVectors
    ) -> SolvedHead:
        classifier = cast(Classifier, model)
        vectors = {p: known.of(classifier, fit.train, fit.batches, p) for p in poolings}
        num_classes, balance = len(fit.labels["classes"]), fit.tuning.balance
        head = solve_head(vectors, list(fit.train.targets), num_classes, balance)
        head.load_into(classifier)
        return head

    def describe_head(self, value: float) -> str:
        return describe_head(value)
