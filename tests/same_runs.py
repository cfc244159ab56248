"""Whether two trainings were the same, to the last bit."""

import pytest
import torch

from warmstart.runs.checkpoint import load_latest
from warmstart.runs.facts import read_metrics
from warmstart.training.trainer import Trainer


def _figures(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the figures of each line that depend on nothing but the steps."""
    left_out = ("elapsed_s", "faults")
    return [{k: v for k, v in line.items() if k not in left_out} for line in lines]


def assert_same_run(trainer: Trainer, reference: Trainer) -> None:
    """See that weights, best weights, figures and optimizer are those of the reference."""
    assert trainer.run is not None
    assert reference.run is not None
    for name, tensor in reference.model.state_dict().items():
        assert torch.equal(trainer.model.state_dict()[name], tensor)
    assert trainer.run.weights_file.read_bytes() == reference.run.weights_file.read_bytes()
    newest, expected = (load_latest(run)[0] for run in (trainer.run, reference.run))
    assert newest is not None
    assert expected is not None
    assert newest.optimizer.keys() == expected.optimizer.keys()
    assert all(torch.equal(t, expected.optimizer[name]) for name, t in newest.optimizer.items())
    lines, expected_lines = (
        _figures(read_metrics(run.metrics_file)) for run in (trainer.run, reference.run)
    )
    assert lines == expected_lines  # so no step stands there twice
    assert trainer.state.best_step == reference.state.best_step
    for one, other in zip(
        _figures(trainer.state.evaluations), _figures(reference.state.evaluations), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-12)
