"""`doctor`: one line for everything examined, and a training that proves that it works."""

import platform
from importlib import metadata

import pytest

from command_line import MACHINE, run, succeed
from warmstart.recipes.doctor import examine_packages


def test_a_machine_that_works_is_said_to() -> None:
    ran = succeed(f"doctor {MACHINE}")
    lines = {line[9:25].strip(): line for line in ran.out.splitlines()}
    expected = "warmstart Python system packages device precision threads memory disk training"
    assert lines.keys() >= set(expected.split())
    assert not any(line.startswith("problem") for line in lines.values())
    assert lines["Python"].endswith(
        f"{platform.python_version()} ({platform.python_implementation()})"
    )
    assert "fp32" in lines["precision"]
    assert lines["threads"].split()[2] == "1"
    assert "perplexity" in lines["training"]


def test_a_platform_that_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    ran = run("doctor --json")
    assert ran.code == 2
    found = {finding["name"]: finding for finding in ran.json}
    assert found["system"] == {
        "name": "system",
        "detail": "Windows is not supported; Linux and macOS are",
        "status": "problem",
    }
    assert "not tried" in found["training"]["detail"]
    assert "system" in ran.said


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


def test_an_extra_that_is_missing_is_no_problem(requirements: list[str]) -> None:
    requirements += ["numpy>=1", 'no-such-package; extra == "dev"']
    *_, extra = examine_packages()
    assert (extra.name, extra.status) == ("extra dev", "missing")
    assert extra.detail == "no-such-package is missing; pip install 'warmstart[dev]'"


def test_a_training_that_fails_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(config: object) -> None:
        raise RuntimeError("CUDA error: no kernel image\nis available")

    monkeypatch.setattr("warmstart.recipes.pretrain.pretrain", fail)
    ran = run(f"doctor {MACHINE}")
    assert ran.code == 2
    assert "failed: CUDA error: no kernel image is available" in ran.out
