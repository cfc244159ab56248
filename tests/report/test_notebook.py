"""Results as a notebook shows them."""

import logging
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import warmstart
from command_line import World
from warmstart import display, progress
from warmstart.recipes.evaluate import EvaluationResult
from warmstart.recipes.finetune import FinetuneResult
from warmstart.recipes.prepare_files import SamplesResult
from warmstart.recipes.pretrain import PretrainResult
from warmstart.report.html import Shown

VERBS: dict[str, Callable[[], Any]] = {
    "total": lambda: warmstart.count_parameters(model="tiny", head="classifier", frozen=True),
    "data:image/png;base64": lambda: warmstart.look_mask(model="lab", text=["a"], out="a.svg"),
    "unlabelled.txt": lambda: SamplesResult(Path("samples"), {"unlabelled.txt": 20_000}, 0.9),
    "validation accuracy 80": lambda: FinetuneResult(
        Path("run"), {"accuracy": 0.8}, "validation accuracy 80%", 2, 3.0
    ),
    "0.5": lambda: EvaluationResult(Path("run"), "test.tsv", {"f1": 0.5, "by class": {}}, 1),
}


class Balance(HTMLParser):
    """Knows which elements are open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, _: Any) -> None:
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("shown", VERBS)
def test_results_show_themselves(shown: str, here: Path) -> None:
    html = VERBS[shown]()._repr_html_()
    assert shown in html
    balance = Balance()
    balance.feed(html)
    assert not balance.open


def test_a_training_shows_its_loss(world: World, here: Path) -> None:
    (here / "run").mkdir()
    result = PretrainResult(here / "run", {"perplexity": 9.0}, "perplexity 9", 5, 1.0)
    assert "<svg" not in result._repr_html_()
    (here / "run/metrics.jsonl").write_text('{"step": 1, "train_loss": 2.5, "valid_loss": 2.0}\n')
    assert "<svg" in result._repr_html_()


@pytest.mark.parametrize("module", ["planning.params", "recipes.prepare_files", "recipes.embed"])
def test_matplotlib_is_loaded_only_to_draw(module: str) -> None:
    code = f"import sys, warmstart.{module}; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_names_are_escaped() -> None:
    class Named(Shown):
        def pieces(self) -> list[str]:
            return ["<b>bold</b>"]

    assert "&lt;b&gt;" in Named()._repr_html_()


def test_a_notebook_shows_what_a_program_logs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "warmstart")
    with display.show_in_python():
        progress.say("logged")
    with progress.show_on(display.LineDisplay(Console())), display.show_in_python():
        progress.say("printed where the caller chose")
    monkeypatch.setattr(display, "Console", lambda: Console(force_jupyter=True))
    with display.show_in_python():
        assert progress.is_shown()
        progress.say("shown below the cell")
    assert not progress.is_shown()
    assert caplog.messages == ["logged"]
