"""The demo, with less data and fewer steps: every part of its page is there."""

from pathlib import Path

import pytest

from command_line import MACHINE, run, succeed
from warmstart.samples import demo
from warmstart.samples.samples import SampleSizes


@pytest.mark.slow
def test_the_demo_writes_one_page(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = SampleSizes(unlabelled=300, train=24, valid=16, test=24)
    smaller = {"SIZES": sizes, "STEPS": 5, "LABELS": ("all",), "SEEDS": (0, 1), "EPOCHS": 1}
    for name, value in {**smaller, "TRANSLATOR_STEPS": 3}.items():
        monkeypatch.setattr(demo, name, value)
    succeed(f"demo -o demo {MACHINE}")
    page = Path("demo/report.html").read_text()
    for title in ("Verdict", "The data", "The pretraining", "The arms", "A translator"):
        assert f">{title}<" in page
    assert "of masked tokens restored" in page
    assert "--resume" in run(f"demo -o demo {MACHINE}").said
    succeed(f"demo -o demo --resume {MACHINE}")
