"""A small share of what `make fuzz` does with the options of training commands."""

from pathlib import Path

import pytest
from options import JOBS, fuzz_options


@pytest.mark.slow
def test_random_options_are_answered_or_refused(tmp_path: Path) -> None:
    tally = fuzz_options(8 * len(JOBS), 0, tmp_path)
    assert tally.failures == []
    assert tally.ends["answered"] > tally.ends["refused"]
