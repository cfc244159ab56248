"""What training commands return; a notebook shows it with the curve of the loss."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from warmstart.formats import duration
from warmstart.report.html import figure, table
from warmstart.report.notebook import Shown
from warmstart.report.training_figure import draw_metrics
from warmstart.results.metrics_file import read_metrics


@dataclass(frozen=True)
class PretrainResult(Shown):
    """The outcome of a pretraining run."""

    run: Path
    valid: dict[str, float]  # validation scores by name; they depend on the objective
    summary: str  # the same in one phrase
    tokens: int  # seen in training
    elapsed_s: float

    def pieces(self) -> list[str]:
        seen = f"{self.tokens:,} tokens in {duration(self.elapsed_s)}"
        return [f"{self.run}: {self.summary}, after {seen}.", *_curve(self.run)]

    @property
    def perplexity(self) -> float:
        """Return the validation perplexity of a causal run."""
        return self.valid["perplexity"]


@dataclass(frozen=True)
class FinetuneResult(Shown):
    """The outcome of a fine-tuning run."""

    run: Path
    valid: dict[str, float]  # validation scores at the best epoch
    summary: str  # the same in one phrase
    best_epoch: int
    elapsed_s: float

    def pieces(self) -> list[str]:
        best = f"at epoch {self.best_epoch}, in {duration(self.elapsed_s)}"
        return [f"{self.run}: {self.summary} {best}.", _scores(self.valid)]

    @property
    def accuracy(self) -> float:
        """Return the validation accuracy of a classifier."""
        return self.valid["accuracy"]


@dataclass(frozen=True)
class TranslatorResult(Shown):
    """The outcome of training a translator."""

    run: Path
    bleu: float  # greedy, on validation, of the saved weights
    loss: float
    step: int  # the best one; the last one where weights were averaged
    num_averaged: int  # validations whose weights were averaged
    elapsed_s: float

    def pieces(self) -> list[str]:
        scores = f"BLEU {self.bleu:.1f}, loss {self.loss:.3f} on validation"
        reached = f"{self.run}: {scores}, at step {self.step:,}, in {duration(self.elapsed_s)}."
        return [reached, *_curve(self.run)]


@dataclass(frozen=True)
class EvaluationResult(Shown):
    """The scores of a run on held-out data."""

    run: Path
    file: str
    scores: dict[str, Any]  # JSON values
    times_scored: int  # evaluations of this run on this file, this one included

    @property
    def leak(self) -> str | None:
        """Warn of texts that the run was trained on; None: there are none, or nobody knows."""
        num_seen = sum(self.scores.get(f"{how}seen_in_training", 0) for how in ("", "nearly_"))
        if not num_seen:
            return None
        num_texts = next(self.scores[name] for name in ("rows", "sentences") if name in self.scores)
        unseen = (n for n, v in self.scores.items() if n.endswith("_unseen") and v is not None)
        without = "".join(f": see {name.replace('_', ' ')}" for name in unseen)
        return (
            f"warning: {num_seen:,} of {num_texts:,} texts also occur, exactly or nearly, in what "
            f"the run was trained on, so its scores are too good{without}"
        )

    def pieces(self) -> list[str]:
        leak = [self.leak] if self.leak else []
        return [f"{self.run} on {self.file}", *leak, _scores(self.scores)]


def _curve(run: Path) -> Iterator[Markup]:
    """Yield the curve of a run's loss, if it recorded any."""
    metrics = read_metrics(run / "metrics.jsonl")
    if metrics:
        yield figure(draw_metrics(metrics), f"Loss of {run.name} by step.")


def _scores(scores: Mapping[str, Any]) -> Markup:
    numbers = {name: value for name, value in scores.items() if isinstance(value, int | float)}
    return table(("score", ""), [(name, f"{value:,.4g}") for name, value in numbers.items()])
