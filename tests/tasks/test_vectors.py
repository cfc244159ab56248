"""Vectors do not depend on what is read beside a text, and equal what heads read."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from warmstart.batching.batches import pad_texts
from warmstart.kernels.inference import can_pack
from warmstart.model.backbone import Layout
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel, Translator
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.settings.shared import Pooling
from warmstart.tasks.vectors import (
    ENOUGH_TOKENS,
    MANY_TOKENS,
    TextBatches,
    backbone_of,
    layer_states,
    pack_for,
    text_outputs,
    text_vectors,
    token_vectors,
)

TEXTS = [[1, 5, 6, 2], [1, 7, 8, 9, 10, 11, 12, 2], [1, 2], [1, 13, 14, 2, 15, 2]]
STARTS = [4, 3, 2, 4]
EXACT = {"rtol": 0.0, "atol": 1e-10}
BERT = {"attention": "bidirectional", "segments": 2, "pooler": True, "positions": "learned"}


@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
@pytest.mark.parametrize("layer", [0, 1, None])
@pytest.mark.parametrize("words", [{}, BERT, {"norm_position": "pre", "positions": "rope"}])
def test_a_text_has_the_same_vector_alone_and_in_a_batch(
    pooling: Pooling,
    layer: int | None,
    words: dict[str, Any],
    tiny: ModelConfig,
    cpu: Runtime,
    randomised: Callable[[Any], Any],
) -> None:
    backbone = randomised(BackboneOnly(replace(tiny, **words))).backbone
    together = text_vectors(backbone, TEXTS, TextBatches(1000, 0, cpu), pooling, layer, STARTS)
    for row, text in enumerate(TEXTS):
        alone = text_vectors(
            backbone, [text], TextBatches(8, 22, cpu), pooling, layer, STARTS[row : row + 1]
        )
        assert_close(together[row], alone[0], **EXACT)


@pytest.mark.parametrize("words", [{}, BERT, {"norm_position": "pre"}])
def test_tokens_and_texts_agree(
    words: dict[str, Any], tiny: ModelConfig, cpu: Runtime, randomised: Callable[[Any], Any]
) -> None:
    backbone = randomised(BackboneOnly(replace(tiny, **words))).backbone
    depth = backbone.config.depth
    by_token = token_vectors(backbone, TEXTS, TextBatches(20, 0, cpu), range(depth + 1))
    for layer in range(depth + 1):
        mean = text_vectors(backbone, TEXTS, TextBatches(1000, 0, cpu), "mean", layer)
        for row, text in enumerate(TEXTS):
            assert by_token[row].shape == (depth + 1, len(text), backbone.config.width)
            assert_close(by_token[row][layer].mean(0), mean[row], **EXACT)


def test_the_last_layer_is_what_heads_read_and_the_first_what_enters(
    tiny: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    backbone = randomised(BackboneOnly(replace(tiny, norm_position="pre"))).backbone
    batch = pad_texts(TEXTS, [0] * 4, range(4), 0)
    layout = Layout(is_token=batch.is_token, segments=batch.segments)
    states = layer_states(backbone, batch, range(backbone.config.depth + 1))
    assert len(states) == backbone.config.depth + 1
    assert_close(states[-1], backbone(batch.ids, layout))
    x, contexts = backbone.prepare(backbone.embed(batch.ids), layout, None, None)
    assert_close(x, states[0])
    for block, context, state in zip(backbone.blocks[:-1], contexts, states[1:-1], strict=False):
        x = block(x, context)
        assert_close(x, state)
    assert not backbone.blocks[0]._forward_hooks
    assert not backbone.blocks[0]._forward_pre_hooks


def test_every_model_has_a_base(tiny: ModelConfig, cpu: Runtime) -> None:
    models = [
        BackboneOnly(tiny),
        LanguageModel(tiny),
        Classifier(tiny, 2, "mean"),
        Translator(replace(tiny, decoder_depth=1)),
    ]
    for model in models:
        found = text_vectors(backbone_of(model), TEXTS, TextBatches(1000, 0, cpu), "mean")
        assert found.shape == (4, tiny.width)
        assert found.dtype == torch.float32


def test_dropout_is_off_and_training_goes_on_afterwards(tiny: ModelConfig, cpu: Runtime) -> None:
    backbone = BackboneOnly(replace(tiny, dropout=0.5)).backbone.train()
    first, second = (
        text_vectors(backbone, TEXTS, TextBatches(1000, 0, cpu), "mean") for _ in range(2)
    )
    assert torch.equal(first, second)
    assert backbone.training


def test_a_cpu_reads_short_and_long_texts_apart(tiny: ModelConfig, cpu: Runtime) -> None:
    backbone = BackboneOnly(replace(tiny, max_length=ENOUGH_TOKENS)).backbone
    shapes: list[torch.Size] = []
    backbone.register_forward_pre_hook(lambda _, given: shapes.append(given[0].shape))
    texts = [[1] * length for length in (4, 3200, 5, 2800, 6, 4)]
    text_vectors(backbone, texts, TextBatches(1_000_000, 0, cpu), "mean")
    assert all(shape.numel() <= ENOUGH_TOKENS for shape in shapes)
    assert sorted(shapes) == [torch.Size([1, 2800]), torch.Size([1, 3200]), torch.Size([4, 6])]


@pytest.mark.skipif(not can_pack(torch.device("cpu")), reason="this CPU has no packed weights")
@pytest.mark.parametrize("words", [{}, BERT, {"norm_position": "pre", "activation": "swiglu"}])
@pytest.mark.parametrize(("dtype", "rounding"), [(torch.bfloat16, 0.02), (None, 1e-5)])
def test_many_texts_are_read_with_packed_weights_and_have_the_same_vectors(
    words: dict[str, Any], tiny: ModelConfig, dtype: torch.dtype | None, rounding: float
) -> None:
    runtime = Runtime(torch.device("cpu"), dtype)
    model = Classifier(replace(tiny, **words), 3, "mean").eval()
    texts = [*TEXTS, *[[1, 5, 6, 7, 8, 2]] * (MANY_TOKENS // 6)]
    batches = TextBatches(1_000_000, 0, runtime)
    packed = pack_for(model, MANY_TOKENS, runtime, "backbone")
    assert packed is not model
    assert packed.head.output.weight is model.head.output.weight
    assert pack_for(model, MANY_TOKENS - 1, runtime, "backbone") is model
    many = text_vectors(model.backbone, texts, batches, "mean")[: len(TEXTS)]
    few = text_vectors(model.backbone, TEXTS, batches, "mean")
    assert_close(many, few, rtol=rounding, atol=rounding)
    outputs = text_outputs(model, texts, batches)[: len(TEXTS)]
    assert_close(outputs, text_outputs(model, TEXTS, batches), rtol=rounding, atol=rounding)
