"""What `serve` refuses before it listens."""

import socket
import sys
from pathlib import Path

import pytest

from command_line import refuse, run


def test_two_runs_of_one_name_are_refused(base: Path) -> None:
    ran = run(f"serve {base} {base}")
    assert ran.code == 2
    assert "two runs are called 'base'; write NAME=" in ran.said


def test_a_run_that_is_not_there_is_refused(here: Path) -> None:
    ran = run("serve fine=nowhere")
    assert ran.code == 2
    assert "nowhere" in ran.said


@pytest.mark.parametrize("option", ["--host", "--token"])
def test_an_empty_option_does_not_open_the_server(base: Path, option: str) -> None:
    assert f"{option} is empty" in refuse(f"serve {base} {option} '' --port 0")


def test_a_port_in_use_is_refused(base: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run(f"serve {base} --port {port}")
    assert ran.code == 2
    assert f"--port {port} cannot be listened on" in ran.said


def test_a_missing_extra_is_named(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("warmstart.serving")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ran = run(f"serve {base}")
    assert ran.code == 2
    assert "pip install 'warmstart[serve]'" in ran.said
