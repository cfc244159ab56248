"""Append to metrics.jsonl and to TensorBoard events.

Knows nothing about what the figures mean.
"""

import json
from pathlib import Path

from warmstart.files import write_whole
from warmstart.store.folder import RunFolder


class Record:
    """The figures of a run by step; going on from a checkpoint drops what came after it."""

    def __init__(self, run: RunFolder, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import, so only where needed

        _cut(run.metrics_file, step)
        self._lines = run.metrics_file.open("a", encoding="utf-8")
        self._events = SummaryWriter(str(run.path / "events"), purge_step=step + 1)

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Write one line of figures."""
        self._lines.write(json.dumps({"step": step, **figures}) + "\n")
        self._lines.flush()
        for name, value in figures.items():
            self._events.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush everything to disk."""
        self._lines.close()
        self._events.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the lines of a metrics file; a line cut off by a crash is left out."""
    if not path.exists():
        return []
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return lines


def _cut(path: Path, step: int) -> None:
    kept = [line for line in read_metrics(path) if line["step"] <= step]
    if path.exists():
        write_whole(path, "".join(json.dumps(line) + "\n" for line in kept).encode())
