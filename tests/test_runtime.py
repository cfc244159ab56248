import os
from pathlib import Path

import pytest
import torch

from warmstart.decoding.engines import check_can_decode
from warmstart.errors import WarmstartError
from warmstart.runtime import (
    Runtime,
    choose_device,
    choose_runtime,
    cpu_quota,
    fastest_type,
    kernel_fault,
    num_cores,
    num_threads,
    widest_type,
)

NAMES = ["fp32", "bf16", "fp16"]


def test_precision_words() -> None:
    assert choose_runtime("cpu", "fp32", 1) == Runtime(torch.device("cpu"), None)
    assert choose_runtime("cpu", "bf16", 1).dtype == torch.bfloat16
    assert choose_runtime("cpu", "fp16", 1).dtype == torch.float16
    assert choose_runtime("cpu", "auto", 1).dtype == fastest_type(torch.device("cpu"))
    assert [choose_runtime("cpu", name, 1).precision_name for name in NAMES] == NAMES


@pytest.mark.parametrize(
    ("capability", "name"),
    [((6, 1), "fp32"), ((7, 0), "fp16"), ((7, 5), "fp16"), ((8, 0), "bf16"), ((9, 0), "bf16")],
)
def test_the_fastest_type_of_a_gpu(
    capability: tuple[int, int], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    device = torch.device("cuda")
    assert Runtime(device, fastest_type(device)).precision_name == name


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_without_a_gpu_or_triton_no_kernel_can_be_built() -> None:
    assert kernel_fault()


def test_an_allocator_without_settings_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmstart.runtime.ctypes.CDLL", lambda name: object())
    assert choose_runtime("cpu", "fp32", 1).device.type == "cpu"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_threads_are_as_many_as_the_cores_that_may_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        choose_runtime("cpu", "fp32")
        assert torch.get_num_threads() == 1
    finally:
        os.sched_setaffinity(0, allowed)
        choose_runtime("cpu", "fp32", 1)


@pytest.mark.parametrize(("variable", "threads"), [("3", 3), (" 3 , 1", 3)])
def test_the_users_number_of_threads_is_kept(
    variable: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    choose_runtime("cpu", "fp32")
    assert torch.get_num_threads() == threads
    assert num_threads(num_processes=2) == threads  # of each
    choose_runtime("cpu", "fp32", 2)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("variable", ["", "0", "many"])
def test_a_number_of_threads_that_means_nothing_is_ignored(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert num_threads() == num_cores()


@pytest.mark.parametrize(
    ("memberships", "files", "cores"),
    [
        ("0::/", {"cpu.max": "150000 100000"}, 1.5),  # in a container
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/a/b", {"a/cpu.max": "50000 100000", "a/b/cpu.max": "max 100000"}, 0.5),
        ("0::/a/b", {"a/b/cpu.max": "200000 100000", "cpu.max": "300000 100000"}, 2.0),
        (
            "3:cpuset:/\n1:cpu,cpuacct:/pod",
            {
                "cpu,cpuacct/pod/cpu.cfs_quota_us": "400000",
                "cpu,cpuacct/pod/cpu.cfs_period_us": "100000",
                "cpuset/cpu.cfs_quota_us": "100000",
                "cpuset/cpu.cfs_period_us": "100000",
            },
            4.0,
        ),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("1:cpu:/docker/1", {"cpu/cpu.cfs_quota_us": "9", "cpu/cpu.cfs_period_us": "3"}, 3.0),
        ("", {"cpu.max": "100000 100000"}, None),  # no Linux
    ],
)
def test_the_quota_of_a_container_limits_the_cores(
    memberships: str, files: dict[str, str], cores: float | None, tmp_path: Path
) -> None:
    for name, content in {"../../../proc/self/cgroup": memberships, **files}.items():
        file = tmp_path / "sys/fs/cgroup" / name
        os.makedirs(file.parent, exist_ok=True)
        file.write_text(f"{content}\n" if content else "")
    assert cpu_quota(tmp_path) == cores


def test_part_of_a_core_is_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmstart.runtime.cpu_quota", lambda: 0.5)
    assert num_cores() == 1


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


@pytest.mark.parametrize(
    ("cuda", "mps", "name"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_auto_takes_the_gpu_that_is_there(
    cuda: bool, mps: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert choose_device("auto").type == name
    assert choose_device("cpu").type == "cpu"


def test_an_apple_gpu_has_the_sizes_of_a_cpu_and_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    runtime = choose_runtime("mps", "auto", 1)
    assert (runtime.device.type, runtime.kind, runtime.precision_name) == ("mps", "cpu", "fp32")
    assert widest_type(runtime.device) == torch.float32
    with pytest.raises(WarmstartError, match="--device mps: translators need float64"):
        check_can_decode(runtime)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has an Apple GPU")
def test_an_absent_apple_gpu_is_refused() -> None:
    with pytest.raises(WarmstartError, match=r"--device mps: .* no Apple GPU"):
        choose_runtime("mps")


def test_seeding_a_device_draws_what_torch_draws() -> None:
    runtime = choose_runtime("auto")
    drawn = []
    for seed in (runtime.seed, torch.manual_seed):
        seed(7)
        drawn.append((torch.rand(3), torch.rand(3, device=runtime.device).cpu()))
    assert torch.equal(drawn[0][0], drawn[1][0])
    assert torch.equal(drawn[0][1], drawn[1][1])
