"""The main commands where Python has only what Windows has; see like_windows/sitecustomize.py."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from command_line import ENVIRONMENT
from warmstart.cli.process import open_streams
from warmstart.files import is_temporary
from warmstart.formats import shell_line

pytestmark = pytest.mark.slow

HERE = Path(__file__).parents[1] / "like_windows"
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the commands of commands.txt in a folder of their own."""
    path = tmp_path_factory.mktemp("windows")
    lines = (HERE / "commands.txt").read_text(encoding="utf-8")
    done = _run([str(HERE / "several_commands.py")], path, lines)
    results = json.loads(done.stdout)
    assert {line["line"]: line["err"] for line in results if line["code"]} == {}
    return path


def _environment(folder: Path) -> Mapping[str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    places = {"PYTHONPATH": f"{HERE}{os.pathsep}{SOURCE}", "TMPDIR": str(folder / "tmp")}
    return {**ENVIRONMENT, **places, "PYTHONWARNDEFAULTENCODING": "1"}


def _run(words: Sequence[str], folder: Path, lines: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words],
        input=lines,
        capture_output=True,
        cwd=folder,
        env=_environment(folder),
        encoding="utf-8",
        timeout=900,
        check=False,
    )


def test_what_windows_lacks_is_hidden(tmp_path: Path) -> None:
    script = """
import os, signal
scope = {"__name__": "warmstart.any"}
for line in ("import fcntl", "import resource", "os.fork", "os.sysconf", "signal.SIGKILL",
             "os.open('.', 0)"):
    try:
        exec(f"import os, signal\\n{line}", dict(scope))
    except (ImportError, AttributeError, PermissionError):
        print("hidden")
"""
    assert _run(["-c", script], tmp_path).stdout == "hidden\n" * 6


def test_the_main_commands_work(folder: Path) -> None:
    checkpoints = sorted(path.name for path in (folder / "base" / "checkpoints").iterdir())
    assert checkpoints == ["step-6"]  # the others were deleted
    assert not (folder / "base" / "cache").exists()
    assert not list(filter(is_temporary, folder.rglob(".*")))
    assert (folder / "comparison" / "results.json").exists()
    assert b"\r\n" not in (folder / "samples" / "train.tsv").read_bytes()
    assert len((folder / "日本 été.csv").read_text(encoding="utf-8").splitlines()) == 6


def test_a_run_is_locked_and_a_killed_one_is_not(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from warmstart.files import lock_destination
with lock_destination(Path("locked")):
    print("locked", flush=True)
    sys.stdin.read()
"""
    other = "from pathlib import Path; from warmstart.files import lock_destination\n"
    other += "with lock_destination(Path('locked')): pass"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=_environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"locked\n"
        assert (
            "locked is in use by another warmstart process" in _run(["-c", other], tmp_path).stderr
        )
        process.kill()
    assert _run(["-c", other], tmp_path).returncode == 0


def test_a_moved_folder_is_noticed(tmp_path: Path) -> None:
    script = """
import os
from pathlib import Path
from warmstart.files import lock_destination, remove_own, write_whole
with lock_destination(Path("moving")):
    write_whole(Path("moving/step-1/state.json"), b"ours")
    os.rename("moving", "moved")
    os.makedirs("moving/step-1")
    Path("moving/step-1/state.json").write_bytes(b"mine")
    try:
        remove_own(Path("moving/step-1"))
        write_whole(Path("moving/step-1/state.json"), b"ours")
    finally:
        print(Path("moving/step-1/state.json").read_bytes())
"""
    done = _run(["-c", script], tmp_path)
    assert "moving was moved or removed while it was written" in done.stderr
    assert done.stdout == "b'mine'\n"


def test_an_open_file_is_replaced_once_it_is_closed(tmp_path: Path) -> None:
    script = """
import threading
from pathlib import Path
from warmstart.files import write_whole
path = write_whole(Path("read.json"), b"old")
reader = path.open("rb")
threading.Timer(0.5, reader.close).start()
write_whole(path, b"new")
print(path.read_bytes())
"""
    assert _run(["-c", script], tmp_path).stdout == "b'new'\n"


def test_verify_resume_says_what_it_needs(tmp_path: Path) -> None:
    done = _run(["-m", "warmstart", "verify-resume"], tmp_path)
    assert done.returncode == 2
    assert "verify-resume kills processes that it forks" in done.stderr


def test_a_server_starts_writes_labels_and_stops(folder: Path) -> None:
    words = [sys.executable, "-m", "warmstart", "serve", "warm", "--port", "0"]
    with subprocess.Popen(
        [*words, "--label", "to label.csv"],
        cwd=folder,
        env=_environment(folder),
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stderr
        lines: list[str] = []
        while not (match := re.search(r"serving on (http://\S+);", "".join(lines))):
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        table = _answer(f"{match[1]}/labels")
        _answer(f"{match[1]}/label", {"version": table["version"], "row": 1, "label": "fine"})
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
    assert (process.returncode, "Traceback" in rest) == (0, False), rest
    rows = csv.DictReader((folder / "to label.csv").read_text(encoding="utf-8").splitlines())
    assert [row["label"] for row in rows] == ["", "fine", "", "", ""]


def _answer(url: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_output_that_is_piped_on_windows_is_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        open_streams()
    stream.write("→ été")
    stream.flush()
    assert stream.buffer.getvalue() == "→ été".encode()  # type: ignore[attr-defined]


def test_a_command_is_quoted_for_the_shell_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["warmstart", "-o", r"C:\my runs\base"]
    assert shell_line(words) == r"warmstart -o 'C:\my runs\base'"
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        assert shell_line(words) == r'warmstart -o "C:\my runs\base"'


def test_the_package_asks_for_nothing_of_unix_at_its_top() -> None:
    """No module of the package imports what Windows lacks without a way round it."""
    hidden = re.compile(r"^import (fcntl|resource|pwd|grp|termios)\b", re.MULTILINE)
    sources = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert [path for path, source in sources.items() if hidden.search(source)] == []


def test_commands_are_those_of_the_workflow() -> None:
    workflow = Path(__file__).parents[2] / ".github" / "workflows" / "ci.yml"
    content = workflow.read_text(encoding="utf-8")
    assert "windows-latest" in content
    assert "like_windows/several_commands.py" in content
