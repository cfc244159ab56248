"""Attention document by document equals attention with masks.

The kernel itself exists on a GPU alone. Elsewhere a plain one takes its place here, so that what
surrounds it is tested: bounds, shapes, gradients, which path is taken.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from warmstart.batching.batches import split
from warmstart.batching.packing import PackedStream, RunningText, document_bounds, pack
from warmstart.kernels import documents
from warmstart.kernels.documents import attend_documents, text_bounds
from warmstart.kernels.layers import attend
from warmstart.model.attention import attention_weights, causal_mask, document_mask
from warmstart.model.backbone import Backbone, Layout
from warmstart.model.models import LanguageModel
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.tasks.causal import CausalObjective

BOS, EOS = 0, 2
GPU = pytest.param(
    "cuda",
    marks=[
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    ],
)
HALF_ROUNDING = {"rtol": 2e-2, "atol": 2e-2}


def _weights(q: Tensor, k: Tensor, is_causal: bool) -> Tensor:
    return attention_weights(q.transpose(0, 1), k.transpose(0, 1), None, is_causal)  # (H, T, T)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, bounds: Tensor, _b: Any, _t: Any, _s: Any, causal: bool,
    *_rest: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Compute (B T, H, K) document by document, as the operation of PyTorch does."""
    mixed = torch.zeros(q.shape, dtype=q.dtype)
    for start, stop in pairwise(bounds.tolist()):
        own = slice(start, stop)
        weights = _weights(q[own], k[own], causal)
        mixed[own] = (weights @ v[own].transpose(0, 1)).transpose(0, 1)
    lse, state = q.new_empty(q.shape[1::-1], dtype=torch.float), q.new_empty(2, dtype=torch.uint64)
    return mixed, lse, state


def _backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, _mixed: Tensor, _lse: Tensor, bounds: Tensor,
    _b: Any, _t: Any, _s: Any, causal: bool, *_rest: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    grads = [torch.zeros(q.shape, dtype=q.dtype) for _ in range(3)]
    for start, stop in pairwise(bounds.tolist()):
        own = slice(start, stop)
        weights = _weights(q[own], k[own], causal)
        g, *inputs = (x[own].transpose(0, 1) for x in (grad, q, k, v))  # (H, T, K)
        by_weight = g @ inputs[2].transpose(1, 2)
        by_score = weights * (by_weight - (by_weight * weights).sum(-1, keepdim=True))
        by_score = by_score * q.shape[-1] ** -0.5
        found = (by_score @ inputs[1], by_score.transpose(1, 2) @ inputs[0], weights.mT @ g)
        for whole, one in zip(grads, found, strict=True):
            whole[own] = one.transpose(0, 1)
    return grads[0], grads[1], grads[2]


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    from torch.nn.attention import varlen

    varlen._varlen_attn.register_kernel("cpu", _forward)
    varlen._varlen_attn_backward.register_kernel("cpu", _backward)


@pytest.fixture
def _splits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmstart.model.backbone.splits_documents", lambda *_: True)


def _rows(num: int, length: int, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Return document numbers (B, T) and bounds with room to spare."""
    is_start = torch.rand(num, length, generator=torch.Generator().manual_seed(3)) < 0.2
    is_start[:, 0] = False
    bounds = document_bounds(is_start, num * length)
    assert bounds is not None
    return is_start.cumsum(1).to(device), bounds.to(device)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("device", ["cpu", GPU])
def test_attention_by_document_equals_attention_with_a_mask(device: str, is_causal: bool) -> None:
    torch.manual_seed(0)
    dtype = torch.float64 if device == "cpu" else torch.bfloat16
    numbers, bounds = _rows(5, 96, device)
    mask = document_mask(numbers)
    if is_causal:
        mask = mask & causal_mask(96, 96, numbers.device)
    projected = torch.randn(5, 96, 3, 4, 32, dtype=dtype, device=device)  # B, T, 3, H, K
    towards = torch.randn(5, 4, 96, 32, dtype=dtype, device=device)
    results = []
    for mix in (
        lambda q, k, v: attend_documents(q, k, v, bounds, is_causal),
        lambda q, k, v: attend(q, k, v, mask, False, 0.0),
    ):
        given = projected.clone().requires_grad_()
        mixed = mix(*given.permute(2, 0, 3, 1, 4).unbind(0))
        mixed.backward(towards)
        assert given.grad is not None
        results.append((mixed.detach(), given.grad))
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if device == "cpu" else HALF_ROUNDING
    assert_close(results[0], results[1], **tolerance)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("attention", ["bidirectional", "causal"])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_step_on_a_gpu_has_the_gradients_of_one_with_masks(
    attention: str, is_compiled: bool
) -> None:
    """Recorded or not, compiled or not: apart as bf16 with masks is from fp32, at most."""
    from warmstart.runtime import Runtime
    from warmstart.training.defaults import compile_backbone
    from warmstart.training.step import RecordedObjective, add_gradients

    device = torch.device("cuda")
    shape = replace(PRESETS["modern-small"], vocab_size=200, depth=2, max_length=128)
    group = _stream(128).group(0)
    assert group[0].bounds is not None
    masked = [replace(batch, bounds=None) for batch in group]
    gradients = []
    for batches, dtype in ((masked, None), (masked, torch.bfloat16), (group, torch.bfloat16)):
        torch.manual_seed(0)
        model = LanguageModel(replace(shape, attention=attention)).to(device).train()
        runtime = Runtime(device, dtype)
        add_gradients(model, CausalObjective(), batches, runtime)
        gradients.append(_flat(model))
    reference, usual, found = gradients
    assert (found - reference).norm() < 1.2 * (usual - reference).norm() + 1e-3 * reference.norm()
    if is_compiled:
        compile_backbone(model.backbone)
    recorded = RecordedObjective(model, CausalObjective(), Runtime(device, torch.bfloat16))
    for _ in range(3):
        recorded.add_gradients(group)
    assert recorded.num_replayed == 1
    replayed = _flat(model)
    assert (replayed - reference).norm() < 1.2 * (usual - reference).norm() + (
        1e-3 * reference.norm()
    )


def _flat(model: LanguageModel) -> Tensor:
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return torch.cat([grad.flatten() for grad in grads]).double()


def _stream(length: int) -> PackedStream:
    ids = (torch.arange(40_000) % 97 + 5).numpy()
    ends = torch.randint(30, 200, (400,), generator=torch.Generator().manual_seed(0)).cumsum(0)
    for end in ends[ends < len(ids) - 1].tolist():
        ids[end], ids[end + 1] = EOS, BOS
    return PackedStream(RunningText(ids, length, BOS, EOS), 16, 16, seed=0)


def _model(attention: str) -> tuple[ModelConfig, Backbone]:
    shape = replace(PRESETS["modern-small"], vocab_size=120, depth=2, width=32, heads=2)
    shape = replace(shape, ffn_width=32, max_length=64, attention=attention)
    torch.manual_seed(0)
    return shape, Backbone(shape).double().train()


@pytest.mark.usefixtures("_splits")
@pytest.mark.parametrize("attention", ["bidirectional", "causal"])
def test_a_backbone_computes_the_same_with_bounds_as_with_masks(attention: str) -> None:
    _, backbone = _model(attention)
    batch = _stream(64).group(0)[0]
    assert batch.bounds is not None
    layout = Layout(documents=batch.documents, positions=batch.positions)
    expected = backbone(batch.ids, layout)
    found = backbone(batch.ids, replace(layout, bounds=batch.bounds))
    assert_close(found, expected)


@pytest.mark.usefixtures("_splits")
def test_padded_texts_are_documents() -> None:
    _, backbone = _model("bidirectional")
    is_token = torch.arange(20) < torch.tensor([[20], [7], [1], [13]])
    ids = torch.randint(5, 100, (4, 20), generator=torch.Generator().manual_seed(0))
    found = backbone(ids, Layout(is_token))
    expected = backbone.eval()(ids, Layout(is_token))  # masks: bounds are for training
    assert_close(found[is_token], expected[is_token])
    assert text_bounds(is_token).tolist() == [0, 20, 20, 27, 40, 41, 60, 73, 80]


@pytest.mark.usefixtures("_splits")
@pytest.mark.parametrize(
    "change",
    [
        lambda shape: replace(shape, dropout=0.1),
        lambda shape: replace(shape, local_window=3, attention="bidirectional"),
    ],
)
def test_what_the_kernel_lacks_has_masks(
    change: Callable[[ModelConfig], ModelConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warmstart.model.attention.attend_documents", None)  # would fail
    batch = _stream(64).group(0)[0]
    shape, _ = _model("bidirectional")
    layout = Layout(documents=batch.documents, positions=batch.positions, bounds=batch.bounds)
    Backbone(change(shape)).train()(batch.ids, layout)


def test_a_cpu_and_32_bits_have_masks() -> None:
    assert not documents.splits_documents(torch.device("cpu"), 64)
    assert not documents.splits_documents(torch.device("cuda"), 64)  # without autocast
    assert not documents.splits_documents(torch.device("cuda"), 50)


@given(st.integers(1, 4), st.integers(1, 12), st.integers(0, 40), st.integers(0, 1000))
def test_bounds_delimit_documents_and_repeat_the_end(
    num: int, length: int, room: int, seed: int
) -> None:
    draw = partial(torch.rand, generator=torch.Generator().manual_seed(seed))
    rows = torch.where(draw((num, length + 1)) < 0.4, EOS, 5)
    rows[:, 1:][(rows[:, :-1] == EOS) & (draw((num, length)) < 0.7)] = BOS
    batch = pack(rows, BOS, EOS, room)
    sizes = [int((row == k).sum()) for row in batch.documents for k in range(int(row.max()) + 1)]
    if len(sizes) > room:
        assert batch.bounds is None
        return
    assert batch.bounds is not None
    assert len(batch.bounds) == room + 1
    assert batch.bounds.diff().tolist() == sizes + [0] * (room - len(sizes))


def test_batches_of_a_stream_have_the_same_shapes_and_parts_have_masks() -> None:
    stream = _stream(64)
    batches = [stream.group(step)[0] for step in range(20)]
    shapes = {batch.bounds.shape for batch in batches if batch.bounds is not None}
    assert len(shapes) == 1
    assert sum(batch.bounds is not None for batch in batches) >= 18
    assert [part.bounds for part in split(batches[0], 2)] == [None, None]
    assert split(batches[0], 1)[0].bounds is batches[0].bounds
