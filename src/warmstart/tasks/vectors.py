"""Outputs, vectors and attention weights of texts, computed in batches of similar length."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from warmstart.batching.batches import LabelledBatch, cut_to_budget, move, pad_texts
from warmstart.decoding.beam import SpecialIds
from warmstart.decoding.engines import plain_engine, translate_ids
from warmstart.decoding.translator import max_target_tokens
from warmstart.kernels.inference import AnyModule, PackedAutocastLinear, can_pack, packed_copy
from warmstart.model.attention_weights import AttentionMap, Part, Tokens
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import Translator, pool
from warmstart.runtime import Runtime
from warmstart.settings.shared import Pooling
from warmstart.settings.using import Beam
from warmstart.tokenization.tokenizer import Tokenizer

ENOUGH_TOKENS = 4096  # that keep a CPU busy
MANY_TOKENS = 1024  # that repay packing the weights
MOST_KEPT = 1 << 22  # tokens of texts that stay on the device, padded
BLANKS = ("▁", " ", "\n", "\t")
RECORDED_LENGTHS = 64  # recorded batches are padded to a multiple of this
PaddedTexts = tuple[list[int], LabelledBatch]  # rows, and their batch
# Tokens that fill a GPU, and need little memory without gradients.
LEAST_TOKENS = {"cpu": 0, "cuda": 65_536, "mps": 0}


def forward_tokens(micro_tokens: int, device: torch.device) -> int:
    """Return how many padded tokens to read together, at most `micro_tokens`."""
    return min(micro_tokens, ENOUGH_TOKENS) if device.type == "cpu" else micro_tokens


def pack_for(model: AnyModule, num_tokens: int, runtime: Runtime, inside: str = "") -> AnyModule:
    """Return a model, or for many tokens on a CPU a copy of equal outputs with packed weights.

    With `inside`, only the layers of that part are packed. In fp32 too: without packed weights
    PyTorch multiplies with MKL, which on an AMD CPU is less than half as fast as oneDNN.
    """
    dtype = runtime.dtype or torch.float32
    is_single = next(model.parameters()).dtype == torch.float32
    if num_tokens < MANY_TOKENS or not is_single or not can_pack(runtime.device, dtype):
        return model
    return packed_copy(model, dtype, PackedAutocastLinear, inside)


def backbone_of(model: nn.Module) -> Backbone:
    """Return the backbone of a model; of a translator, the encoder."""
    backbone = model.encoder if isinstance(model, Translator) else model.backbone
    assert isinstance(backbone, Backbone)
    return backbone


@dataclass(frozen=True)
class TextBatches:
    """How encoded texts are grouped for a forward pass."""

    micro_tokens: int  # padded tokens in one batch
    pad: int
    runtime: Runtime
    advance: Callable[[int], None] | None = None  # is told how many tokens were read
    kept: "KeptBatches | None" = None  # where texts are read again and again


class KeptBatches:
    """The padded batches of the latest texts, on the device: validation, and test."""

    def __init__(self) -> None:
        self._latest: dict[int, tuple[object, list[Any]]] = {}

    def of(self, texts: Sequence[Sequence[int]], padded: Iterable[Any]) -> Iterable[Any]:
        """Return the kept batches of these texts; keep `padded` unless the texts are too large."""
        if sum(map(len, texts)) > MOST_KEPT:
            return padded
        if id(texts) not in self._latest:
            for oldest in list(self._latest)[:-1]:
                del self._latest[oldest]
            self._latest[id(texts)] = texts, list(padded)
        return self._latest[id(texts)][1]


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
    vectors = torch.empty(len(texts), backbone.config.width, dtype=_weight_type(backbone))
    for rows, batch, (states,) in _read_batches(backbone, texts, batches, [chosen], starts):
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
    for rows, _, states in _read_batches(backbone, texts, batches, layers):
        chosen = torch.stack(states).to(_weight_type(backbone)).cpu()
        for index, row in enumerate(rows):
            vectors[row] = chosen[:, index, : len(texts[row])].clone()
    return vectors


def _read_batches(
    backbone: Backbone,
    texts: Sequence[Sequence[int]],
    batches: TextBatches,
    layers: Sequence[int],
    starts: Sequence[int] | None = None,
) -> Iterator[tuple[list[int], LabelledBatch, list[Tensor]]]:
    """Yield the rows of every batch, the batch, and the states at these layers; no dropout."""
    runtime = batches.runtime
    was_training = backbone.training
    backbone.eval()
    unused = [0] * len(texts)
    budget = forward_tokens(batches.micro_tokens, runtime.device)
    reader = pack_for(backbone, sum(map(len, texts)), runtime)
    for rows in cut_to_budget(range(len(texts)), texts, budget):
        batch = move(pad_texts(texts, unused, rows, batches.pad, starts), runtime.device)
        with runtime.precision():
            yield rows, batch, layer_states(reader, batch, layers)
    backbone.train(was_training)


def layer_states(backbone: Backbone, batch: LabelledBatch, layers: Sequence[int]) -> list[Tensor]:
    """Return states (B, T, D) by layer: 0 is the input of the blocks, n the output of block n.

    The last layer is the input of heads: behind the final norm, where there is one.
    """
    layout = Layout(is_token=batch.is_token, segments=batch.segments)
    if set(layers) == {backbone.config.depth}:  # no need to keep the others
        return [backbone(batch.ids, replace(layout, skips_padding=True))]
    with _watch_blocks(backbone) as states:
        states[-1] = backbone(batch.ids, layout)
    return [states[layer] for layer in layers]


@contextmanager
def _watch_blocks(backbone: Backbone) -> Iterator[list[Tensor]]:
    """Yield a list that fills with the input of the first block and the output of every block."""
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


def _weight_type(backbone: Backbone) -> torch.dtype:
    """Return the type of the weights: half precision is for matrix products alone."""
    return backbone.embed.weight.dtype


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Tokens:
    """Return ids as pieces with the word of each; a special token is a word of its own."""
    marks = {tokenizer.bos, tokenizer.eos, tokenizer.pad, tokenizer.mask}
    pieces = tokenizer.pieces(ids)
    words: list[int] = []
    for index, piece in enumerate(pieces):
        follows = index > 0 and ids[index] not in marks and ids[index - 1] not in marks
        is_inside = (
            piece.startswith("##")
            if tokenizer.kind == "wordpiece"
            else not piece.startswith(BLANKS)
        )
        words.append(0 if index == 0 else words[-1] + (not (follows and is_inside)))
    return Tokens(pieces=tuple(tokenizer.labels(ids)), words=tuple(words))


@torch.inference_mode()
def backbone_weights(
    backbone: Backbone, ids: Sequence[int], segments: Sequence[int] | None
) -> Tensor:
    """Return the attention weights of every layer and head on one text: (layers, H, T, T)."""
    device = next(backbone.parameters()).device
    row = torch.tensor([ids], device=device)  # (1, T)
    layout = Layout(
        segments=torch.tensor([segments], device=device) if segments is not None else None
    )
    weights: list[Tensor] = []
    backbone(row, layout, attention_weights=weights)
    return torch.cat(weights)


def text_attention(
    backbone: Backbone,
    tokenizer: Tokenizer,
    ids: Sequence[int],
    segments: Sequence[int] | None = None,
) -> AttentionMap:
    """Return the attention weights between the tokens of one text."""
    tokens = tokens_of(tokenizer, ids)
    weights = _to_numpy(backbone_weights(backbone, ids, segments))
    return AttentionMap(
        part="self",
        queries=tokens,
        keys=tokens,
        weights=weights,
        is_causal=backbone.config.is_causal,
    )


@torch.inference_mode()
def pair_attention(
    model: Translator,
    tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    source: Sequence[int],
    target: Sequence[int] | None,
) -> dict[str, AttentionMap]:
    """Return the attention weights of a source with a target, by default the model's own."""
    device = model.embedding.device
    encoder: list[Tensor] = []
    decoder: list[Tensor] = []
    cross: list[Tensor] = []
    read = torch.tensor([source], device=device)  # (1, S)
    if target is None:
        target = _greedy_translation(model, target_tokenizer, source)
    encoder_output = model.encode(read, None, encoder)
    written = torch.tensor([target], device=device)  # (1, T)
    model.decode(written, encoder_output, None, decoder, cross)
    below, above = tokens_of(tokenizer, source), tokens_of(target_tokenizer, target)
    parts: dict[Part, tuple[Tokens, Tokens, list[Tensor]]] = {
        "encoder": (below, below, encoder),
        "decoder": (above, above, decoder),
        "cross": (above, below, cross),
    }
    return {
        part: AttentionMap(
            part=part,
            queries=q,
            keys=k,
            weights=_to_numpy(torch.cat(kept)),
            is_causal=part == "decoder",
        )
        for part, (q, k, kept) in parts.items()
    }


def _greedy_translation(
    model: Translator, target_tokenizer: Tokenizer, source: Sequence[int]
) -> list[int]:
    """Return the greedy translation after its first special token."""
    engine = plain_engine(model, Runtime(model.embedding.device))
    limit = max_target_tokens(len(source), model.config.max_length)
    suppressed = target_tokenizer.suppressed_ids(len(model.embedding))
    special = SpecialIds(target_tokenizer.bos, target_tokenizer.eos, suppressed)
    best = translate_ids(engine, [list(source)], [limit], special, Beam(beam=1))
    return [target_tokenizer.bos, *best[0][0].ids]


def _to_numpy(weights: Tensor) -> np.ndarray:
    return weights.float().cpu().numpy()


def padded_batches(
    texts: Sequence[Sequence[int]], batches: TextBatches, starts: Sequence[int] | None = None
) -> Iterator[PaddedTexts]:
    """Yield the rows of every batch, and the batch, on the device."""
    device = batches.runtime.device
    unused = [0] * len(texts)
    budget = max(forward_tokens(batches.micro_tokens, device), LEAST_TOKENS[device.type])
    for rows in cut_to_budget(range(len(texts)), texts, budget):
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
    model = pack_for(model, sum(map(len, texts)), batches.runtime, "backbone")
    padded: Iterable[PaddedTexts] = padded_batches(texts, batches, starts)
    if batches.kept is not None:
        padded = batches.kept.of(texts, padded)
    return _batch_outputs(model, padded, batches.runtime)


@torch.inference_mode()
def _batch_outputs(model: nn.Module, padded: Iterable[PaddedTexts], runtime: Runtime) -> Tensor:
    """Return what a model computes for texts in batches, in the order of their rows."""
    outputs: list[Tensor] = []
    order: list[int] = []
    with runtime.precision():  # around all batches, so that weights are cast once
        for rows, batch in padded:
            layout = Layout(batch.is_token, segments=batch.segments, skips_padding=True)
            outputs.append(model(batch.ids, layout))
            order += rows
    if not order:
        return torch.empty(0)
    return torch.cat(outputs).cpu().double()[torch.tensor(order).argsort()]
