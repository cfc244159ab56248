"""Label a text with any number of classes, perhaps none.

Every class has a probability of its own. One threshold for all classes is chosen on the validation
texts and written into the bias of the head, so that 0.5 decides in every use and every export.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from math import log
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart import progress
from warmstart.batching.batches import LabelledBatch, pad_texts
from warmstart.data.label_sets import label_sets_form, read_label_sets, written_labels
from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.evaluation.confident_learning import DoubtedLabels, doubt_label_sets
from warmstart.evaluation.entities import ratio_values
from warmstart.evaluation.intervals import accuracy_interval
from warmstart.kernels.loss import IGNORE
from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import LabelledColumns, TableFormat
from warmstart.settings.training import Tuning
from warmstart.tasks.baseline import Baseline
from warmstart.tasks.finetuning import FinetuningTask, Fit, Labels
from warmstart.tasks.latent_semantics import LatentSpace
from warmstart.tasks.task import Training, TrainingJob
from warmstart.tasks.vectors import TextBatches, text_outputs
from warmstart.training.step import Evaluation, Objective

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
THRESHOLDS = tuple(sorted((0.01, 0.02, *np.arange(1, 20) / 20), key=lambda t: abs(t - 0.5)))
MANY_CLASSES = 500  # whose regressions take long
LEAST = 1e-12  # a smaller probability is not told from it


class MultilabelObjective:
    """Summed binary cross-entropy over all classes of labelled texts."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MultilabelObjective)

    __hash__ = None  # type: ignore[assignment]

    def count(self, group: Sequence[LabelledBatch]) -> dict[str, float]:
        """Count the texts."""
        return {"label": float(sum(len(batch.targets) for batch in group))}

    def __call__(self, model: Classifier, batch: LabelledBatch) -> dict[str, Tensor]:
        """Return the summed loss."""
        layout = Layout(batch.is_token, segments=batch.segments, skips_padding=True)
        logits = model(batch.ids, layout)
        num_classes = logits.shape[1]
        numbers = batch.targets.masked_fill(batch.targets == IGNORE, num_classes)
        marks = logits.new_zeros(len(logits), num_classes + 1).scatter(1, numbers, 1.0)
        loss = F.binary_cross_entropy_with_logits(logits, marks[:, :num_classes], reduction="sum")
        return {"label": loss}


@dataclass(frozen=True)
class LabelSet:
    """The labels of one text, and the probability of each class."""

    label: str  # all of them, with commas between
    labels: tuple[str, ...]
    probabilities: dict[str, float]

    @property
    def uncertainty(self) -> float:
        """Return how many of the classes are probably decided wrongly."""
        return sum(min(share, 1 - share) for share in self.probabilities.values())

    def support(self, other: "LabelSet") -> float:
        """Return the mean probability that another prediction gives to these labels.

        Of no label it is the probability that the most probable class is missing.
        """
        if not self.labels:
            return 1 - max(other.probabilities.values())
        return sum(other.probabilities[name] for name in self.labels) / len(self.labels)

    def columns(self) -> dict[str, str | float]:
        """Return the columns of a table, probabilities to six digits."""
        shares = self.probabilities.items()
        return {"label": self.label, **{f"probability_{n}": round(p, 6) for n, p in shares}}


def at_odds(shares: Floats, odds: float) -> Floats:
    """Return probabilities moved so that those at a threshold with these odds become 0.5."""
    moved: Floats = shares / (shares + odds * (1 - shares))
    return moved


def best_odds(shares: Floats, targets: Sequence[Sequence[int]]) -> float:
    """Return the odds of the threshold with the best micro F1; of equal ones nearest to 0.5."""
    truth = _marks(targets, shares.shape[1])
    scores = [_f1((shares >= threshold), truth) for threshold in THRESHOLDS]
    threshold = THRESHOLDS[int(np.argmax(scores))]
    return float(threshold / (1 - threshold))


def _f1(predicted: Bools, truth: Bools) -> float:
    return 2 * float((predicted & truth).sum()) / max(1, int(predicted.sum() + truth.sum()))


def _marks(rows: Sequence[Sequence[int]], num_classes: int) -> Bools:
    """Return which classes each text has, (texts, C)."""
    marks = np.zeros((len(rows), num_classes), bool)
    for marked, numbers in zip(marks, rows, strict=True):
        marked[list(numbers)] = True
    return marks


class MultilabelTask(FinetuningTask):
    """A classifier that gives any number of its classes to a text."""

    name = "multilabel"
    description = "a multi-label classifier"
    hub_name = "text-classification"
    hub_class = "ForSequenceClassification"
    hub_problem = "multi_label_classification"
    select_by = "micro_f1"  # one rare class with two texts would move macro F1 by points
    page_output = "labels"
    has_threshold = True
    truncate = "middle"
    limit = "It answers with those of its classes that it knows, perhaps with none."

    def detect(self, path: Path, tables: TableFormat) -> str | None:
        return label_sets_form(path, tables)

    def read_file(self, path: Path, labels: Path | None, settings: LabelledColumns) -> Dataset:
        if labels is not None:
            raise WarmstartError(
                f"{labels}: a file of labels is for --task classify; several labels of a text are "
                "read from a table"
            )
        return read_label_sets(path, settings)

    def read_labels(self, train: Dataset) -> dict[str, Any]:
        names = sorted(set(chain.from_iterable(train.labels)))
        if len(set(train.labels)) < 2:
            shown = f"the same labels ({', '.join(names)})" if names else "no label"
            raise WarmstartError(
                f"{train.file}: every text to train on has {shown}; a classifier needs texts that "
                "differ"
            )
        return {"classes": names}

    def targets(self, data: Dataset, labels: Labels) -> list[Any]:
        numbers = {name: number for number, name in enumerate(labels["classes"])}
        for names, line in zip(data.labels, data.lines, strict=True):
            if unknown := [name for name in names if name not in numbers]:
                raise WarmstartError(
                    f"{data.file} line {line}: the label '{unknown[0]}' is not in the training "
                    f"data, which has {', '.join(numbers)}"
                )
        return [sorted(numbers[name] for name in names) for names in data.labels]

    def label_notes(self, train: Dataset, valid: Dataset) -> list[str]:
        counts, present = (Counter(chain.from_iterable(d.labels)) for d in (train, valid))
        missing = ", ".join(f"'{name}'" for name in sorted(counts.keys() - present.keys()))
        notes = [f"{valid.file}: no text with the label {missing} to validate on"]
        if all(len(names) == 1 for names in (*train.labels, *valid.labels)):
            notes.append(f"{train.file}: every text has one label, which --task classify is for")
        return notes if missing else notes[1:]

    def describe_data(self, targets: Sequence[Any], labels: Labels) -> str:
        counts = self.class_counts(targets, labels)
        return ", ".join(f"{name} {count:,}" for name, count in counts.items())

    def class_counts(self, targets: Sequence[Any], labels: Labels) -> dict[str, int]:
        counts = Counter(chain.from_iterable(targets))
        return {name: counts[number] for number, name in enumerate(labels["classes"])}

    def strata(self, targets: Sequence[Any]) -> Sequence[int]:
        """Return the rarest label of each text, counted from 1; 0: it has none."""
        counts = Counter(chain.from_iterable(targets))
        return [
            1 + min(numbers, key=lambda number: (counts[number], number)) if numbers else 0
            for numbers in targets
        ]

    def label_names(self, label: Any) -> Sequence[str]:
        return tuple(label)

    def fold_classes(self, data: Dataset) -> Sequence[str]:
        return [""] * len(data)  # a set of labels may have fewer texts than there are folds

    def new_model(self, model: ModelConfig, labels: Labels, tuning: Tuning) -> nn.Module:
        if "classes" not in labels:
            raise WarmstartError("config.json has no 'classes'")
        num_classes = len(labels["classes"])
        return Classifier(model, num_classes, tuning.pooling, tuning.classifier_dropout)

    def planned_model(self, job: TrainingJob) -> nn.Module:
        return Classifier(job.model, job.labels, Tuning.pooling, Tuning.classifier_dropout)

    def planned_objective(self, job: TrainingJob, device: torch.device) -> Objective:
        return MultilabelObjective()

    def random_batch(self, job: TrainingJob, rows: int, generator: torch.Generator) -> Any:
        texts = job.random_ids(rows, job.length, generator).tolist()
        return pad_texts(texts, [[row % job.labels] for row in range(rows)], range(rows), pad=0)

    def objective(self, fit: Fit) -> Objective:
        if fit.tuning.balance == "weights":
            raise WarmstartError(
                "--balance weights is for --task classify: a text with several labels has no class "
                "to be weighted by"
            )
        return MultilabelObjective()

    def training(self, model: nn.Module, fit: Fit) -> Training:
        """Return objective, batches and validation; the head begins with how frequent classes are.

        Otherwise most of a short training only teaches that each class is rare.
        """
        head = cast(Classifier, model).head.output
        counts = _marks(fit.train.targets, len(fit.labels["classes"])).sum(0)
        shares = torch.from_numpy((counts + 0.5) / (len(fit.train) + 1))
        with torch.no_grad():
            head.bias.copy_(shares.logit())
        return super().training(model, fit)

    def outputs(self, model: nn.Module, texts: Dataset, batches: TextBatches) -> Floats:
        return text_outputs(model, texts.ids, batches, texts.starts).sigmoid().numpy()

    def scores(
        self, outputs: NDArray[Any], targets: Sequence[Any], labels: Labels
    ) -> dict[str, float]:
        truth = _marks(targets, outputs.shape[1])
        of_truth = np.where(truth, outputs, 1 - outputs)
        scores = self.answer_scores(self.answers(outputs, labels), targets)
        return {
            "loss": float(-np.log(np.maximum(of_truth, LEAST)).sum(1).mean()),
            "accuracy": scores["accuracy"],
            "micro_f1": scores["micro_f1"],
            "macro_f1": scores["f1"],
        }

    def summary(self, scores: Mapping[str, float]) -> str:
        return f"micro F1 {scores['micro_f1']:.1%}, macro F1 {scores['macro_f1']:.1%}"

    def metric_name(self, labels: Labels) -> str:
        return "micro F1"

    def validate(self, model: nn.Module, outputs: NDArray[Any], fit: Fit) -> Evaluation:
        """Score the model with the threshold in its bias, which is the one that is kept."""
        odds = fit.temperature or self.temperature(outputs, fit.valid.targets)
        evaluation = super().validate(model, at_odds(outputs, odds), fit)
        figures = {**evaluation.figures, "valid_threshold": odds / (1 + odds)}
        bias = cast(Classifier, model).head.output.bias.detach() - log(odds)
        return replace(evaluation, figures=figures, weights={"head.output.bias": bias})

    def temperature(self, outputs: NDArray[Any], targets: Sequence[Any]) -> float:
        return best_odds(outputs, targets)

    def calibrate(self, outputs: NDArray[Any], targets: Sequence[Any]) -> Floats:
        return at_odds(outputs, best_odds(outputs, targets))

    def selected_answers(
        self, outputs: NDArray[Any], rows: NDArray[Any], targets: Sequence[Any], labels: Labels
    ) -> list[Any]:
        return self.answers(at_odds(outputs, best_odds(outputs[rows], targets)), labels)

    def predictions(self, outputs: NDArray[Any], labels: Labels) -> list[Any]:
        names = labels["classes"]
        rows = zip(outputs, self.answers(outputs, labels), strict=True)
        chosen = ((shares, tuple(names[number] for number in numbers)) for shares, numbers in rows)
        return [
            LabelSet(
                written_labels(of_text), of_text, dict(zip(names, map(float, shares), strict=True))
            )
            for shares, of_text in chosen
        ]

    def answers(self, outputs: NDArray[Any], labels: Labels) -> list[Any]:
        return [np.flatnonzero(shares >= 0.5).tolist() for shares in outputs]

    def text_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> Floats:
        pairs = [(set(a), set(t)) for a, t in zip(answers, targets, strict=True)]
        return ratio_values([2 * len(a & t) for a, t in pairs], [len(a) + len(t) for a, t in pairs])

    def answer_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> dict[str, float]:
        """Return exact matches, micro F1, and as `f1` the mean over classes that occur."""
        num_classes = 1 + max(chain((0,), *answers, *targets))
        predicted, truth = _marks(answers, num_classes), _marks(targets, num_classes)
        mentions = predicted.sum(0) + truth.sum(0)
        by_class = 2 * (predicted & truth).sum(0) / np.maximum(mentions, 1)
        macro = float(by_class[mentions > 0].mean()) if mentions.any() else 0.0
        exact = float((predicted == truth).all(1).mean())
        return {"accuracy": exact, "micro_f1": _f1(predicted, truth), "f1": macro}

    def test_scores(
        self, outputs: NDArray[Any], targets: Sequence[Any], labels: Labels
    ) -> dict[str, Any]:
        from sklearn.metrics import average_precision_score, precision_recall_fscore_support

        names, truth = labels["classes"], _marks(targets, outputs.shape[1])
        columns = precision_recall_fscore_support(truth, outputs >= 0.5, zero_division=0.0)
        present = np.flatnonzero(truth.any(0))
        precisions = [average_precision_score(truth[:, k], outputs[:, k]) for k in present]
        keys = ("precision", "recall", "f1", "support")
        kinds = {
            name: {key: float(value) for key, value in zip(keys, row, strict=True)}
            for name, row in zip(names, zip(*columns, strict=True), strict=True)
        }
        scores = self.scores(outputs, targets, labels)
        interval = accuracy_interval(self.text_scores(self.answers(outputs, labels), targets))
        return {
            **{name: scores[name] for name in ("micro_f1", "macro_f1", "accuracy")},
            "average_precision": float(np.mean(precisions)) if precisions else 0.0,
            "kinds": kinds,
            "intervals": {"micro_f1": asdict(interval)},
        }

    def describe_answer(self, answer: Any, labels: Labels) -> str:
        return ", ".join(labels["classes"][number] for number in answer) or "none"

    def is_answer(self, answer: Any, target: Any, labels: Labels) -> bool:
        classes = range(len(labels["classes"]))
        return isinstance(answer, list) and all(
            type(number) is int and number in classes for number in answer
        )

    def chance(self, targets: Sequence[Any]) -> float:
        """Return the score of always giving the most frequent labels, as many as score best."""
        counts = [count for _, count in Counter(chain.from_iterable(targets)).most_common()]
        total = sum(counts)
        given = enumerate(np.cumsum(counts), 1)
        return max((2 * float(n) / (k * len(targets) + total) for k, n in given), default=0.0)

    def doubted_labels(self, outputs: NDArray[Any], targets: Sequence[Any]) -> DoubtedLabels:
        return doubt_label_sets(outputs, _marks(targets, outputs.shape[1]))

    def baselines(
        self,
        labels: Labels,
        tuning: Tuning,
        spaces: Mapping[str, LatentSpace],
        unlabelled: Iterable[str],
    ) -> Iterator[Baseline]:
        from warmstart.tasks.one_vs_rest import LsaSets, TfidfSets  # are multi-label too
        from warmstart.tasks.tfidf import CountedTexts

        num_classes, counted = len(labels["classes"]), CountedTexts()
        if num_classes >= MANY_CLASSES:
            progress.say(
                f"{num_classes:,} labels: TF-IDF and LSA fit regressions for each of them, also to "
                "estimate the time, which takes minutes; with fewer labels it is faster"
            )
        for name, space in spaces.items():
            yield LsaSets(name, space, num_classes, counted)
        yield TfidfSets(num_classes, counted)
