"""How many instructions the help takes, which no other program on the machine changes."""

import shutil
from collections.abc import Callable
from types import ModuleType

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind"),
]


def test_help_takes_less_than_three_times_the_libraries_that_print_it(
    benchmark_module: Callable[[str], ModuleType],
) -> None:
    counted = benchmark_module("instructions").of_help()
    assert counted.ours < 3 * counted.theirs
