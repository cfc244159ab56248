"""Run a model over one text and keep its attention weights, with the names of the tokens.

Computes what the model computes; knows nothing about pictures.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from warmstart.decoding.beam import Beam
from warmstart.decoding.engines import plain_engine, translate_ids
from warmstart.decoding.sample import SpecialIds
from warmstart.inference.translator import max_target_tokens
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import Translator
from warmstart.results.attention_weights import AttentionMap, Part, Tokens
from warmstart.runtime import Runtime
from warmstart.tokenization.tokenizer import Tokenizer

BLANKS = ("▁", " ", "\n", "\t")


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Tokens:
    """Return ids as pieces, and which of them make up one word; a mark is a word of its own."""
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
    """Return the weights of every layer and head on one text: (layers, H, T, T)."""
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
    """Return how the tokens of one text look at each other."""
    tokens = tokens_of(tokenizer, ids)
    weights = _plain(backbone_weights(backbone, ids, segments))
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
    """Return how source and target look; without a target, the model's own translation."""
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
            weights=_plain(torch.cat(kept)),
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
    best = translate_ids(engine, [list(source)], [limit], special, Beam(width=1))
    return [target_tokenizer.bos, *best[0][0].ids]


def _plain(weights: Tensor) -> np.ndarray:
    return weights.float().cpu().numpy()
