import json
from pathlib import Path

import pytest

from warmstart.runs.facts import parse_line, read_metrics
from warmstart.runs.folder import RunFolder
from warmstart.training.record import Record


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


def test_what_is_synced_is_on_disk_without_closing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    record = Record(run, 0)
    record.add(1, {"train_loss": 0.5})
    record.sync()
    assert read_metrics(run.metrics_file) == [{"step": 1, "train_loss": 0.5}]


@pytest.mark.parametrize("lines", [1, 2, 3000])
@pytest.mark.parametrize("step", [0, 1, 2, 1500, 2999, 5000])
def test_cutting_anywhere(tmp_path: Path, lines: int, step: int) -> None:
    run = RunFolder(tmp_path)
    written = [{"step": n, "loss": 0.5, "more": "x" * (n % 50)} for n in range(1, lines + 1)]
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in written) + '{"st')
    Record(run, step).close()
    kept = [line["step"] for line in written if line["step"] <= step]
    assert [line["step"] for line in read_metrics(run.metrics_file)] == kept


def test_no_file_is_no_line(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl") == []


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ('{"step": 1, "train_loss": 2.5}', {"step": 1, "train_loss": 2.5}),
        ('{"step": 1, "train_loss": null}', {"step": 1}),  # it was not finite
        ('{"step": 1, "train_loss": NaN, "valid_loss": "x"}', {"step": 1}),
        (f'{{"step": 1, "train_loss": {10**400}}}', {"step": 1}),
        (f'{{"step": {10**400}}}', None),
        ('{"step": "x"}', None),
        ("[1]", None),
    ],
)
def test_only_finite_figures_are_read(line: str, figures: dict[str, float] | None) -> None:
    assert parse_line(line.encode()) == figures
