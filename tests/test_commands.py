"""The table of commands: what it names exists, and type checkers see the same verbs."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import warmstart
from warmstart.commands import TYPES, VERBS, find

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_takes_the_settings_of_its_command(name: str) -> None:
    command = VERBS[name]
    verb = getattr(warmstart, name)
    assert verb.__name__ == find(command.verb).__name__ == name
    assert set(verb.__signature__.parameters) == {s.name for s in command.settings.declared()}


def test_the_package_lists_every_verb_and_type() -> None:
    assert {*VERBS, *TYPES} < set(dir(warmstart))
    with pytest.raises(AttributeError, match="'pretrian'"):
        warmstart.pretrian  # noqa: B018
    with pytest.raises(AttributeError, match=r"`warmstart params` is warmstart\.count_parameters"):
        warmstart.params  # noqa: B018


def test_type_checkers_read_the_same_verbs() -> None:
    stub = runpy.run_path(str(ROOT / ".ci/stub.py"))
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "api.pyi", "-"]
    text = subprocess.run(command, input=stub["stub"](), capture_output=True, text=True, check=True)
    ordered = [sys.executable, "-m", "ruff", "check", "--select", "I", "--fix", "--quiet"]
    ordered += ["--stdin-filename", str(ROOT / "src/warmstart/api.pyi"), "-"]
    text = subprocess.run(ordered, input=text.stdout, capture_output=True, text=True, check=True)
    assert text.stdout == stub["STUB"].read_text(), "run: make format"
