"""The figures that a training recorded: the lines of metrics.jsonl."""

import json
import sys
from pathlib import Path


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the lines of a metrics file; a line cut off by a crash is left out."""
    if not path.exists():
        return []
    parsed = (parse_line(line) for line in path.read_bytes().splitlines())
    return [line for line in parsed if line is not None]


def parse_line(line: bytes) -> dict[str, float] | None:
    """Return the figures of one line, without what is no finite number; None: it is not whole."""
    try:
        figures = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(figures, dict):
        return None
    finite = {name: value for name, value in figures.items() if _is_figure(value)}
    return finite if isinstance(finite.get("step"), int) else None


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
