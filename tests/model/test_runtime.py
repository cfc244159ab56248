import os

import pytest
import torch

from warmstart.errors import WarmstartError
from warmstart.runtime import Runtime, choose_runtime, computes_in_bf16


def test_precision_words() -> None:
    assert choose_runtime("cpu", "fp32", 1) == Runtime(torch.device("cpu"), None)
    assert choose_runtime("cpu", "bf16", 1).dtype == torch.bfloat16
    expected = torch.bfloat16 if computes_in_bf16(torch.device("cpu")) else None
    assert choose_runtime("cpu", "auto", 1).dtype == expected


def test_an_allocator_without_settings_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmstart.runtime.ctypes.CDLL", lambda name: object())
    assert choose_runtime("cpu", "fp32", 1).device.type == "cpu"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_threads_are_as_many_as_the_cores_that_may_be_used() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        choose_runtime("cpu", "fp32")
        assert torch.get_num_threads() == 1
    finally:
        os.sched_setaffinity(0, allowed)
        choose_runtime("cpu", "fp32", 1)


def test_threads_are_set() -> None:
    choose_runtime("cpu", "fp32", 2)
    assert torch.get_num_threads() == 2
    choose_runtime("cpu", "fp32", 1)
    assert torch.get_num_threads() == 1


def test_matrix_products_run_in_the_chosen_type() -> None:
    a = torch.randn(2, 2)
    with Runtime(torch.device("cpu"), torch.bfloat16).precision():
        assert (a @ a).dtype == torch.bfloat16
    with Runtime(torch.device("cpu")).precision():
        assert (a @ a).dtype == torch.float32


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_absent_cuda_is_refused() -> None:
    with pytest.raises(WarmstartError, match=r"--device cuda: .* no CUDA device"):
        choose_runtime("cuda", "fp32", 1)
    assert choose_runtime("auto", "fp32", 1).device.type == "cpu"


def test_seeding_a_device_draws_what_torch_draws() -> None:
    runtime = choose_runtime("auto")
    drawn = []
    for seed in (runtime.seed, torch.manual_seed):
        seed(7)
        drawn.append((torch.rand(3), torch.rand(3, device=runtime.device).cpu()))
    assert torch.equal(drawn[0][0], drawn[1][0])
    assert torch.equal(drawn[0][1], drawn[1][1])
