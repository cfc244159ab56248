"""Run a model over one text and keep its attention weights, with the names of the tokens.

Computes what the model computes; knows nothing about pictures.
"""

from collections.abc import Sequence
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from warmstart import progress
from warmstart.batching.truncate import truncate, truncate_pair
from warmstart.decoding.beam import Beam
from warmstart.decoding.engines import plain_engine, translate_ids
from warmstart.errors import WarmstartError
from warmstart.inference.translator import most_tokens
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import Translator
from warmstart.results.attention import AttentionMap, Part, Tokens
from warmstart.runs.saved import Source
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Truncate
from warmstart.tokenization.tokenizer import Tokenizer, load_tokenizer

BLANKS = ("▁", " ", "\n", "\t")


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Tokens:
    """Return ids as pieces, and which of them make up one word; a mark is a word of its own."""
    marks = {tokenizer.bos, tokenizer.eos, tokenizer.pad, tokenizer.mask}
    pieces = tokenizer.pieces(ids)
    words: list[int] = []
    for place, piece in enumerate(pieces):
        follows = place > 0 and ids[place] not in marks and ids[place - 1] not in marks
        is_inside = (
            piece.startswith("##")
            if tokenizer.kind == "wordpiece"
            else not piece.startswith(BLANKS)
        )
        words.append(0 if place == 0 else words[-1] + (not (follows and is_inside)))
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
    keep: list[Tensor] = []
    backbone(row, layout, keep=keep)
    return torch.cat(keep)


def text_attention(
    backbone: Backbone,
    tokenizer: Tokenizer,
    ids: Sequence[int],
    segments: Sequence[int] | None = None,
) -> AttentionMap:
    """Return how the tokens of one text look at each other."""
    tokens = tokens_of(tokenizer, ids)
    weights = _plain(backbone_weights(backbone, ids, segments))
    return AttentionMap(part="self", queries=tokens, keys=tokens, weights=weights)


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
        target = _likeliest(model, tokenizer, target_tokenizer, source)
    memory = model.remember(read, None, encoder, cross)
    model.hidden(torch.tensor([target], device=device), memory, keep=decoder)
    below, above = tokens_of(tokenizer, source), tokens_of(target_tokenizer, target)
    parts: dict[Part, tuple[Tokens, Tokens, list[Tensor]]] = {
        "encoder": (below, below, encoder),
        "decoder": (above, above, decoder),
        "cross": (above, below, cross),
    }
    return {
        part: AttentionMap(part=part, queries=q, keys=k, weights=_plain(torch.cat(kept)))
        for part, (q, k, kept) in parts.items()
    }


def _likeliest(
    model: Translator, tokenizer: Tokenizer, target_tokenizer: Tokenizer, source: Sequence[int]
) -> list[int]:
    """Return the greedy translation, as `translate` writes it, behind its first mark."""
    engine = plain_engine(model, Runtime(model.embedding.device))
    limit = most_tokens(len(source), model.config.max_length)
    marks = (tokenizer.pad, target_tokenizer.bos, target_tokenizer.eos)
    never = target_tokenizer.suppressed_ids(len(model.embedding))
    found = translate_ids(engine, [list(source)], [limit], marks, Beam(width=1), never)
    return [target_tokenizer.bos, *found[0][0].ids]


def look(
    model: torch.nn.Module,
    source: Source,
    text: str,
    text2: str | None = None,
    target: str | None = None,
) -> dict[str, AttentionMap]:
    """Return the attention of a run's model on a text, a pair of texts, or a source and target.

    Computed in the weights' own precision, so that each row sums to one.
    """
    tokenizer, shape = source.tokenizer, source.model
    _check(source, text2, target)
    if isinstance(model, Translator):
        ids = _marked(tokenizer, _cut(source, tokenizer, text, shape.max_length - 2), True)
        other, behind = target_tokenizer_of(source), None
        if target is not None:
            behind = _marked(other, _cut(source, other, target, shape.max_length - 1), False)
        return pair_attention(model, tokenizer, other, ids, behind)
    backbone = model.backbone
    assert isinstance(backbone, Backbone)
    has_end = source.kind == "classifier" or shape.attention == "bidirectional"
    segments = None
    if text2 is None:
        room = shape.max_length - 1 - has_end
        ids = _marked(tokenizer, _cut(source, tokenizer, text, room), has_end)
    else:
        ids, segments = _pair(source, text, text2)
    return {"self": text_attention(backbone, tokenizer, ids, segments)}


def _check(source: Source, text2: str | None, target: str | None) -> None:
    if target is not None and source.kind != "translator":
        raise WarmstartError(f"--target needs a translator, and {source.path} is none")
    reads_pairs = source.model.attention == "bidirectional" or source.config.get("pairs")
    if text2 is not None and not reads_pairs:
        raise WarmstartError(
            f"--text2 needs a model that reads both ways or learned from pairs, and {source.path} "
            "is neither"
        )
    if text2 is not None and source.kind == "translator":
        raise WarmstartError(f"--text2 is not for a translator, and {source.path} is one")


def _marked(tokenizer: Tokenizer, ids: list[int], has_end: bool) -> list[int]:
    return [tokenizer.bos, *ids, *([tokenizer.eos] if has_end else [])]


def target_tokenizer_of(source: Source) -> Tokenizer:
    """Return what a translator writes with: its source's tokenizer, or one of its own."""
    own = source.run.target_tokenizer
    return load_tokenizer(own) if own.is_dir() else source.tokenizer


def _cut(source: Source, tokenizer: Tokenizer, text: str, room: int) -> list[int]:
    """Return the ids of a text; what is too long is cut by the run's rule, and said."""
    ids = tokenizer.encode([text])[0]
    if not ids:
        raise WarmstartError(f"the text {text!r} holds no token to look at")
    if len(ids) > room:
        rule = rule_of(source)
        progress.say(f"the text has {len(ids):,} tokens; {room:,} are read, by the rule '{rule}'")
        ids = truncate(ids, room, rule)
    return ids


def rule_of(source: Source) -> Truncate:
    """Return how a run cuts long texts; the beginning is kept where it has no rule."""
    rule = source.config.get("settings", {}).get("truncate", "head")
    if rule not in get_args(Truncate):
        raise WarmstartError(
            f"{source.run.config_file}: truncate {rule!r} is unknown; known: "
            f"{', '.join(get_args(Truncate))}"
        )
    return rule


def _pair(source: Source, text: str, text2: str) -> tuple[list[int], list[int] | None]:
    """Return two texts in one row, each behind its end, and the segment of each token."""
    tokenizer, shape = source.tokenizer, source.model
    first, second = tokenizer.encode([text, text2])
    num_tokens, room = len(first) + len(second), shape.max_length - 3
    if num_tokens > room:
        rule = rule_of(source)
        progress.say(f"the texts have {num_tokens:,} tokens; {room:,} are read, by '{rule}'")
    first, second = truncate_pair(first, second, room, rule_of(source))
    ids = [tokenizer.bos, *first, tokenizer.eos, *second, tokenizer.eos]
    return ids, _segments(shape, len(first) + 2, len(second) + 1)


def _segments(shape: ModelConfig, first: int, second: int) -> list[int] | None:
    return [0] * first + [1] * second if shape.segments > 1 else None


def _plain(weights: Tensor) -> np.ndarray:
    return weights.float().cpu().numpy()
