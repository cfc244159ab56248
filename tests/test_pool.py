"""Processes that work for another one: they end with it, and leave the user's script alone."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from warmstart.pool import ProcessPool

BUSY = """
import os, signal, time
from warmstart.pool import ProcessPool, hide_script
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start the tests without it
print("once", flush=True)
pool = ProcessPool(2, os.nice, 1)
with hide_script():
    calls = [pool.submit(time.sleep, 600) for _ in range(2)]
from pathlib import Path
children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
while len(children.read_text().split()) < 3:  # two workers and a tracker of resources
    time.sleep(0.01)
try:
    print(*children.read_text().split(), flush=True)
    calls[0].result()
finally:
    pool.close()
"""


def _await_end(pids: list[int]) -> None:
    until = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < until, "a process outlives the one that it worked for"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_at_once_with_the_one_they_work_for(
    number: signal.Signals, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"  # without a guard of `__name__`
    script.write_text(BUSY)
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == "once\n"
        pids = [int(pid) for pid in process.stdout.readline().split()]
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as Ctrl-C does
        else:
            process.kill()
        assert process.wait() == -number
        _await_end(pids)
        assert process.stdout.read() == ""
        assert process.stderr.read().count("Traceback") == (number == signal.SIGINT)


def test_work_is_done_by_others_that_were_prepared(tmp_path: Path) -> None:
    with closing(ProcessPool(1, os.chdir, tmp_path)) as pool:
        assert pool.submit(os.getcwd).result() == str(tmp_path)
        assert pool.submit(os.getpid).result() != os.getpid()
