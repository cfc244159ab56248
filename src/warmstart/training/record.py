"""Append to metrics.jsonl and to TensorBoard events."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from warmstart.files import append_to, create_file, make_folder
from warmstart.jsonfiles import to_json
from warmstart.runs.facts import parse_line
from warmstart.runs.folder import RunFolder

_BLOCK = 1 << 16  # bytes read at a time from the end of metrics.jsonl


class Record:
    """The metrics of a run by step; a resume drops those after its checkpoint."""

    def __init__(self, run: RunFolder, step: int) -> None:
        _cut(run.metrics_file, step)
        self._lines = append_to(run.metrics_file)
        self._events = Events(run.path / "events", step)

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Write one line of figures."""
        self._lines.write(to_json({"step": step, **figures}).encode() + b"\n")
        self._lines.flush()
        self._events.add(step, figures)

    def sync(self) -> None:
        """Make everything so far durable, before a checkpoint of the same step is written."""
        for file in (self._lines, self._events.file):
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close both files, even if the disk is too full to flush them."""
        try:
            self._lines.close()
        finally:
            self._events.file.close()


class Events:
    """A TensorBoard event file, written synchronously so that a full disk raises at once."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        make_folder(folder)
        self.file: BinaryIO = _new_file(folder)
        self._writer: Any = RecordWriter(self.file)
        self._write(step=step + 1, file_version="brain.Event:2")
        # Tells TensorBoard to drop what an earlier process wrote from this step on.
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(step=step + 1, session_log=start)

    def add(self, step: int, figures: dict[str, float]) -> None:
        """Write one event that holds every figure."""
        values = [self._summary.Value(tag=k, simple_value=v) for k, v in figures.items()]
        self._write(step=step, summary=self._summary(value=values))

    def _write(self, **content: Any) -> None:
        event = self._event(wall_time=time.time(), **content)
        self._writer.write(event.SerializeToString())
        self.file.flush()


def _new_file(folder: Path) -> BinaryIO:
    """Open a file that sorts after those of earlier processes: TensorBoard reads them in order."""
    number = 1 + max((_number(path) for path in folder.glob("events.out.tfevents.*")), default=0)
    number = max(number, int(time.time()))
    path = folder / f"events.out.tfevents.{number:010}"
    create_file(path)
    return append_to(path)


def _number(path: Path) -> int:
    digits = path.name.split(".")[3]
    return int(digits) if digits.isdecimal() else 0


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
