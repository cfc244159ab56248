"""The figures that a training recorded: the lines of metrics.jsonl."""

import json
from pathlib import Path


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return the lines of a metrics file; a line cut off by a crash is left out."""
    if not path.exists():
        return []
    parsed = (parse_line(line) for line in path.read_bytes().splitlines())
    return [line for line in parsed if line is not None]


def parse_line(line: bytes) -> dict[str, float] | None:
    """Return the figures of one line; None if it is not whole."""
    try:
        figures = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_whole = isinstance(figures, dict) and isinstance(figures.get("step"), int)
    return figures if is_whole else None
