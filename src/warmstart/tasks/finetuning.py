"""The interface of tasks that are fine-tuned on labelled texts."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn

from warmstart import progress
from warmstart.batching.batches import LabelledStream
from warmstart.batching.truncation import EncodedTexts
from warmstart.data.copies import Matches, count_seen
from warmstart.data.labelled import Dataset, read_labelled
from warmstart.errors import OVERFLOW, WarmstartError
from warmstart.evaluation.confident_learning import DoubtedLabels
from warmstart.evaluation.scale import SHARES, Scale
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.model import Attention, ModelConfig
from warmstart.settings.shared import Destination, LabelledColumns, Pooling, TableFormat, Truncate
from warmstart.settings.training import Tuning
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.baseline import Baseline
from warmstart.tasks.frozen import FrozenVectors, SolvedHead
from warmstart.tasks.labelled_data import (
    encode_dataset,
    for_tokenizer,
    read_labelled_file,
    rows_seen,
)
from warmstart.tasks.latent_semantics import LatentSpace
from warmstart.tasks.task import Task, Training
from warmstart.tasks.text_model import TextPredictor, TransformerModel
from warmstart.tasks.vectors import RECORDED_LENGTHS, KeptBatches, TextBatches
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.defaults import finetuning_epochs
from warmstart.training.step import Evaluation, Objective

SHOWN_TOKENS = 1 << 18  # from this many on, a bar shows progress: a laptop takes some seconds
Trained = TypeVar("Trained", bound=Tuning)
Labels = Mapping[str, Any]  # what config.json records of the labels: {"classes": [...]}


@dataclass(frozen=True)
class Fit:
    """One training on labelled texts."""

    train: Dataset
    valid: Dataset
    labels: Labels
    tuning: Tuning
    learning_rate: float
    layer_decay: float
    seed: int
    pad: int
    runtime: Runtime
    title: str = "training"
    kept: KeptBatches | None = None  # where several models are trained on the same texts
    watch: Callable[[NDArray[Any]], None] | None = None  # sees the outputs of every validation
    temperature: float | None = None  # that calibrates the model; None: by the validation texts

    @property
    def batches(self) -> TextBatches:
        """Return how texts are grouped when nothing is learned from them."""
        return TextBatches(self.tuning.micro_tokens, self.pad, self.runtime, kept=self.kept)

    @property
    def num_epochs(self) -> int:
        """Return the number of passes over the training texts."""
        return finetuning_epochs(len(self.train), self.tuning)

    @property
    def is_recorded(self) -> bool:
        """Tell whether steps are recorded and replayed."""
        is_cuda = self.runtime.device.type == "cuda"
        return is_cuda if self.tuning.compile is None else self.tuning.compile and is_cuda

    def epoch_of(self, step: int) -> int:
        """Return the epoch that a step belongs to, from 1."""
        return -(-step // self.stream().steps_per_epoch)

    def stream(self) -> LabelledStream:
        """Return the training texts in batches."""
        return LabelledStream(
            self.train.ids,
            self.train.targets,
            self.tuning.batch_size,
            self.tuning.micro_tokens,
            self.pad,
            self.seed,
            self.train.starts,
            RECORDED_LENGTHS if self.is_recorded else 1,
        )


def _answer(
    task: "FinetuningTask",
    model: nn.Module,
    batches: TextBatches,
    name: str,
    labels: Labels,
    encoded: EncodedTexts,
) -> list[Any]:
    """Return what the model of a run answers to encoded texts."""
    texts = Dataset(ids=encoded.ids, starts=encoded.starts)
    outputs = require_finite(task.outputs(model, texts, batches), name)
    return task.predictions(outputs, labels)


class FinetuningTask(Task):
    """A task that learns from labelled texts: a backbone with a head of the task's own."""

    command = "finetune"
    select_by: ClassVar[str] = "accuracy"  # the validation score that picks the best epoch
    other_score: ClassVar[tuple[str, str]] = ("f1", "macro F1")  # that reports show, too, in words
    has_classes: ClassVar[bool] = True  # False: every text may have a label of its own
    is_right_or_wrong: ClassVar[bool] = True  # False: answers are only nearer or farther
    joins_pairs: ClassVar[bool] = True  # whether baselines read a pair as one text
    layer_decay: ClassVar[float | None] = None  # by default; None: 0.65 if warm, else 1
    attention: ClassVar[Attention | None] = None  # of a cold start; None: that of the preset
    solves_heads: ClassVar[bool] = False  # whether `solve_head` finds what training would
    learns_shares: ClassVar[bool] = False  # whether a label may be a probability of every class
    follows_select: ClassVar[bool] = False  # whether --select says which score picks the epoch
    has_threshold: ClassVar[bool] = False  # chosen on validation texts; decides the answers
    truncate: ClassVar[Truncate] = "head"  # what an overlong text keeps, unless told otherwise
    scale: ClassVar[Scale] = SHARES  # how the score that models are compared by is written

    @abstractmethod
    def read_labels(self, train: Dataset) -> dict[str, Any]:
        """Return what the run records of its labels; refuse labels nothing can be learned from."""

    @abstractmethod
    def targets(self, data: Dataset, labels: Labels) -> list[Any]:
        """Return each row's target; refuse labels that the training data does not have."""

    def detect(self, path: Path, tables: TableFormat) -> str | None:
        """Say why a file can only be labelled for this task; None: it may be for another."""
        return None

    def read_file(self, path: Path, labels: Path | None, settings: LabelledColumns) -> Dataset:
        """Read one labelled file; labels may be in a file of their own."""
        return read_labelled(path, settings, labels)

    def read_soft_file(self, path: Path, settings: LabelledColumns) -> Dataset:
        """Read one labelled file with the probability of every class."""
        if not self.learns_shares:
            raise WarmstartError(f"--soft-labels: {self.description} learns no probabilities")
        return read_labelled(path, settings, has_shares=True)

    def encode(
        self, data: Dataset, tokenizer: Tokenizer, model: ModelConfig, rule: Truncate
    ) -> tuple[Dataset, str]:
        """Return texts with their ids, and a sentence on what does not fit or is unknown."""
        return encode_dataset(data, tokenizer, model.max_length, rule)

    def training_rows(self, train: Dataset, labels: Labels, max_length: int) -> Dataset:
        """Return what batches are made of: a target for each text, or for each of its tokens."""
        return train

    @abstractmethod
    def new_model(self, model: ModelConfig, labels: Labels, tuning: Tuning) -> nn.Module:
        """Return a model with `backbone` and a new head, with random weights."""

    @abstractmethod
    def objective(self, fit: Fit) -> Objective:
        """Return the loss."""

    @abstractmethod
    def outputs(self, model: nn.Module, texts: Dataset, batches: TextBatches) -> NDArray[Any]:
        """Return the outputs of the model for every text, in order."""

    @abstractmethod
    def scores(
        self, outputs: NDArray[Any], targets: Sequence[Any], labels: Labels
    ) -> dict[str, float]:
        """Score outputs, by `select_by` and others."""

    @abstractmethod
    def predictions(self, outputs: NDArray[Any], labels: Labels) -> list[Any]:
        """Return a prediction for every text as the user sees it: `label` and `columns()`.

        One that has an `uncertainty` lets `suggest` prefer texts that the model is unsure of; with
        `support`, the number that another prediction gives to this answer, words are weighed.
        """

    def summary(self, scores: Mapping[str, float]) -> str:
        """Describe validation scores in one phrase."""
        return ", ".join(f"{name} {value:.3f}" for name, value in scores.items())

    def label_notes(self, train: Dataset, valid: Dataset) -> list[str]:
        """Say what is unusual about the labels, before anything is trained."""
        return []

    def describe_data(self, targets: Sequence[Any], labels: Labels) -> str:
        """Describe the training targets in a few words; empty: nothing to say."""
        return ""

    def test_scores(
        self, outputs: NDArray[Any], targets: Sequence[Any], labels: Labels
    ) -> dict[str, Any]:
        """Score held-out outputs; return JSON values."""
        return self.scores(outputs, targets, labels)

    def selection_score(self, scores: Mapping[str, float], tuning: Tuning) -> float:
        """Return the validation score that picks the best epoch; higher is better."""
        return scores[self.select_by]

    def metric(self, labels: Labels) -> str:
        """Return the name of the score that models are compared by."""
        return self.select_by

    def compared_score(self, scores: Mapping[str, float], labels: Labels) -> float:
        """Return the score that models are compared by: higher is better, an error is negative."""
        return scores[self.metric(labels)]

    def check(self, tuning: Tuning) -> None:
        """Refuse settings that have no effect on this task."""
        if tuning.select != "accuracy" and not self.follows_select:
            raise WarmstartError(
                f"--select {tuning.select} is for --task classify: for {self.description} one "
                "score selects; leave it out"
            )

    def choose_truncation(self, config: Trained) -> Trained:
        """Return settings with a truncation rule: the one given, a resumed run's, or the task's."""
        self.check(config)
        to, truncate = cast(Destination, config), config.truncate
        run = RunFolder(to.out)
        if truncate is None and to.resume and run.config_file.exists():
            truncate = run.config()["settings"].get("truncate")
        return replace(config, truncate=truncate or self.truncate)

    def training(self, model: nn.Module, fit: Fit) -> Training:
        """Return objective, batches and validation."""

        def evaluate() -> Evaluation:
            return self.validate_epoch(model, self.outputs(model, fit.valid, fit.batches), fit)

        return Training(self.objective(fit), fit.stream(), evaluate)

    def solve_head(
        self, model: nn.Module, fit: Fit, poolings: Sequence[Pooling], known: FrozenVectors
    ) -> SolvedHead:
        """Give a model with a frozen backbone its best head, with one of these poolings."""
        raise NotImplementedError

    def describe_head(self, value: float) -> str:
        """Write the setting of a solved head by its number."""
        raise NotImplementedError

    def validate_epoch(self, model: nn.Module, outputs: NDArray[Any], fit: Fit) -> Evaluation:
        """Validate, and show the outputs to whoever watches the training."""
        if fit.watch is not None:
            fit.watch(outputs)
        return self.validate(model, outputs, fit)

    def validate(self, model: nn.Module, outputs: NDArray[Any], fit: Fit) -> Evaluation:
        """Turn the model's validation outputs into scores; equal scores are ranked by `loss`."""
        scores = self.scores(outputs, fit.valid.targets, fit.labels)
        figures = {f"valid_{name}": value for name, value in scores.items()}
        note = f"valid {self.summary(scores)}"
        score = self.selection_score(scores, fit.tuning)
        return Evaluation(score, figures, note, scores.get("loss", 0.0))

    def empty_model(self, run: SavedRun) -> nn.Module:
        tuning = replace(run.recorded(Tuning, "pooling"), classifier_dropout=0.0)
        return self.new_model(run.model, run.config, tuning)

    def open(self, run: SavedRun, runtime: Runtime) -> TransformerModel:
        model = self.load_model(run)
        tuning = run.recorded(Tuning, "truncate", "micro_tokens")
        batches = TextBatches(tuning.micro_tokens, run.tokenizer.pad, runtime)
        return TextPredictor(
            name=str(run.path),
            description=run.model.mark(self.description),
            model=model,
            tokenizer=run.tokenizer,
            runtime=runtime,
            truncate=tuning.truncate or self.truncate,
            reads_pairs=run.config.get("pairs"),
            answer=partial(_answer, self, model, batches, str(run.path), run.config),
            classes=run.classes,
        )

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        predictor = self.open(run, runtime)
        data = read_labelled_file(self, settings.test or "", settings.test_labels, settings)
        read = for_tokenizer(data, run.tokenizer, settings.pieces)
        targets = self.targets(read, run.config)
        predictor.check_form(read.seconds is not None)
        texts, _ = self.encode(read, run.tokenizer, run.model, predictor.truncate)
        micro_tokens = run.recorded(Tuning, "micro_tokens").micro_tokens
        batches = TextBatches(micro_tokens, run.tokenizer.pad, runtime)
        outputs = require_finite(self._outputs_shown(predictor.model, texts, batches), run.path)
        seen = rows_seen(data, run.texts_seen(), settings.pieces)
        return self.all_scores(outputs, targets, run.config, seen)

    def _outputs_shown(
        self, model: nn.Module, texts: Dataset, batches: TextBatches
    ) -> NDArray[Any]:
        """Return the outputs for every text; if there are many tokens, a bar counts them."""
        num_tokens = sum(map(len, texts.ids))
        if num_tokens < SHOWN_TOKENS:
            return self.outputs(model, texts, batches)
        with progress.bar("scoring", num_tokens, "token") as bar:
            return self.outputs(model, texts, replace(batches, advance=bar.advance))

    def all_scores(
        self, outputs: NDArray[Any], targets: Sequence[Any], labels: Labels, seen: Matches
    ) -> dict[str, Any]:
        """Score outputs on a test file, also without the texts that were seen in training."""
        unseen = np.flatnonzero(~seen.both).tolist()
        without_seen = None
        if unseen:
            scores = self.scores(outputs[unseen], [targets[row] for row in unseen], labels)
            without_seen = scores[self.metric(labels)]
        return {
            "rows": len(targets),
            **self.test_scores(outputs, targets, labels),
            **count_seen(seen),
            f"{self.metric(labels)}_unseen": without_seen,
        }

    def usage(self, path: Path) -> str:
        return f"warmstart predict {path} texts.txt"

    # `compare` asks for the following, where answers are scored text by text.

    def answers(self, outputs: NDArray[Any], labels: Labels) -> list[Any]:
        """Return the answer to every text as a JSON value, to be compared with its target."""
        raise NotImplementedError

    def selected_answers(
        self, outputs: NDArray[Any], rows: NDArray[Any], targets: Sequence[Any], labels: Labels
    ) -> list[Any]:
        """Return the answers to validation texts, where some rows chose how the model answers."""
        return self.answers(outputs, labels)

    @classmethod
    def is_comparable(cls) -> bool:
        """Tell whether the task defines its answers."""
        return cls.answers is not FinetuningTask.answers

    def text_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> NDArray[np.float64]:
        """Score the answer to every text; the mean is the metric of the task.

        The variance of the mean over texts gives intervals, so values of a score that is no mean
        are its linear approximation.
        """
        pairs = zip(answers, targets, strict=True)
        return np.array([answer == target for answer, target in pairs], np.float64)

    def answer_scores(self, answers: Sequence[Any], targets: Sequence[Any]) -> dict[str, float]:
        """Score answers as a whole, by the metric and perhaps by `f1`."""
        return {self.select_by: float(self.text_scores(answers, targets).mean())}

    def describe_answer(self, answer: Any, labels: Labels) -> str:
        """Write an answer, or a target, for a reader."""
        return str(answer)

    def is_answer(self, answer: Any, target: Any, labels: Labels) -> bool:
        """Tell whether a value read from a file can be an answer to a text with this target."""
        return True

    def class_counts(self, targets: Sequence[Any], labels: Labels) -> dict[str, int]:
        """Return how often each class occurs; empty without classes."""
        return {}

    def chance(self, targets: Sequence[Any]) -> float:
        """Return the score of always giving the most frequent answer."""
        return max(Counter(map(str, targets)).values(), default=0) / max(len(targets), 1)

    def metric_name(self, labels: Labels) -> str:
        """Return the metric as a report writes it."""
        return self.metric(labels).replace("_", " ")

    def strata(self, targets: Sequence[Any]) -> Sequence[int]:
        """Return the class of each target; every subset of the labels has its share of each."""
        return [0] * len(targets)

    def split_classes(self, data: Dataset) -> Sequence[Any]:
        """Return the class of each row, of which the texts set aside have their share."""
        return data.labels if self.has_classes else [""] * len(data)

    def label_names(self, label: Any) -> Sequence[str]:
        """Return the classes that a label of a file names; empty: labels are no classes."""
        return (label,) if self.has_classes else ()

    def fold_classes(self, data: Dataset) -> Sequence[str]:
        """Return the class of each row, of which every fold has its share."""
        return self.split_classes(data)

    def valid_interval(self, scores: Mapping[str, float], num_texts: int) -> dict[str, float]:
        """Return the ends of the 95% interval of the main validation score, by name; may be {}."""
        return {}

    def temperature(self, outputs: NDArray[Any], targets: Sequence[Any]) -> float:
        """Return what calibrates a model with these outputs; 1: the task knows no calibration."""
        return 1.0

    def calibrate(self, outputs: NDArray[Any], targets: Sequence[Any]) -> NDArray[Any]:
        """Return validation outputs as the model that is kept would give them."""
        return outputs

    def doubted_labels(self, outputs: NDArray[Any], targets: Sequence[Any]) -> DoubtedLabels | None:
        """Tell which labels held-out outputs contradict; None: the task cannot tell."""
        return None

    def baselines(
        self,
        labels: Labels,
        tuning: Tuning,
        spaces: Mapping[str, LatentSpace],
        unlabelled: Iterable[str],
    ) -> Iterator["Baseline"]:
        """Yield the simple models that a Transformer has to beat, if there are any.

        `spaces` are analyses of unlabelled text, by the name of their arm; `unlabelled` are texts.
        """
        yield from ()


def require_finite(outputs: NDArray[Any], name: object) -> NDArray[Any]:
    """Refuse outputs that are NaN or infinite; finite weights can overflow too."""
    if not all(np.isfinite(output).all() for output in outputs):
        raise WarmstartError(f"{name}: its outputs are NaN or infinite; {OVERFLOW}")
    return outputs
