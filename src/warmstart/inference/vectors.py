"""Vectors of texts and of their tokens, at any layer.

Knows nothing about files; texts of similar length are read together and come back in order.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from warmstart.batching.batch import LabelledBatch, move
from warmstart.batching.padding import budgeted, pad_texts
from warmstart.kernels.linear import AnyModule, PackedAutocastLinear, can_pack, packed_copy
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.heads import pool
from warmstart.model.models import Translator
from warmstart.runtime import Runtime
from warmstart.settings.shared import Pooling

ENOUGH_TOKENS = 4096  # that keep a CPU busy
MANY_TOKENS = 8192  # that repay packing the weights


def forward_tokens(micro_tokens: int, device: torch.device) -> int:
    """Return how many padded tokens to read together, at most `micro_tokens`."""
    return min(micro_tokens, ENOUGH_TOKENS) if device.type == "cpu" else micro_tokens


def packed_for(model: AnyModule, num_tokens: int, runtime: Runtime, inside: str = "") -> AnyModule:
    """Return a model for so many tokens: itself, or on a CPU a copy that computes the same faster.

    What is packed lies inside the named part, or is all of it.
    """
    if runtime.dtype is None or num_tokens < MANY_TOKENS or not can_pack(runtime.device):
        return model
    return packed_copy(model, runtime.dtype, PackedAutocastLinear, inside)


def backbone_of(model: nn.Module) -> Backbone:
    """Return the base of any model; of a translator, what reads the source."""
    backbone = model.encoder if isinstance(model, Translator) else model.backbone
    assert isinstance(backbone, Backbone)
    return backbone


@dataclass(frozen=True)
class TextBatches:
    """How encoded texts are grouped for a forward pass."""

    micro_tokens: int  # padded tokens in one batch
    pad: int
    runtime: Runtime
    advance: Callable[[int], None] | None = None  # hears how many tokens have been read


@torch.no_grad()
def text_vectors(
    backbone: Backbone,
    texts: Sequence[Sequence[int]],
    batches: TextBatches,
    pooling: Pooling,
    layer: int | None = None,
    starts: Sequence[int] | None = None,
) -> Tensor:
    """Return one vector for every text, at the last layer unless named: (texts, D)."""
    depth = backbone.config.depth
    chosen = depth if layer is None else layer
    vectors = torch.empty(len(texts), backbone.config.width, dtype=_kept_type(backbone))
    for rows, batch, (states,) in _read(backbone, texts, batches, [chosen], starts):
        if pooling == "cls" and chosen < depth:
            pooled = states[:, 0]  # a pooler has only learned to read the last layer
        else:
            pooled = pool(backbone, states, batch.is_token, pooling)
        vectors[rows] = pooled.to(vectors.dtype).cpu()
    return vectors


@torch.no_grad()
def token_vectors(
    backbone: Backbone,
    texts: Sequence[Sequence[int]],
    batches: TextBatches,
    layers: Sequence[int],
) -> list[Tensor]:
    """Return for every text the vectors of its tokens at these layers: (layers, T, D) each."""
    vectors: list[Tensor] = [torch.empty(0)] * len(texts)
    for rows, _, states in _read(backbone, texts, batches, layers):
        chosen = torch.stack(states).to(_kept_type(backbone)).cpu()
        for index, row in enumerate(rows):
            vectors[row] = chosen[:, index, : len(texts[row])].clone()
    return vectors


def _read(
    backbone: Backbone,
    texts: Sequence[Sequence[int]],
    batches: TextBatches,
    layers: Sequence[int],
    starts: Sequence[int] | None = None,
) -> Iterator[tuple[list[int], LabelledBatch, list[Tensor]]]:
    """Yield the rows of every batch, the batch, and its states at these layers; no dropout."""
    runtime = batches.runtime
    was_training = backbone.training
    backbone.eval()
    unused = [0] * len(texts)
    budget = forward_tokens(batches.micro_tokens, runtime.device)
    reader = packed_for(backbone, sum(map(len, texts)), runtime)
    for rows in budgeted(range(len(texts)), texts, budget):
        batch = move(pad_texts(texts, unused, rows, batches.pad, starts), runtime.device)
        with runtime.precision():
            yield rows, batch, layer_states(reader, batch, layers)
    backbone.train(was_training)


def layer_states(backbone: Backbone, batch: LabelledBatch, layers: Sequence[int]) -> list[Tensor]:
    """Return what enters the first block (layer 0) or leaves later ones: (B, T, D) each.

    The last layer is what heads read: behind the final norm, where there is one.
    """
    layout = Layout(is_token=batch.is_token, segments=batch.segments)
    if set(layers) == {backbone.config.depth}:  # no need to keep the others
        return [backbone(batch.ids, replace(layout, skips_padding=True))]
    with _watched(backbone) as states:
        states[-1] = backbone(batch.ids, layout)
    return [states[layer] for layer in layers]


@contextmanager
def _watched(backbone: Backbone) -> Iterator[list[Tensor]]:
    """Yield a list that fills with the input of the first block and the output of every one."""
    states: list[Tensor] = []

    def enter(_: nn.Module, given: tuple[Any, ...]) -> None:
        states.append(given[0])

    def leave(_: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
        states.append(output)

    handles = [backbone.blocks[0].register_forward_pre_hook(enter)]
    handles += [block.register_forward_hook(leave) for block in backbone.blocks]
    try:
        yield states
    finally:
        for handle in handles:
            handle.remove()


def _kept_type(backbone: Backbone) -> torch.dtype:
    """Keep what the weights are; half precision is for matrix products alone."""
    return backbone.embed.weight.dtype
