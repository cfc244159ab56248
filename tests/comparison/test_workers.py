"""Cells trained in several processes, and processes that are lost."""

import os
import signal
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command_line import succeed
from forked_commands import Forked
from small_comparison import COMMAND, await_cell, without_times
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.workers import BesideTheDevice, CellOrder
from warmstart.version import code_digest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def expected(
    places: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, dict[str, str]]:
    out = tmp_path_factory.mktemp("alone") / "out"
    succeed(COMMAND, **places, out=out)
    return without_times(out)


def _workers(process: int) -> list[int]:
    """Return the processes that a comparison started to train cells."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_text() for pid in children}
    return [pid for pid, command in commands.items() if "spawn_main" in command]


def test_the_report_does_not_depend_on_processes_or_on_their_loss(
    places: dict[str, str], expected: object, tmp_path: Path
) -> None:
    process = Forked(f"{COMMAND} --processes 2", **places, out=tmp_path / "out")
    await_cell(process, tmp_path / "out")
    os.kill(_workers(process.pid)[0], signal.SIGKILL)
    ran = process.end()
    assert ran.code == 0, ran.err
    assert without_times(tmp_path / "out") == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_comparison_leaves_no_process_and_resumes(
    number: signal.Signals, places: dict[str, str], expected: object, tmp_path: Path
) -> None:
    process = Forked(f"{COMMAND} --processes 2", **places, out=tmp_path / "out")
    await_cell(process, tmp_path / "out")
    workers = _workers(process.pid)
    ran = process.end(number)
    if number != signal.SIGKILL:
        assert ran.code == 128 + number, ran.err
        assert ran.said.startswith("warmstart: stopped; finished cells are in")
        assert "Traceback" not in ran.err
    until = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < until:
        time.sleep(0.01)
    assert workers
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    succeed(f"{COMMAND} --resume", **places, out=tmp_path / "out")
    assert without_times(tmp_path / "out") == expected


@pytest.mark.parametrize(
    ("out", "code", "complaint"),
    [
        ("out", b"other", "has other code than the machine that asks: install the same"),
        ("gone", code_digest(), "gone is not visible on"),
        ("out", code_digest(), "out was moved or removed while it was written"),
    ],
)
def test_a_worker_refuses_what_does_not_fit(
    out: str, code: bytes, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    config = CompareConfig(from_runs=("run",), train=("texts.tsv",), out=out)
    outcome = CellOrder(config, str(tmp_path), 1, code, "0-cold-48", 0).run()
    assert outcome.error is not None
    assert complaint in outcome.error


def test_the_report_does_not_depend_on_a_baseline_fitted_beside_the_device(
    places: dict[str, str],
    expected: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "warmstart.comparison.compare.open_workers", lambda config: closing(BesideTheDevice(config))
    )
    succeed(COMMAND, **places, out=tmp_path / "out")
    assert without_times(tmp_path / "out") == expected
