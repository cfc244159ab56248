"""A small comparison in a process of its own. Knows nothing about what any test looks for."""

import subprocess
import time
from pathlib import Path
from typing import Any

from product import ENVIRONMENT, MACHINE, arguments_of, read
from warmstart.runs.chaos import traces
from warmstart.runs.folder import RunFolder

COMMAND = (
    f"compare --from {{base}} --train {{train}} --valid {{valid}} --seeds 0,1,2 "
    f"--trials 2 --epochs 1 --arms cold,tfidf {MACHINE} -o {{out}}"
)


def without_times(folder: Path) -> tuple[Any, dict[str, str]]:
    """Return what a finished comparison says, and checksums of its cells and models."""
    models = {path.name: traces(RunFolder(path)) for path in RunFolder(folder).models.iterdir()}
    return _timeless(read(folder / "results.json")), {**traces(RunFolder(folder)), **models}


def _timeless(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _timeless(value) for key, value in data.items() if not key.endswith("_s")}
    return [_timeless(item) for item in data] if isinstance(data, list) else data


def start(command: str, **places: object) -> "subprocess.Popen[str]":
    """Start a command in a process of its own."""
    return subprocess.Popen(
        arguments_of(command, **places),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def await_cell(process: "subprocess.Popen[str]", out: Path) -> None:
    """Wait until a comparison has finished a cell."""
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        if any(out.glob("cells/[!.]*.json")):
            return
        time.sleep(0.005)
