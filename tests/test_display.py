"""Progress as it is shown: how much time is left."""

import io
import subprocess
import sys

import pytest
from rich.console import Console

from warmstart import progress
from warmstart.display import LineDisplay, TerminalDisplay


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(("due_s", "is_limited"), [(30.0, True), (None, False)])
def test_no_more_time_is_left_than_the_job_may_take(
    is_terminal: bool, due_s: float | None, is_limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, width=200, get_time=lambda: now[0])
    display = TerminalDisplay(console) if is_terminal else LineDisplay(console)
    with (
        progress.show_on(display),
        progress.due_in(due_s),
        progress.bar("comparing", 100, "model") as bar,
    ):
        for _ in range(3):
            now[0] += 7.0  # so that 100 models would take more than ten minutes
            bar.advance(1)
    assert ("0:00:09" in shown.getvalue() or " 9 s left" in shown.getvalue()) == is_limited
    assert ("0:11:19" in shown.getvalue() or " 679 s left" in shown.getvalue()) != is_limited


def test_items_are_counted_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    shown = io.StringIO()
    with progress.show_on(LineDisplay(Console(file=shown, width=200))):
        for item, expected in zip(progress.along("abc", "labelling", "text"), "abc", strict=True):
            assert item == expected
            now[0] += 25.0
    assert shown.getvalue().splitlines()[:2] == [
        "labelling: 1, 25.0 s/text, 25 s",
        "labelling: 2, 25.0 s/text, 50 s",
    ]


@pytest.mark.parametrize(
    ("setup", "shown"),
    [
        ("", "hello\nbar: 1/1, "),
        ("logging.getLogger('warmstart').setLevel('WARNING')", "careful"),
        ("logging.basicConfig(level='INFO', format='%(name)s: %(message)s')", "warmstart: hello"),
        ("logging.basicConfig()", "WARNING:warmstart:careful"),
    ],
)
def test_a_program_is_not_silent_unless_it_wants(setup: str, shown: str) -> None:
    code = f"""
import logging
from warmstart import display, progress
{setup}
with display.show_in_python():
    progress.say("hello")
    with progress.bar("bar", 1, "step") as bar:
        bar.advance(1)
    progress.say("warning: careful")
assert not logging.getLogger("warmstart").handlers
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.startswith(shown)
    assert not done.stdout
