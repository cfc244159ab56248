"""A fine-tuned model in use: texts in, labels out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from warmstart.batching.batch import move
from warmstart.batching.encode import EncodedTexts
from warmstart.batching.padding import budgeted, pad_texts
from warmstart.inference.text_model import TransformerModel
from warmstart.model.backbone import Layout
from warmstart.runtime import Runtime


@dataclass(frozen=True, kw_only=True)
class TextPredictor(TransformerModel):
    """A model that labels texts."""

    answer: Callable[[EncodedTexts], list[Any]]  # one prediction for every encoded text
    classes: tuple[str, ...] = ()  # that a classifier tells apart

    def predict(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[Any]:
        """Label texts, or pairs of a text and its second text."""
        self.check_texts(texts, texts2)
        return self.answer(self.encode(texts, texts2)) if len(texts) else []


@dataclass(frozen=True)
class TextBatches:
    """How encoded texts are grouped for a forward pass."""

    micro_tokens: int  # padded tokens in one batch
    pad: int
    runtime: Runtime


@torch.inference_mode()
def text_outputs(
    model: nn.Module,
    texts: Sequence[Sequence[int]],
    batches: TextBatches,
    starts: Sequence[int] | None = None,
) -> Tensor:
    """Return what a model computes for every text, in float64, in the order given."""
    outputs: Tensor | None = None
    unused = [0] * len(texts)
    for rows in budgeted(range(len(texts)), texts, batches.micro_tokens):
        batch = move(pad_texts(texts, unused, rows, batches.pad, starts), batches.runtime.device)
        layout = Layout(is_token=batch.is_token, segments=batch.segments)
        with batches.runtime.precision():
            values = model(batch.ids, layout).double().cpu()
        if outputs is None:
            outputs = values.new_empty(len(texts), *values.shape[1:])
        outputs[rows] = values
    return torch.empty(0) if outputs is None else outputs
