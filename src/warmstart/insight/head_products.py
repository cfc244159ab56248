"""Queries and keys of one head on a text, as the model computes them."""

from typing import Any

import torch
from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.inference.transformer_model import TransformerModel
from warmstart.model.attention import AttentionContext, MultiHeadAttention, attention_weights
from warmstart.model.backbone import Backbone
from warmstart.results.attention_weights import readable
from warmstart.results.model_views import HeadProducts
from warmstart.settings.looking import LookNeuronsConfig


@torch.inference_mode()
def head_products(model: TransformerModel, config: LookNeuronsConfig, text: str) -> HeadProducts:
    """Return the products of one query with every key, in one head of one layer."""
    ids, backbone = model.ids_of(text), model.backbone
    depth, heads = backbone.config.depth, backbone.config.heads
    query = config.query or len(ids)
    limits = (("--layer", config.layer, depth), ("--head", config.head, heads))
    for flag, value, most in (*limits, ("--query", query, len(ids))):
        if value > most:
            raise WarmstartError(f"{flag} {value} is too large: there are {most}")
    attend, x, context = _inputs(backbone, config.layer - 1, ids)
    q, k, _ = attend.queries_keys_values(x, context)  # each (1, H, T, K)
    divisor = q.shape[-1] ** 0.5 if context.is_scaled else 1.0
    scaled = q * (q.shape[-1] ** 0.5 / divisor)
    weights = attention_weights(scaled, k, context.mask, context.is_causal)

    def numbers(tensor: Tensor) -> Any:
        return tensor[0, config.head - 1].double().cpu().numpy()

    return HeadProducts(
        run=config.run,
        layer=config.layer,
        head=config.head,
        query=query,
        tokens=tuple(map(readable, model.tokenizer.labels(ids))),
        q=numbers(q)[query - 1],
        k=numbers(k),
        divisor=divisor,
        weights=numbers(weights)[query - 1],
    )


def _inputs(
    backbone: Backbone, layer: int, ids: list[int]
) -> tuple[MultiHeadAttention, Tensor, AttentionContext]:
    """Return one layer's attention with what it receives when the model reads a text."""
    attend = backbone.blocks[layer].attend
    assert isinstance(attend, MultiHeadAttention)
    received: list[tuple[Any, ...]] = []
    hook = attend.register_forward_pre_hook(lambda _, inputs: received.append(inputs))
    try:
        backbone(torch.tensor([ids], device=next(backbone.parameters()).device))
    finally:
        hook.remove()
    x, context = received[0]
    return attend, x, context
