"""The interface of a task: everything that depends on the kind of training."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from warmstart.data.prepare import PreparedText
from warmstart.errors import WarmstartError
from warmstart.model.models import LanguageModel
from warmstart.runs.saved import SavedRun, transfer_all
from warmstart.runtime import Runtime
from warmstart.settings.model import Attention, ModelConfig
from warmstart.settings.training import PretrainConfig
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.text_model import TextModel, TransformerModel
from warmstart.tokenization.tokenizer import Tokenizer
from warmstart.training.step import Evaluation, Objective, Stream


@dataclass(frozen=True)
class Training:
    """What the trainer needs from a task."""

    objective: Objective
    stream: Stream
    evaluate: Callable[[], Evaluation]


@dataclass(frozen=True, kw_only=True)
class WorkloadShape:
    """The model and the rows of a planned training."""

    model: ModelConfig
    length: int  # tokens in a row; for a translator, on each side
    labels: int = 2  # of a classifier
    mask_rate: float = 0.15  # of a masked model

    def random_ids(self, rows: int, length: int, generator: torch.Generator) -> Tensor:
        """Return random tokens that both vocabularies have."""
        size = min(self.model.vocab_size, self.model.target_vocab_size or self.model.vocab_size)
        return torch.randint(0, size, (rows, length), generator=generator)

    def random_documents(self, rows: int, generator: torch.Generator) -> Tensor:
        """Return consecutive documents of random tokens (B, T + 1)."""
        ids = self.random_ids(rows, self.length + 1, generator)
        ends = torch.rand(ids.shape, generator=generator) < 1 / DOCUMENT_TOKENS
        ends[:, -1] = False
        ids[ends] = EOS
        ids[:, 1:][ends[:, :-1]] = BOS
        return ids


class Workload(ABC):
    """One task as a planner sees it; the defaults are those of its command."""

    objective: ClassVar[str]
    steps: ClassVar[int]
    batch_tokens: ClassVar[int]
    micro_tokens: ClassVar[int]
    optimizers: ClassVar[tuple[str, ...]] = ("muon", "adamw")  # the default first
    sides: ClassVar[int] = 1  # texts in a row: a translator has a source and a target
    is_compiled: ClassVar[bool] = False  # by default on CUDA
    has_vocabulary_head: ClassVar[bool] = True
    has_decoder: ClassVar[bool] = False
    masks_tokens: ClassVar[bool] = False  # only masked positions go through the head

    @abstractmethod
    def suits(self, model: ModelConfig) -> bool:
        """Tell whether an architecture is usually trained on this task."""

    @abstractmethod
    def architecture(self, model: ModelConfig, is_preset: bool) -> ModelConfig:
        """Return the architecture as the task's command trains it."""

    @abstractmethod
    def build_model(self, shape: WorkloadShape) -> nn.Module:
        """Return the model with random weights."""

    @abstractmethod
    def build_objective(self, shape: WorkloadShape, device: torch.device) -> Objective:
        """Return the loss, with its constants on a device."""

    @abstractmethod
    def random_batch(self, shape: WorkloadShape, rows: int, generator: torch.Generator) -> Any:
        """Return full rows of random tokens."""

    def num_predictions(self, shape: WorkloadShape, rows: int) -> int:
        """Return how many positions of these rows go through the head."""
        return rows * shape.length

    def has_pairs(self, model: ModelConfig) -> bool:
        """Tell whether it also learns next-sentence prediction."""
        return False

    def has_documents(self, model: ModelConfig) -> bool:
        """Tell whether several documents share a row."""
        return False

    def default_length(self, model: ModelConfig) -> int:
        """Return the length of a row where none is given."""
        return model.max_length


class Task(ABC):
    """One kind of training, and what a run of that kind can do."""

    name: ClassVar[str]  # in config.json, and after --objective or --task
    description: ClassVar[str]  # with its article: "a classifier"
    command: ClassVar[str]  # that trains one
    hub_name: ClassVar[str]  # of the task on a model hub
    hub_class: ClassVar[str | None] = None  # how transformers' class names end: "ForMaskedLM"
    has_backbone: ClassVar[bool] = True  # whether other tasks can start from its backbone
    is_pretraining: ClassVar[bool] = False  # whether `pretrain` can continue such a run
    ends_texts: ClassVar[bool] = True  # whether it reads an end token after a text
    text_model: ClassVar[type[TransformerModel]] = TransformerModel  # what `open` returns
    workload: ClassVar[Workload | None] = None  # None: `plan` cannot estimate it
    test_options: ClassVar[tuple[str, ...]] = ("test",)  # that name its held-out data

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

    def reads_sentences(self, settings: PretrainConfig) -> bool:
        """Tell whether it needs to know where sentences start."""
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


BOS, EOS = 0, 1  # of random documents
DOCUMENT_TOKENS = 150  # on average
