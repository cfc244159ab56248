"""`doctor`: one line for everything examined, and a training that proves that it works."""

import platform
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import torch

from command_line import MACHINE, run, succeed
from warmstart.recipes.doctor import (
    FEATURES,
    examine_features,
    examine_kernels,
    examine_packages,
)
from warmstart.version import SOURCE


def test_a_machine_that_works_is_said_to() -> None:
    ran = succeed(f"doctor {MACHINE}")
    lines = {line[9:25].strip(): line for line in ran.out.splitlines()}
    assert next(iter(lines)) == "ready"
    assert "can train, on cpu" in lines["ready"]
    expected = "warmstart Python system packages device precision threads memory disk training GPU"
    assert lines.keys() >= {*expected.split(), *FEATURES}
    assert not any(line.startswith("problem") for line in lines.values())
    assert lines["Python"].endswith(
        f"{platform.python_version()} ({platform.python_implementation()})"
    )
    assert "fp32" in lines["precision"]
    assert lines["threads"].split()[2] == "1"
    assert "perplexity" in lines["training"]


def test_a_platform_that_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Plan9")
    ran = run("doctor --json")
    assert ran.code == 2
    found = {finding["name"]: finding for finding in ran.json}
    assert found["system"] == {
        "name": "system",
        "detail": "Plan9 is not supported; these are: Linux, macOS, Windows",
        "status": "problem",
    }
    assert "not tried" in found["training"]["detail"]
    assert ran.json[0]["name"] == "ready"
    assert ran.said.endswith("cannot train yet: see system, training")


@pytest.fixture
def requirements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that stands for what the package requires."""
    lines: list[str] = []
    monkeypatch.setattr(metadata, "requires", lambda _: lines)
    return lines


def test_packages_that_are_missing_or_old_are_problems(requirements: list[str]) -> None:
    requirements += ["numpy>=1", "no-such-package", "pytest>=9999"]
    first, second, *_ = examine_packages()
    assert first.detail == f"numpy {metadata.version('numpy')}"
    assert second.status == "problem"
    assert "no-such-package is missing" in second.detail
    assert f"pytest {metadata.version('pytest')} does not fit >=9999" in second.detail


def test_a_feature_that_is_missing_has_a_price_and_is_no_problem(requirements: list[str]) -> None:
    requirements += ["numpy>=1", 'no-such-package; extra == "serve"', 'numpy; extra == "onnx"']
    features = {finding.name: finding for finding in examine_features()}
    assert features["serve"].status == "optional"
    advice = "no-such-package is missing; pip install 'warmstart[serve]', about 18 MB"
    assert features["serve"].detail.endswith(advice)
    assert features["onnx"].status == "ok"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize(("system", "advice"), [("Linux", "gcc"), ("Windows", "triton-windows")])
def test_a_gpu_without_a_compiler_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, system: str, advice: str
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    kernels = examine_kernels()
    assert (kernels.name, kernels.status) == ("kernels", "optional")
    assert "training works without" in kernels.detail
    assert advice in kernels.detail


def test_every_extra_for_users_is_a_feature() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert FEATURES.keys() == project["optional-dependencies"].keys() - {"dev", "docs"}


def test_a_checkout_that_is_not_installed_is_examined_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("warmstart.recipes.doctor.package_version", lambda: SOURCE)
    (packages,) = examine_packages()
    assert "runs from a checkout" in packages.detail
    assert {finding.name for finding in examine_features()} == {"trackers", "GPU"}


@pytest.mark.parametrize("kind", [RuntimeError, ImportError])
def test_a_training_that_fails_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def fail(config: object) -> None:
        raise kind("CUDA error: no kernel image\nis available")

    monkeypatch.setattr("warmstart.recipes.pretrain.pretrain", fail)
    ran = run(f"doctor {MACHINE}")
    assert ran.code == 2
    assert "failed: CUDA error: no kernel image is available" in ran.out
