"""Predict the next token."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from warmstart.batching.batch import PackedBatch, move
from warmstart.batching.packing import PackedStream, RunningText, pack, packed_in_order
from warmstart.data.token_file import TokenFile
from warmstart.evaluation.metrics import language_scores
from warmstart.evaluation.token_scores import score_tokens
from warmstart.inference.text_generator import TextGenerator
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.backbone import Layout
from warmstart.model.models import LanguageModel
from warmstart.results.summary import Interval
from warmstart.runs.saved import SavedRun
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.pretraining import PretrainConfig
from warmstart.settings.using import EvaluateConfig
from warmstart.tasks.held_out import BATCH_TOKENS, held_out_text
from warmstart.tasks.task import Pretraining, PretrainingData, PretrainingTask
from warmstart.tasks.workload import BOS, EOS, Workload, WorkloadShape
from warmstart.training.state import Evaluation
from warmstart.training.step import Objective

VALID_TOKENS = 200_000  # longer validation text is sampled in evenly spaced rows
RESAMPLES = 2000


class CausalObjective:
    """Summed next-token loss over packed rows."""

    def count(self, group: Sequence[PackedBatch]) -> dict[str, float]:
        """Count the predicted tokens."""
        return {"lm": sum(int((batch.targets != IGNORE).sum()) for batch in group)}

    def __call__(self, model: LanguageModel, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the summed loss."""
        return {"lm": self.score(model, batch)[0]}

    def score(self, model: LanguageModel, batch: PackedBatch) -> tuple[Tensor, Tensor]:
        """Return the summed loss and the number of tokens predicted right."""
        hidden = _hidden(model, batch).flatten(0, 1)
        weight, bias = model.head.weights(model.backbone.embed.weight)
        return linear_cross_entropy(hidden, weight, bias, batch.targets.flatten())


def _hidden(model: LanguageModel, batch: PackedBatch) -> Tensor:
    """Return hidden states ready for the output weights: (B, T, D)."""
    layout = Layout(documents=batch.documents, positions=batch.positions)
    hidden: Tensor = model.head.transform(model.backbone(batch.ids, layout))
    return hidden


class CausalWorkload(Workload):
    """A step of causal pretraining."""

    objective = "causal"
    steps = 1000
    batch_tokens = 8_192
    micro_tokens = 16_384
    is_compiled = True

    def suits(self, model: ModelConfig) -> bool:
        return model.attention == "causal" and not model.decoder_depth

    def architecture(self, model: ModelConfig, is_preset: bool) -> ModelConfig:
        return replace(model, attention="causal")

    def has_documents(self, model: ModelConfig) -> bool:
        return True

    def build_model(self, shape: WorkloadShape) -> nn.Module:
        return LanguageModel(shape.model)

    def build_objective(self, shape: WorkloadShape, device: torch.device) -> Objective:
        return CausalObjective()

    def random_batch(self, shape: WorkloadShape, rows: int, generator: torch.Generator) -> Any:
        return pack(shape.random_documents(rows, generator), BOS, EOS)


class CausalTask(PretrainingTask):
    """A language model that predicts the next token."""

    name = "causal"
    description = "a causal language model"
    hub_name = "text-generation"
    hub_class = "ForCausalLM"
    attention = "causal"
    can_generate = True
    ends_texts = False
    text_model = TextGenerator
    workload = CausalWorkload()

    def check(self, settings: PretrainConfig) -> None:
        settings.refuse_unused()

    def architecture(
        self, model: ModelConfig, settings: PretrainConfig, parent: SavedRun | None
    ) -> ModelConfig:
        if parent:
            return replace(model, attention="causal")
        return replace(model, attention="causal", segments=0, pooler=False)

    def new_model(
        self, model: ModelConfig, settings: PretrainConfig, parent: SavedRun | None
    ) -> nn.Module:
        built = LanguageModel(model)
        freeze_pair_head(built)
        return built

    def training(self, model: nn.Module, data: PretrainingData) -> Pretraining:
        language_model = cast(LanguageModel, model)
        stream = packed_stream(data, language_model.config.max_length)
        objective = CausalObjective()

        def evaluate() -> Evaluation:
            valid = data.text.valid
            text = replace(stream.text, ids=valid.ids)
            batches = list(packed_in_order(text, stream.rows_per_batch, VALID_TOKENS))
            score = partial(objective.score, language_model)
            scores = score_tokens(score, batches, data.runtime)
            num_read = sum(batch.ids.numel() for batch in batches)
            language = language_scores(scores.nll, scores.num_tokens, _bytes_of(num_read, valid))
            figures = {
                "valid_loss": scores.loss,
                "valid_perplexity": language.perplexity,
                "valid_bits_per_byte": language.bits_per_byte,
                "valid_accuracy": scores.accuracy,
            }
            return Evaluation(-scores.loss, figures, f"valid perplexity {language.perplexity:.1f}")

        return Pretraining(
            objective, stream, evaluate, lambda num_rows: num_rows * stream.text.length
        )

    def summary(self, scores: Mapping[str, float]) -> str:
        return (
            f"validation perplexity {scores['perplexity']:.2f}, "
            f"{scores['bits_per_byte']:.3f} bits per byte"
        )

    def evaluate(self, run: SavedRun, settings: EvaluateConfig, runtime: Runtime) -> dict[str, Any]:
        """Return perplexity and bits per byte; the 95% interval is over rows."""
        model = cast(LanguageModel, self.load_model(run).to(runtime.device).eval())
        with held_out_text(settings, run.tokenizer) as text:
            losses, counts = _row_losses(model, run, text.file, runtime)
            num_tokens, num_bytes = int(counts.sum()), text.file.num_bytes
            scores = language_scores(float(losses.sum()), num_tokens, num_bytes)
            return {
                **asdict(scores),
                "tokens": num_tokens,
                "bytes": num_bytes,
                "interval": asdict(_perplexity_interval(losses, counts)),
                **text.rows_seen(run),
            }

    def usage(self, path: Path) -> str:
        return f"warmstart generate {path} --prompt Once"


def freeze_pair_head(model: LanguageModel) -> None:
    """Freeze what only the next-sentence loss trains."""
    for name, parameter in model.named_parameters():
        if name.startswith(("backbone.pooler.", "next_sentence.")):
            parameter.requires_grad_(False)


def packed_stream(data: PretrainingData, length: int) -> PackedStream:
    """Return the training text in full rows."""
    settings, tokenizer = data.settings, data.tokenizer
    rows = settings.rows_per_step(length)
    text = RunningText(data.text.train.ids, length, tokenizer.bos, tokenizer.eos)
    assert settings.micro_tokens is not None  # by device
    rows_per_batch = min(rows, max(1, settings.micro_tokens // length))
    return PackedStream(text, rows, rows_per_batch, settings.seed)


def _bytes_of(num_read: int, file: TokenFile) -> int:
    """Return the bytes of the tokens read; the last token of a file is only a target."""
    return max(1, round(file.num_bytes * num_read / max(1, file.num_tokens - 1)))


@torch.inference_mode()
def _row_losses(
    model: LanguageModel, run: SavedRun, file: TokenFile, runtime: Runtime
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the summed loss and the number of predicted tokens of each row of text."""
    length, tokenizer = run.model.max_length, run.tokenizer
    text = RunningText(file.ids, length, tokenizer.bos, tokenizer.eos)
    weight, bias = model.head.weights(model.backbone.embed.weight)
    losses, counts = [], []
    for batch in packed_in_order(text, max(1, BATCH_TOKENS // length)):
        on_device = move(batch, runtime.device)
        with runtime.precision():
            for row, targets in zip(_hidden(model, on_device), on_device.targets, strict=True):
                losses.append(float(linear_cross_entropy(row, weight, bias, targets)[0]))
        counts += (batch.targets != IGNORE).sum(1).tolist()
    return np.array(losses), np.array(counts)


def _perplexity_interval(losses: NDArray[np.float64], counts: NDArray[np.int64]) -> Interval:
    """Resample rows of text: neighbouring tokens are not independent, rows nearly are."""
    means = np.array(list(_resampled_means(losses, counts)))
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    mean = np.exp(losses.sum() / counts.sum())
    return Interval(mean=float(mean), low=float(low), high=float(high))


def _resampled_means(losses: NDArray[np.float64], counts: NDArray[np.int64]) -> Iterator[float]:
    rng = np.random.Generator(np.random.PCG64(0))
    for _ in range(RESAMPLES):
        rows = rng.integers(0, len(losses), len(losses))
        yield float(losses[rows].sum() / counts[rows].sum())
