from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from warmstart.batching.batches import pad_texts
from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier, LanguageModel, pool
from warmstart.settings.model import ModelConfig

EXACT = {"rtol": 0.0, "atol": 1e-10}
Pooled = pytest.mark.parametrize("pooling", ["cls", "last", "mean"])
TEXTS = [[1, 5, 6, 7, 2], [1, 2], [1, 9, 2], [1, *range(3, 20), 2]]


def _logits(model: Classifier, rows: list[int], pad: int) -> Tensor:
    batch = pad_texts(TEXTS, [0] * len(TEXTS), rows, pad)
    return model(batch.ids, Layout(is_token=batch.is_token))


@Pooled
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_labels_do_not_depend_on_padding_or_company(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], attention: Any, pooling: Any
) -> None:
    shape = replace(some_shape, attention=attention, pooler=True)
    model: Classifier = randomised(Classifier(shape, 3, pooling)).eval()
    together = _logits(model, [0, 1, 2, 3], pad=0)
    assert_close(_logits(model, [3, 2, 1, 0], pad=22).flip(0), together, **EXACT)
    for row in range(4):
        assert_close(_logits(model, [row], pad=0)[0], together[row], **EXACT)


def test_pooling_by_hand(tiny: ModelConfig) -> None:
    backbone = Classifier(tiny, 2, "mean").backbone
    hidden = torch.randn(2, 4, 16)
    is_token = torch.tensor([[True, True, True, False], [True, False, False, False]])
    assert torch.equal(pool(backbone, hidden, is_token, "cls"), hidden[:, 0])
    assert torch.equal(pool(backbone, hidden, is_token, "last"), hidden[[0, 1], [2, 0]])
    expected = torch.stack([hidden[0, :3].mean(0), hidden[1, 0]])
    assert_close(pool(backbone, hidden, is_token, "mean"), expected)
    assert_close(pool(backbone, hidden, None, "mean"), hidden.mean(1))
    assert torch.equal(pool(backbone, hidden, None, "last"), hidden[:, -1])


@Pooled
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_a_text_of_padding_alone_gives_no_nan(
    tiny: ModelConfig, pooling: Any, attention: Any
) -> None:
    model = Classifier(replace(tiny, attention=attention), 2, pooling)
    is_token = torch.tensor([[True, True, True], [False, False, False]])
    logits = model(torch.ones(2, 3, dtype=torch.long), Layout(is_token=is_token))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("transform", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_language_head_is_linear_over_the_vocabulary(
    tiny: ModelConfig, randomised: Callable[[Any], Any], tied: bool, transform: bool
) -> None:
    shape = replace(tiny, tied=tied, transform=transform, activation="gelu")
    model: LanguageModel = randomised(LanguageModel(shape)).eval()
    ids = torch.tensor([[1, 2, 3]])
    hidden = model.backbone(ids)
    if transform:
        dense, norm = model.head.transform.dense, model.head.transform.norm
        hidden = norm(F.gelu(dense(hidden)))
    weight = model.backbone.embed.weight if tied else model.head.output.weight
    assert_close(model(ids), hidden @ weight.T + model.head.output.bias, **EXACT)


def test_a_tied_tensor_is_stored_and_counted_once(tiny: ModelConfig) -> None:
    model = LanguageModel(replace(tiny, tied=True, biases=False))
    assert not any(name.startswith("head.") for name in model.state_dict())
    model(torch.tensor([[1, 2]])).logsumexp(-1).sum().backward()
    grad = model.backbone.embed.weight.grad
    assert grad is not None
    assert (grad.abs().sum(1) > 0).all()  # rows that were only predicted learn too


def test_dropout_before_the_classification_head(tiny: ModelConfig) -> None:
    model = Classifier(tiny, 2, "mean", dropout=0.5)
    ids = torch.ones(1, 4, dtype=torch.long)
    assert not torch.equal(model(ids, Layout()), model(ids, Layout()))
    model.eval()
    assert torch.equal(model(ids, Layout()), model(ids, Layout()))
