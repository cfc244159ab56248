"""Metrics shown elsewhere: each tracker gets what metrics.jsonl gets, once, also after a resume."""

import json
import signal
import sqlite3
from pathlib import Path

import pytest

from command_line import TINY, World, before_step, refuse, run, succeed, weights_of
from warmstart.runs.facts import read_metrics
from warmstart.runs.folder import RunFolder
from warmstart.training.record import Record


def losses(folder: Path) -> dict[int, float]:
    """Return the training loss of each step in metrics.jsonl."""
    lines = read_metrics(folder / "metrics.jsonl")
    return {line["step"]: line["train_loss"] for line in lines if "train_loss" in line}


def test_without_being_asked_only_metrics_are_written(world: World, base: Path, here: Path) -> None:
    assert not (base / "events").exists()
    pytest.importorskip("tensorboard")
    succeed(f"pretrain {world.texts} -o run {TINY} --track tensorboard")
    assert weights_of(here / "run") == weights_of(base)
    (events,) = (here / "run/events").iterdir()
    assert events.name.startswith("events.out.tfevents.")


def test_tensorboard_shows_each_step_once_after_resuming(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = RunFolder(tmp_path)
    for begins, values in ((0, [1.0, 2.0, 3.0]), (2, [30.0, 40.0]), (3, [400.0])):
        record = Record(folder, begins, "tensorboard")
        for step, loss in enumerate(values, begins + 1):
            record.add(step, {"train_loss": loss})
        record.sync()  # and then the power goes: nothing is closed
    shown = accumulator.EventAccumulator(str(tmp_path / "events"))
    shown.Reload()
    scalars = {event.step: event.value for event in shown.Scalars("train_loss")}
    assert scalars == {1: 1.0, 2: 2.0, 3: 30.0, 4: 400.0}
    assert len(shown.Scalars("train_loss")) == 4


@pytest.mark.parametrize(
    ("name", "package"),
    [("tensorboard", "'warmstart[track]'"), ("mlflow", "mlflow"), ("wandb", "wandb")],
)
def test_a_missing_package_is_named_before_anything_is_written(
    world: World, here: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    monkeypatch.setattr("warmstart.settings.shared.find_spec", lambda name: None)
    said = refuse(f"pretrain {world.texts} -o run {TINY} --track {name}")
    assert f"--track {name} needs {name}" in said
    assert f"pip install {package}" in said
    assert not (here / "run").exists()


def train_twice(world: World, name: str) -> None:
    """Train to step 4, where a signal stops the run, and resume it."""
    command = f"pretrain {world.texts} -o run {TINY} --log-every 1 --track {name}"
    with before_step(4, lambda: signal.raise_signal(signal.SIGTERM)):
        assert run(command).code == 143
    succeed(f"{command} --resume")


def test_mlflow_has_one_run_with_settings_and_losses(
    world: World, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{here}/mlflow.db")
    train_twice(world, "mlflow")
    (shown,) = mlflow.search_runs(output_format="list")
    history = mlflow.MlflowClient().get_metric_history(shown.info.run_id, "train_loss")
    assert {point.step: point.value for point in history} == pytest.approx(losses(here / "run"))
    assert shown.data.params["vocab_size"] == "300"


def test_trackio_has_one_run_with_the_losses(
    world: World, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(here / "shown"))  # read when it is imported
    pytest.importorskip("trackio")
    train_twice(world, "trackio")
    (file,) = (here / "shown").glob("*.db")
    rows = sqlite3.connect(file).execute("SELECT run_name, step, metrics FROM metrics").fetchall()
    assert {name for name, _, _ in rows} == {
        json.loads((here / "run/events/trackio.json").read_text())["id"]
    }
    shown = {step: json.loads(text) for _, step, text in rows}
    assert set(shown) == set(losses(here / "run"))


def test_wandb_writes_into_the_run_when_it_is_offline(
    world: World, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train_twice(world, "wandb")
    number = json.loads((here / "run/events/wandb.json").read_text())["id"]
    folders = list((here / "run/events/wandb").glob(f"offline-run-*-{number}"))
    assert len(folders) == 2  # sessions of one run, which `wandb sync` joins
