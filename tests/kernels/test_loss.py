from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from warmstart.kernels import loss as module
from warmstart.kernels.loss import IGNORE, linear_cross_entropy

N, D, V = 11, 6, 9
EXACT = {"rtol": 0.0, "atol": 1e-10}
Inputs = tuple[Tensor, Tensor, Tensor | None]


def _inputs(has_bias: bool = True, dtype: torch.dtype = torch.float64) -> Inputs:
    hidden, weight = torch.randn(N, D, dtype=dtype), torch.randn(V, D, dtype=dtype)
    bias = torch.randn(V, dtype=dtype).requires_grad_() if has_bias else None
    return hidden.requires_grad_(), weight.requires_grad_(), bias


def _targets() -> Tensor:
    targets = torch.randint(V, (N,))
    targets[[0, 4, 10]] = IGNORE
    return targets


@pytest.mark.parametrize(
    ("per_chunk", "per_softmax"),
    [(V, V), (3 * V, V), (3 * V, 2 * V), (8 * V, 5 * V), (99 * V, 99 * V), (1, 1)],
)
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "unbiased"])
@pytest.mark.parametrize("multiple", [1, 4])
def test_equals_torch(
    monkeypatch: pytest.MonkeyPatch, per_chunk: int, per_softmax: int, has_bias: bool, multiple: int
) -> None:
    monkeypatch.setitem(module.VOCABULARY_MULTIPLE, "cpu", multiple)
    monkeypatch.setitem(module.LOGITS_PER_CHUNK, "cpu", per_chunk)
    monkeypatch.setattr(module, "LOGITS_PER_SOFTMAX", per_softmax)
    inputs, targets = _inputs(has_bias), _targets()
    wanted = [tensor for tensor in inputs if tensor is not None]
    loss, num_correct = linear_cross_entropy(*inputs, targets)
    logits = F.linear(*inputs)
    expected = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
    assert_close(loss, expected, **EXACT)
    assert int(num_correct) == int((logits.argmax(1) == targets).sum())
    scale = 0.37  # the gradient is formed before the divisor is known
    ours = torch.autograd.grad(loss * scale, wanted)
    theirs = torch.autograd.grad(expected * scale, wanted)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, **EXACT)


def test_a_second_backward_pass_is_never_wrong() -> None:
    hidden, weight, bias = _inputs()
    loss, _ = linear_cross_entropy(hidden, weight, bias, _targets())
    (first,) = torch.autograd.grad(2 * loss, hidden, retain_graph=True)
    before = first.clone()
    try:
        (second,) = torch.autograd.grad(2 * loss, hidden)
    except RuntimeError:
        return  # refused: the gradient was formed in place
    assert torch.equal(first, before)
    assert_close(second, before, **EXACT)


def test_only_ignored_targets_give_zero() -> None:
    inputs = _inputs()
    loss, num_correct = linear_cross_entropy(*inputs, torch.full((N,), IGNORE))
    loss.backward()
    assert float(loss.detach()) == 0
    assert int(num_correct) == 0
    for tensor in inputs:
        assert tensor is not None
        assert tensor.grad is not None
        assert (tensor.grad == 0).all()


def test_ignored_positions_count_for_nothing() -> None:
    hidden, weight, bias = _inputs()
    targets = _targets()
    hidden.data[targets == IGNORE] = float("nan")
    loss, _ = linear_cross_entropy(hidden, weight, bias, targets)
    loss.backward()
    assert loss.isfinite()
    assert hidden.grad is not None
    assert (hidden.grad[targets == IGNORE] == 0).all()
    assert weight.grad is not None
    assert weight.grad.isfinite().all()


def test_frozen_weights_get_no_gradient() -> None:
    hidden, weight, bias = _inputs()
    weight.requires_grad_(False)
    linear_cross_entropy(hidden, weight, bias, _targets())[0].backward()
    assert weight.grad is None
    assert hidden.grad is not None


class _Products(TorchDispatchMode):
    """Counts matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.num = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.num += any(word in str(func) for word in ("mm", "matmul", "linear"))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_only_the_loss_is_computed(mode: Any) -> None:
    inputs, targets = _inputs(), _targets()
    expected, expected_correct = linear_cross_entropy(*inputs, targets)
    with mode(), _Products() as products:
        loss, num_correct = linear_cross_entropy(*inputs, targets)
    assert not loss.requires_grad
    assert_close(loss.clone(), expected.detach(), **EXACT)
    assert int(num_correct) == int(expected_correct)
    assert products.num == 1  # hidden times weight; evaluation pays for no gradient


@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "unbiased"])
def test_close_in_half_precision(has_bias: bool) -> None:
    inputs, targets = _inputs(has_bias, torch.float32), _targets()
    wanted = [tensor for tensor in inputs if tensor is not None]
    expected = linear_cross_entropy(*inputs, targets)[0]
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(*inputs, targets)[0]
    assert loss.dtype == torch.float32
    assert_close(loss, expected, rtol=0.02, atol=0)
    ours = torch.autograd.grad(loss, wanted)
    theirs = torch.autograd.grad(expected, wanted)
    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == torch.float32
        assert float((one - other).norm() / other.norm()) < 0.02


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_ignored_rows_that_stay_among_the_others_count_for_nothing(smoothing: float) -> None:
    """As on a GPU for which no kernel can be built: leaving rows out would have to wait for it."""
    logits, targets = 3 * torch.randn(N, V, dtype=torch.float64), _targets()
    is_counted = targets != IGNORE
    expected_grads, settings = logits[is_counted], (smoothing, torch.float64)
    expected = module.softmax_loss_cpu_(expected_grads, targets[is_counted], *settings)
    found = module.plain_softmax_loss_(logits, targets, *settings)
    assert_close(found, expected, **EXACT)
    assert_close(logits[is_counted], expected_grads, **EXACT)
    assert (logits[~is_counted] == 0).all()


def test_the_plain_loss_never_waits_for_the_device() -> None:
    """Tensors without content: what asks for content fails, as it does in a recording."""
    with FakeTensorMode():
        loss, num_correct = module.plain_softmax_loss_(
            torch.randn(N, V), torch.zeros(N, dtype=torch.long), 0.1, torch.float32
        )
    assert (loss.shape, num_correct.shape) == ((), ())


@pytest.mark.parametrize("margin", [4.0, 7.0, 12.0])  # how far the target's logit is above others
def test_a_sure_prediction_keeps_its_gradient_in_half_precision(margin: float) -> None:
    logits = torch.tensor([[margin, 0.0, 0.0]], dtype=torch.bfloat16)
    expected = logits.double().softmax(1) - torch.tensor([[1.0, 0.0, 0.0]])
    module.softmax_loss_cpu_(logits, torch.tensor([0]), 0.0, torch.float32)
    assert_close(logits.double(), expected, rtol=0.01, atol=0)


def test_ties_count_as_correct() -> None:
    hidden, weight = torch.ones(2, 1), torch.ones(3, 1)
    assert int(linear_cross_entropy(hidden, weight, None, torch.tensor([0, 2]))[1]) == 2


def test_extreme_logits_stay_finite() -> None:
    hidden = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    loss, _ = linear_cross_entropy(hidden, weight, None, torch.tensor([1, 1]))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(2e4)
    assert weight.grad is not None
    assert weight.grad.isfinite().all()
