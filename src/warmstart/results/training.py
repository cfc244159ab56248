"""What training commands return."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PretrainResult:
    """The outcome of a pretraining run."""

    run: Path
    valid: dict[str, float]  # validation scores by name; they depend on the objective
    summary: str  # the same in one phrase
    tokens: int  # seen in training
    elapsed_s: float

    @property
    def perplexity(self) -> float:
        """Return the validation perplexity of a causal run."""
        return self.valid["perplexity"]


@dataclass(frozen=True)
class FinetuneResult:
    """The outcome of a fine-tuning run."""

    run: Path
    valid: dict[str, float]  # validation scores at the best epoch
    summary: str  # the same in one phrase
    best_epoch: int
    elapsed_s: float

    @property
    def accuracy(self) -> float:
        """Return the validation accuracy of a classifier."""
        return self.valid["accuracy"]


@dataclass(frozen=True)
class TranslatorResult:
    """The outcome of training a translator."""

    run: Path
    bleu: float  # greedy, on validation, of the saved weights
    loss: float
    step: int  # the best one; the last one where weights were averaged
    num_averaged: int  # validations whose weights were averaged
    elapsed_s: float


@dataclass(frozen=True)
class EvaluationResult:
    """The scores of a run on held-out data."""

    run: Path
    file: str
    scores: dict[str, Any]  # JSON values
    times_scored: int  # evaluations of this run on this file, this one included
