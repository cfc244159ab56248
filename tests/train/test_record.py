import json
from pathlib import Path

from warmstart.store.folder import RunFolder
from warmstart.train.record import Record, read_metrics


def test_lines_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    record = Record(run, 0)
    for step in (1, 2, 3):
        record.add(step, {"train_loss": step / 10})
    record.close()
    record = Record(run, 2)
    record.add(3, {"train_loss": 9.0})
    record.close()
    assert read_metrics(run.metrics_file) == [
        {"step": 1, "train_loss": 0.1},
        {"step": 2, "train_loss": 0.2},
        {"step": 3, "train_loss": 9.0},
    ]


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.metrics_file.write_text('{"step": 1, "loss": 0.5}\n{"step": 2, "lo')
    assert read_metrics(run.metrics_file) == [{"step": 1, "loss": 0.5}]
    record = Record(run, 1)
    record.add(2, {"loss": 0.25})
    record.close()
    lines = run.metrics_file.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"step": 1, "loss": 0.5},
        {"step": 2, "loss": 0.25},
    ]


def test_events_are_written_too(tmp_path: Path) -> None:
    record = Record(RunFolder(tmp_path), 0)
    record.add(1, {"train_loss": 0.5})
    record.close()
    (events,) = (tmp_path / "events").iterdir()
    assert events.name.startswith("events.out")


def test_no_file_is_no_line(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl") == []
