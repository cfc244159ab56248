"""Append to metrics.jsonl, and to whatever else tracks the run."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from warmstart.files import append_to
from warmstart.jsonfiles import to_json
from warmstart.runs.facts import parse_line
from warmstart.runs.folder import RunFolder
from warmstart.settings.shared import Tracker
from warmstart.training.tracking import Writer, open_tracker

_BLOCK = 1 << 16  # bytes read at a time from the end of metrics.jsonl


class Record:
    """The metrics of a run by step; a resume drops those after its checkpoint."""

    def __init__(self, run: RunFolder, step: int, track: Tracker | None = None) -> None:
        self._writers: list[Writer] = [MetricsFile(run.metrics_file, step)]
        if track:
            self._writers.append(open_tracker(track, run, step))

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Write the figures of a step."""
        for writer in self._writers:
            writer.add(step, figures)

    def sync(self) -> None:
        """Make everything so far durable, before a checkpoint of the same step is written."""
        for writer in self._writers:
            writer.sync()

    def close(self) -> None:
        """Close every writer, even if the disk is too full to flush one of them."""
        with ExitStack() as stack:
            for writer in self._writers:
                stack.callback(writer.close)


class MetricsFile:
    """metrics.jsonl: a line of figures for each step that is recorded."""

    def __init__(self, path: Path, step: int) -> None:
        _cut(path, step)
        self._file = append_to(path)

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Write one line of figures."""
        self._file.write(to_json({"step": step, **figures}).encode() + b"\n")
        self._file.flush()

    def sync(self) -> None:
        """Make every line so far durable."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _cut(path: Path, step: int) -> None:
    """Drop the lines after `step`, reading from the end: the time does not grow with the file."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        end = 0
        for start, line in _lines_backwards(file):
            figures = parse_line(line) if line.endswith(b"\n") else None
            if figures and figures["step"] <= step:
                end = start + len(line)
                break
        file.truncate(end)
        os.fsync(file.fileno())


def _lines_backwards(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield every line with its offset, the last first."""
    start = file.seek(0, os.SEEK_END)
    rest = b""  # the end of a line that begins in an earlier block
    while start > 0:
        size = min(_BLOCK, start)
        start -= size
        file.seek(start)
        block = file.read(size) + rest
        lines = block.splitlines(keepends=True)
        rest = b"" if start == 0 else lines.pop(0)
        offset = start + len(block)
        for line in reversed(lines):
            offset -= len(line)
            yield offset, line
