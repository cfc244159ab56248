"""What a training step of a task computes, for estimates of FLOPs, memory and time."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from warmstart.settings.model import ModelConfig
from warmstart.training.step import Objective

BOS, EOS = 0, 1  # of random documents
DOCUMENT_TOKENS = 150  # on average


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
