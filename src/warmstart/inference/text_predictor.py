"""A fine-tuned model in use: texts in, labels out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from warmstart.batching.batch import LabelledBatch, move
from warmstart.batching.encode import EncodedTexts
from warmstart.batching.padding import budgeted, pad_texts
from warmstart.inference.transformer_model import TransformerModel
from warmstart.inference.vectors import TextBatches, forward_tokens, packed_for
from warmstart.model.backbone import Layout
from warmstart.runtime import Runtime

PaddedTexts = tuple[list[int], LabelledBatch]  # rows, and their batch
LEAST_TOKENS = {"cpu": 0, "cuda": 65_536}  # that fill a GPU; without gradients they need little


@dataclass(frozen=True, kw_only=True)
class TextPredictor(TransformerModel):
    """A model that labels texts."""

    answer: Callable[[EncodedTexts], list[Any]]  # one prediction for every encoded text
    classes: tuple[str, ...] = ()  # that a classifier tells apart

    def predict(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[Any]:
        """Label texts, or pairs of a text and its second text."""
        self.check_texts(texts, texts2)
        return self.answer(self.encode(texts, texts2)) if len(texts) else []


def padded_batches(
    texts: Sequence[Sequence[int]], batches: TextBatches, starts: Sequence[int] | None = None
) -> Iterator[PaddedTexts]:
    """Yield the rows of every batch, and the batch, on the device."""
    device = batches.runtime.device
    unused = [0] * len(texts)
    budget = max(forward_tokens(batches.micro_tokens, device), LEAST_TOKENS[device.type])
    for rows in budgeted(range(len(texts)), texts, budget):
        yield rows, move(pad_texts(texts, unused, rows, batches.pad, starts), device)
        if batches.advance is not None:
            batches.advance(sum(len(texts[row]) for row in rows))


def text_outputs(
    model: nn.Module,
    texts: Sequence[Sequence[int]],
    batches: TextBatches,
    starts: Sequence[int] | None = None,
) -> Tensor:
    """Return what a model computes for every text, in float64, in the order given."""
    model = packed_for(model, sum(map(len, texts)), batches.runtime, "backbone")
    return batch_outputs(model, padded_batches(texts, batches, starts), batches.runtime)


@torch.inference_mode()
def batch_outputs(model: nn.Module, padded: Iterable[PaddedTexts], runtime: Runtime) -> Tensor:
    """Return the same of texts in batches, in the order of their rows."""
    outputs: list[Tensor] = []
    order: list[int] = []
    with runtime.precision():  # around all batches, so that weights are cast once
        for rows, batch in padded:
            layout = Layout(batch.is_token, segments=batch.segments, skips_padding=True)
            outputs.append(model(batch.ids, layout))
            order += rows
    if not order:
        return torch.empty(0)
    return torch.cat(outputs).double().cpu()[torch.tensor(order).argsort()]
