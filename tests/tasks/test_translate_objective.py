"""The loss of pairs: label smoothing as torch has it, and no trace of batches or padding."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from model_scores import translation_scores
from shapes import TINY
from warmstart.batching.batches import EncodedPairs, PairStream, TokenLists, pad_pairs
from warmstart.kernels import loss as module
from warmstart.kernels.loss import IGNORE, linear_cross_entropy
from warmstart.model.models import Translator
from warmstart.runtime import Runtime
from warmstart.tasks.translate import TranslateObjective, disagreement

N, D, V = 11, 6, 9
EXACT = {"rtol": 0.0, "atol": 1e-10}
SHAPE = replace(TINY, decoder_depth=2, tied=True)
SOURCES = [[1, 5, 2], [1, 6, 7, 8, 2], [1, 9, 10, 2], [1, 11, 12, 13, 14, 15, 2], [1, 3, 2]]
TARGETS = [[1, 5, 6, 7, 2], [1, 8, 2], [1, 9, 10, 11, 12, 2], [1, 13, 2], [1, 14, 15, 2]]
PAIRS = EncodedPairs(TokenLists(SOURCES), TokenLists(TARGETS))


def _result(parts: Sequence[Sequence[int]], smoothing: float) -> tuple[Tensor, list[Tensor]]:
    """Return the mean loss of all pairs and its gradients, computed in these batches."""
    torch.manual_seed(0)
    model = Translator(SHAPE).double()
    objective = TranslateObjective(smoothing)
    group = [pad_pairs(PAIRS, rows, 0, 22) for rows in parts]
    counts = objective.count(group)
    assert counts == {"translate": 16}
    losses = [objective(model, batch)["translate"] / counts["translate"] for batch in group]
    total = torch.stack(losses).sum()
    total.backward()
    return total.detach(), [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "unbiased"])
@pytest.mark.parametrize("held", [V, 3 * V, 99 * V])
def test_label_smoothing_equals_torch(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, has_bias: bool, held: int
) -> None:
    monkeypatch.setitem(module.LOGITS_PER_CHUNK, "cpu", held)
    monkeypatch.setattr(module, "LOGITS_PER_SOFTMAX", held // 2)
    inputs = [torch.randn(N, D).double(), torch.randn(V, D).double(), torch.randn(V).double()]
    wanted = [tensor.requires_grad_() for tensor in inputs[: 2 + has_bias]]
    targets = torch.randint(V, (N,))
    targets[[0, 4, 10]] = IGNORE
    bias = inputs[2] if has_bias else None
    loss, num_right = linear_cross_entropy(inputs[0], inputs[1], bias, targets, smoothing)
    logits = F.linear(inputs[0], inputs[1], bias)
    expected = F.cross_entropy(
        logits, targets, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing
    )
    assert_close(loss, expected, **EXACT)
    assert int(num_right) == int((logits.argmax(1) == targets).sum())
    ours = torch.autograd.grad(loss * 0.37, wanted)
    theirs = torch.autograd.grad(expected * 0.37, wanted)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, **EXACT)


def test_the_objective_is_cross_entropy_of_the_next_target_token() -> None:
    model = Translator(SHAPE).double()
    batch = pad_pairs(PAIRS, range(5), 0, 22)
    logits = model(batch.ids, batch.is_token, batch.inputs).flatten(0, 1)
    for smoothing in (0.0, 0.1):
        expected = F.cross_entropy(
            logits,
            batch.targets.flatten(),
            ignore_index=IGNORE,
            reduction="sum",
            label_smoothing=smoothing,
        )
        assert_close(TranslateObjective(smoothing)(model, batch)["translate"], expected, **EXACT)


@settings(max_examples=15)
@given(order=st.permutations(range(5)), cuts=st.sets(st.integers(1, 4)))
def test_batches_padding_and_accumulation_change_nothing(order: list[int], cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), 5]
    parts = [order[a:b] for a, b in pairwise(edges)]
    assert_close(_result(parts, 0.1), _result([range(5)], 0.1), **EXACT)


def test_a_stream_gives_the_same_gradient_whatever_goes_through_at_once() -> None:
    torch.manual_seed(0)
    model = Translator(SHAPE).double()
    objective, found = TranslateObjective(0.1), []
    for micro_tokens in (1, 24, 1000):
        copy = deepcopy(model)
        group = PairStream(PAIRS, 1000, micro_tokens, 0, 22, seed=1).group(0)
        count = objective.count(group)["translate"]
        for batch in group:
            (objective(copy, batch)["translate"] / count).backward()
        found.append([p.grad for p in copy.parameters() if p.grad is not None])
    assert_close(found[0], found[2], **EXACT)
    assert_close(found[1], found[2], **EXACT)


def test_scores_do_not_depend_on_batches(cpu: Runtime) -> None:
    model = Translator(SHAPE).double()
    together = translation_scores(model, [pad_pairs(PAIRS, range(5), 0, 0)], cpu)
    alone = translation_scores(model, (pad_pairs(PAIRS, [row], 0, 0) for row in range(5)), cpu)
    assert together.nll == pytest.approx(alone.nll, abs=1e-10)
    assert together.num_right == alone.num_right
    assert together.num_tokens == alone.num_tokens == 16


def test_smoothing_leaves_the_validation_loss_alone(cpu: Runtime) -> None:
    model = Translator(SHAPE).double()
    batch = pad_pairs(PAIRS, range(5), 0, 0)
    plain, smoothed = (TranslateObjective(s)(model, batch)["translate"].item() for s in (0.0, 0.3))
    assert translation_scores(model, [batch], cpu).nll == pytest.approx(plain, abs=1e-10)
    assert smoothed != pytest.approx(plain)


def test_an_empty_group_has_no_targets() -> None:
    assert TranslateObjective().count([]) == {"translate": 0}


def test_the_disagreement_is_the_sum_of_both_divergences() -> None:
    first, second = torch.randn(2, N, V).double().unbind()
    log_p, log_q = first.log_softmax(1), second.log_softmax(1)
    expected = [
        F.kl_div(a, b, reduction="none", log_target=True).sum(1)
        for a, b in ((log_p, log_q), (log_q, log_p))
    ]
    assert_close(disagreement(first, second), sum(expected), **EXACT)


def test_without_dropout_two_readings_agree() -> None:
    torch.manual_seed(0)
    model = Translator(SHAPE).double()
    batch = pad_pairs(PAIRS, range(5), 0, 22)
    plain = TranslateObjective(0.1)(model, batch)["translate"]
    assert_close(TranslateObjective(0.1, consistency=5.0)(model, batch)["translate"], plain)


@pytest.mark.parametrize("parts", [[[0, 1, 2, 3, 4]], [[2], [4, 0], [1, 3]]])
def test_consistency_is_the_loss_of_two_readings_and_what_sets_them_apart(
    parts: list[list[int]],
) -> None:
    torch.manual_seed(0)
    model = Translator(replace(SHAPE, dropout=0.3)).double()
    for rows in parts:
        batch = pad_pairs(PAIRS, rows, 0, 22)
        twice = pad_pairs(PAIRS, [*rows, *rows], 0, 22)
        torch.manual_seed(1)
        loss = TranslateObjective(0.1, consistency=4.0)(model, batch)["translate"]
        torch.manual_seed(1)
        hidden = model.decode(twice.inputs, model.encode(twice.ids, twice.is_token))
        logits = model.head(hidden, model.embedding)
        entropy = F.cross_entropy(
            logits.flatten(0, 1),
            twice.targets.flatten(),
            ignore_index=IGNORE,
            reduction="sum",
            label_smoothing=0.1,
        )
        first, second = (part.flatten(0, 1) for part in logits.chunk(2))
        apart = disagreement(first, second)[batch.targets.flatten() != IGNORE].sum()
        assert apart > 0.01
        assert_close(loss, entropy / 2 + apart, **EXACT)
