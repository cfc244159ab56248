"""A small comparison, and what remains of it. Knows nothing about what any test looks for."""

from pathlib import Path
from typing import Any

from command_line import MACHINE, read
from forked_commands import Forked
from warmstart.runs.folder import RunFolder
from warmstart.verify.resume import traces

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


def await_cell(process: Forked, out: Path) -> None:
    """Wait until a comparison has finished a cell."""
    process.wait_until(lambda: any(out.glob("cells/[!.]*.json")))
