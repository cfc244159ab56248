"""The interface of a task: everything that depends on the kind of training."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from warmstart.data.prepare import PreparedText
from warmstart.errors import WarmstartError
from warmstart.model.models import LanguageModel
from warmstart.runs.saved import SavedRun, transfer_all
from warmstart.runtime import Runtime
from warmstart.settings.model import Attention, ModelConfig
from warmstart.settings.shared import Optimizer
from warmstart.settings.training import PretrainConfig
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.text_model import TextModel, TransformerModel
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.step import Evaluation, Objective, Stream

PageOutput = Literal["next word", "masked word", "label", "labels"]


@dataclass(frozen=True)
class Training:
    """What the trainer needs from a task."""

    objective: Objective
    stream: Stream
    evaluate: Callable[[], Evaluation]


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """One optimizer step of a training, in numbers: what `plan` counts and times."""

    task: str
    model: ModelConfig
    optimizer: Optimizer
    rows: int  # of one optimizer step
    micro_rows: int  # of one forward pass
    length: int  # tokens in a row; of a pair of sentences, on each side
    sides: int = 1  # 2: a row is a pair of sentences, for an encoder and a decoder
    is_compiled: bool = False
    mask_rate: float | None = None  # None: every token is predicted
    has_segments: bool = False  # rows are pairs of segments, for next-sentence prediction
    document_loss: float = 0.0
    labels: int = 0  # of a classification head; 0: a vocabulary head
    is_frozen: bool = False  # the rows are only read, once each, for a head to train on
    label_smoothing: float = 0.0
    consistency: float = 0.0

    @property
    def row_tokens(self) -> int:
        return self.sides * self.length

    @property
    def step_tokens(self) -> int:
        return self.rows * self.row_tokens

    @property
    def num_passes(self) -> int:
        """Return the forward passes of an optimizer step."""
        return -(-self.rows // self.micro_rows)

    @property
    def has_decoder(self) -> bool:
        return self.sides == 2

    @property
    def has_documents(self) -> bool:
        """Tell whether several documents share a row."""
        return not (self.has_decoder or self.has_segments or self.labels)

    @property
    def num_readings(self) -> int:
        """Return how often each row is read in a step: twice for consistency."""
        return 2 if self.consistency else 1

    @property
    def head_vocab_size(self) -> int:
        """Return the number of logits per prediction; 0 without a vocabulary head."""
        return 0 if self.labels else self.model.target_vocab_size or self.model.vocab_size

    def num_predictions(self, rows: int) -> int:
        """Return how many positions of these rows go through the head."""
        if self.labels:
            return rows
        share = 1.0 if self.mask_rate is None else self.mask_rate
        return rows * max(1, round(share * self.length))

    def random_ids(self, rows: int, length: int, generator: torch.Generator) -> Tensor:
        """Return random tokens that both vocabularies have."""
        size = min(self.model.vocab_size, self.model.target_vocab_size or self.model.vocab_size)
        return torch.randint(0, size, (rows, length), generator=generator)


class Task(ABC):
    """One kind of training, and what a run of that kind can do."""

    name: ClassVar[str]  # in config.json, and after --objective or --task
    description: ClassVar[str]  # with its article: "a classifier"
    command: ClassVar[str]  # that trains one
    hub_name: ClassVar[str]  # of the task on a model hub
    hub_class: ClassVar[str | None] = None  # how transformers' class names end: "ForMaskedLM"
    hub_problem: ClassVar[str] = "single_label_classification"  # `problem_type` of transformers
    has_backbone: ClassVar[bool] = True  # whether other tasks can start from its backbone
    is_pretraining: ClassVar[bool] = False  # whether `pretrain` can continue such a run
    ends_texts: ClassVar[bool] = True  # whether it reads an end token after a text
    reads_all: ClassVar[bool] = False  # whether texts longer than the model are read in windows
    text_model: ClassVar[type[TransformerModel]] = TransformerModel  # what `open` returns
    limit: ClassVar[str] = "It answers with one of its classes, also where none fits."  # for cards
    test_options: ClassVar[tuple[str, ...]] = ("test",)  # that name its held-out data
    page_output: ClassVar[PageOutput | None] = None  # what `look explore` shows; None: refused

    @abstractmethod
    def empty_model(self, run: SavedRun) -> nn.Module:
        """Return the model of a run with random weights."""

    def open(self, run: SavedRun, runtime: Runtime) -> TextModel:
        """Return a run ready for use."""
        return self.text_model(
            name=str(run.path),
            description=run.model.mark(self.description),
            model=self.load_model(run),
            tokenizer=run.tokenizer,
            runtime=runtime,
            ends_texts=self.ends_texts,
        )

    @abstractmethod
    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        """Score a run on held-out data; return JSON values."""

    def num_outputs(self, labels: Mapping[str, Any]) -> int:
        """Return the width of the head, by what config.json records of the labels; 0: not known."""
        return len(labels.get("classes", ()))

    def planned_model(self, job: TrainingJob) -> nn.Module:
        """Return the model of a job with random weights; refuse a job that cannot be planned."""
        raise WarmstartError(f"plan cannot estimate the training of {self.description}")

    def planned_objective(self, job: TrainingJob, device: torch.device) -> Objective:
        """Return the loss of a job, with its constants on a device."""
        raise NotImplementedError

    def random_batch(self, job: TrainingJob, rows: int, generator: torch.Generator) -> Any:
        """Return full rows of random tokens, as a step of a job reads them."""
        raise NotImplementedError

    def usage(self, path: Path) -> str:
        """Return a command that uses a run, for its model card."""
        return f"warmstart finetune --from {path} --train train.tsv --valid valid.tsv -o classifier"

    def load_model(self, run: SavedRun) -> nn.Module:
        """Return the model of a run with its weights."""
        model = self.empty_model(run)
        try:
            transfer = transfer_all(run.weights, model)
        except WarmstartError as problem:
            raise WarmstartError(f"{run.path}: {problem}") from None
        if transfer.new:
            raise WarmstartError(f"{run.path}: its weights lack {', '.join(transfer.new)}")
        return model


@dataclass(frozen=True)
class PretrainingData:
    """What a pretraining task builds its batches from."""

    settings: PretrainConfig
    tokenizer: Tokenizer
    text: PreparedText
    runtime: Runtime


@dataclass(frozen=True)
class Pretraining(Training):
    """A pretraining task with its text."""

    tokens_in: Callable[[int], int]  # number of rows -> tokens in them, padding left out
    filled_share: float = 1.0  # of a row that is not padding
    is_recordable: bool = True  # whether the shapes of a batch alone determine what is computed


class PretrainingTask(Task):
    """A task that learns from unlabelled text."""

    command = "pretrain"
    is_pretraining = True
    can_generate: ClassVar[bool] = False  # whether its model writes text
    attention: ClassVar[Attention]

    def check(self, settings: PretrainConfig) -> None:
        """Refuse settings that have no effect on this task."""

    def defaults(
        self, settings: PretrainConfig, device: str, recorded: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the values of the settings that only this task has, on a kind of device.

        `recorded` are values that were in force when a resumed run, or that of --from, started.
        """
        return {}

    def job(self, settings: PretrainConfig, model: ModelConfig) -> TrainingJob:
        """Return a step of this training, by settings that are resolved."""
        rows, length = settings.rows_per_step(model.max_length), model.max_length
        return TrainingJob(
            task=self.name,
            model=model,
            optimizer=settings.optimizer,
            rows=rows,
            micro_rows=min(rows, max(1, (settings.micro_tokens or length) // length)),
            length=length,
        )

    def reads_sentences(self, settings: PretrainConfig) -> bool:
        """Tell whether the task needs to know where sentences start."""
        return False

    def adapt_tokenizer(self, tokenizer: Tokenizer, parent: SavedRun | None) -> Tokenizer:
        """Return the tokenizer with the special tokens that the task needs."""
        return tokenizer

    @abstractmethod
    def architecture(
        self, model: ModelConfig, settings: PretrainConfig, parent: SavedRun | None
    ) -> ModelConfig:
        """Return the architecture, chosen or the parent's, as this task trains it."""

    @abstractmethod
    def new_model(
        self, model: ModelConfig, settings: PretrainConfig, parent: SavedRun | None
    ) -> nn.Module:
        """Return the model to train, with random weights."""

    def empty_model(self, run: SavedRun) -> nn.Module:
        """Return a language model with the heads the run has."""
        return LanguageModel(run.model, has_next_sentence="next_sentence.weight" in run.weights)

    @abstractmethod
    def training(self, model: nn.Module, data: PretrainingData) -> Pretraining:
        """Return objective, batches and validation."""

    @abstractmethod
    def summary(self, scores: Mapping[str, float]) -> str:
        """Describe validation scores in one phrase."""


def num_parameters(model: nn.Module, trainable: bool = False) -> int:
    """Return the number of parameters of a model."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trainable)
