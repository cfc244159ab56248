"""Loss, gradients and scores do not depend on how texts are dealt into batches."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD
from torch.testing import assert_close

from model_scores import causal_scores, class_probabilities
from warmstart.batching.batches import LabelledBatch, LabelledStream, PackedBatch, pad_texts
from warmstart.batching.packing import RunningText, pack, read_packed_rows
from warmstart.kernels.loss import IGNORE
from warmstart.model.backbone import Layout
from warmstart.model.models import Classifier, LanguageModel
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.tasks.causal import CausalObjective
from warmstart.tasks.classify import ClassifyObjective, class_weights
from warmstart.tasks.vectors import TextBatches
from warmstart.training.step import Objective, train_step

EXACT = {"rtol": 0.0, "atol": 1e-10}
ROUNDED = {"rtol": 1e-4, "atol": 1e-6}
BOS, EOS = 1, 2
DOCUMENTS = [[5, 6], [7, 8, 9, 10, 11], [12], [13, 14, 15], [4, 4, 4, 4], [20, 21, 3]]
CLASSES = [0, 1, 2, 1, 1, 0]


def _texts() -> list[list[int]]:
    return [[BOS, *document, EOS] for document in DOCUMENTS]


def _padded(rows: Sequence[int], extra: int = 0) -> PackedBatch:
    """Return documents a row each, padded; the padding is a document that predicts nothing."""
    texts = [_texts()[row] for row in rows]
    T = max(map(len, texts)) - 1 + extra
    ids = torch.full((len(texts), T), 22)
    targets, documents = torch.full_like(ids, IGNORE), torch.ones_like(ids)
    for row, text in enumerate(texts):
        size = len(text) - 1
        ids[row, :size] = torch.tensor(text[:-1])
        targets[row, :size] = torch.tensor(text[1:])
        documents[row, :size] = 0
    return PackedBatch(ids, targets, documents, torch.arange(T).expand_as(ids))


def _packed(order: Sequence[int]) -> PackedBatch:
    tokens = [token for row in order for token in _texts()[row]]
    return pack(torch.tensor([tokens]), BOS, EOS)


GROUPINGS: dict[str, Callable[[], list[PackedBatch]]] = {
    "one row": lambda: [_packed(range(6))],
    "another order": lambda: [_packed([3, 5, 0, 1, 4, 2])],
    "two rows": lambda: [_packed([0, 4]), _packed([1, 2, 3, 5])],
    "padded together": lambda: [_padded(range(6))],
    "more padding": lambda: [_padded(range(6), extra=7)],
    "padded in parts": lambda: [_padded([0, 1]), _padded([2]), _padded([3, 4, 5], extra=2)],
    "one by one": lambda: [_padded([row]) for row in range(6)],
}


def _stepped(
    model: nn.Module, objective: Objective, group: Sequence[Any], cpu: Runtime, clip: float = 1e9
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Return the weights after a step of plain descent, the loss and the gradient norm."""
    model = deepcopy(model)
    optimizer = SGD(model.parameters(), lr=1.0)
    loss, norm = train_step(model, objective, group, {"sgd": optimizer}, clip, cpu)
    return model.state_dict(), loss, norm


def _by_hand(model: LanguageModel) -> Tensor:
    """Return the mean loss of whole documents, each read alone, from the full logits."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for text in _texts():
        ids = torch.tensor([text])
        logits = model(ids[:, :-1])[0]
        total = total + F.cross_entropy(logits, ids[0, 1:], reduction="sum")
        count += len(text) - 1
    return total / count


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_language_model_steps_alike(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], cpu: Runtime, grouping: str
) -> None:
    model: LanguageModel = randomised(LanguageModel(replace(some_shape, tied=True)))
    group = GROUPINGS[grouping]()
    assert CausalObjective().count(group) == {"lm": sum(len(text) - 1 for text in _texts())}
    weights, loss, norm = _stepped(model, CausalObjective(), group, cpu)
    expected = _by_hand(model)
    expected.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert_close(weights[name], parameter.detach() - parameter.grad, **EXACT)
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    assert_close(norm, torch.nn.utils.get_total_norm(grads), rtol=1e-10, atol=0)
    assert float(loss) == pytest.approx(float(expected.detach()), rel=1e-6)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_the_loss_is_as_exact_as_the_weights(
    tiny: ModelConfig, randomised: Callable[[Any], Any], cpu: Runtime, grouping: str
) -> None:
    model: LanguageModel = randomised(LanguageModel(tiny))
    _, loss, _ = _stepped(model, CausalObjective(), GROUPINGS[grouping](), cpu)
    assert_close(loss, _by_hand(model).detach(), **EXACT)


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_language_model_steps_alike_to_rounding(
    tiny: ModelConfig, cpu: Runtime, grouping: str
) -> None:
    model = LanguageModel(tiny)
    expected, expected_loss, _ = _stepped(model, CausalObjective(), GROUPINGS["one row"](), cpu)
    weights, loss, _ = _stepped(model, CausalObjective(), GROUPINGS[grouping](), cpu)
    assert_close(loss, expected_loss, rtol=1e-6, atol=0)
    for name, tensor in weights.items():
        assert_close(tensor, expected[name], **ROUNDED)


def test_clipping_is_of_the_whole_group(
    tiny: ModelConfig, randomised: Callable[[Any], Any], cpu: Runtime
) -> None:
    model: LanguageModel = randomised(LanguageModel(tiny))
    one = _stepped(model, CausalObjective(), GROUPINGS["one row"](), cpu, clip=0.1)
    many = _stepped(model, CausalObjective(), GROUPINGS["one by one"](), cpu, clip=0.1)
    assert float(one[2]) > 0.1
    for name, tensor in one[0].items():
        assert_close(many[0][name], tensor, **EXACT)
    moved = [one[0][name] - tensor for name, tensor in model.state_dict().items()]
    assert float(torch.nn.utils.get_total_norm(moved)) == pytest.approx(0.1, rel=1e-4)


def _labelled(*parts: Sequence[int]) -> list[LabelledBatch]:
    return [pad_texts(_texts(), CLASSES, rows, 0) for rows in parts]


SPLITS: dict[str, list[LabelledBatch]] = {
    "together": _labelled(range(6)),
    "halves": _labelled([0, 1, 2], [3, 4, 5]),
    "uneven": _labelled([1], [5, 0, 3, 2], [4]),
    "one by one": _labelled(*[[row] for row in range(6)]),
}


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("pooling", ["cls", "last", "mean"])
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_classifier_steps_alike(
    tiny: ModelConfig,
    randomised: Callable[[Any], Any],
    cpu: Runtime,
    attention: Any,
    pooling: Any,
    split: str,
) -> None:
    shape = replace(tiny, attention=attention)
    model: Classifier = randomised(Classifier(shape, 3, pooling))
    objective = ClassifyObjective(torch.tensor(class_weights(CLASSES, 3), dtype=torch.float64))
    expected, expected_loss, _ = _stepped(model, objective, SPLITS["together"], cpu)
    weights, loss, _ = _stepped(model, objective, SPLITS[split], cpu)
    for name, tensor in weights.items():
        assert_close(tensor, expected[name], **EXACT)
    assert_close(loss, expected_loss, rtol=1e-6, atol=0)


def test_class_weights_may_be_in_single_precision(
    tiny: ModelConfig, randomised: Callable[[Any], Any], cpu: Runtime
) -> None:
    model: Classifier = randomised(Classifier(tiny, 3, "mean"))
    objective = ClassifyObjective(torch.tensor(class_weights(CLASSES * 7, 3)))
    batches = {
        size: LabelledStream(_texts() * 7, CLASSES * 7, 42, size, 0, 0).group(0)
        for size in (8, 10_000)
    }
    expected, _, _ = _stepped(model, objective, batches[10_000], cpu)
    weights, _, _ = _stepped(model, objective, batches[8], cpu)
    for name, tensor in weights.items():
        assert_close(tensor, expected[name], **EXACT)


def test_classes_are_weighed_as_torch_does(
    tiny: ModelConfig, randomised: Callable[[Any], Any]
) -> None:
    model: Classifier = randomised(Classifier(tiny, 3, "mean"))
    weights = torch.tensor([0.5, 2.0, 7.0], dtype=torch.float64)
    objective, (batch,) = ClassifyObjective(weights), SPLITS["together"]
    logits = model(batch.ids, Layout(is_token=batch.is_token))
    mean = objective(model, batch)["label"] / objective.count([batch])["label"]
    assert_close(mean, F.cross_entropy(logits, batch.targets, weights), **EXACT)


def test_class_weights_give_every_class_the_same_say() -> None:
    weights = class_weights(CLASSES, 3)
    says = [weights[k] * CLASSES.count(k) for k in range(3)]
    assert says == pytest.approx([2, 2, 2])
    assert class_weights([0, 1, 0, 1], 2) == [1, 1]
    assert all(np.isfinite(class_weights([0, 0], 3)))  # a class may be absent


@pytest.mark.parametrize("rows_per_batch", [1, 2, 3, 50])
def test_token_scores_do_not_depend_on_the_batch(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], cpu: Runtime, rows_per_batch: int
) -> None:
    model: LanguageModel = randomised(LanguageModel(some_shape)).eval()
    ids = np.array([token for text in _texts() for token in text], dtype=np.uint16)
    text = RunningText(ids, 7, BOS, EOS)
    expected = causal_scores(model, read_packed_rows(text, 4), cpu)
    found = causal_scores(model, read_packed_rows(text, rows_per_batch), cpu)
    assert found.nll == pytest.approx(expected.nll, abs=1e-10)
    assert found.num_right == expected.num_right
    assert (
        found.num_tokens == expected.num_tokens == len(ids) - 1 - 5
    )  # each but the first, less five beginnings


def test_token_scores_are_those_of_whole_documents(
    some_shape: ModelConfig, randomised: Callable[[Any], Any], cpu: Runtime
) -> None:
    model: LanguageModel = randomised(LanguageModel(some_shape)).eval()
    scores = causal_scores(model, GROUPINGS["one row"](), cpu)
    nll, num_tokens, num_right = scores.nll, scores.num_tokens, scores.num_right
    assert nll / num_tokens == pytest.approx(float(_by_hand(model).detach()), abs=1e-10)
    alone = [causal_scores(model, [_padded([row])], cpu) for row in range(6)]
    assert sum(scores.num_right for scores in alone) == num_right


@pytest.mark.parametrize("micro_tokens", [1, 10, 25, 10_000])
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_probabilities_do_not_depend_on_the_batch(
    some_shape: ModelConfig,
    randomised: Callable[[Any], Any],
    cpu: Runtime,
    attention: Any,
    micro_tokens: int,
) -> None:
    shape = replace(some_shape, attention=attention)
    model: Classifier = randomised(Classifier(shape, 3, "mean")).eval()
    found = class_probabilities(model, _texts(), TextBatches(micro_tokens, 0, cpu))
    assert found.shape == (6, 3)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    for row, text in enumerate(_texts()):
        np.testing.assert_allclose(
            class_probabilities(model, [text], TextBatches(99, 22, cpu))[0], found[row], atol=1e-10
        )
