"""Average the weights of the last validations; keep the mean where it is better."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from warmstart import progress
from warmstart.runs.checkpoint import read_weights, save_weights
from warmstart.runs.folder import RunFolder
from warmstart.training.state import Evaluation
from warmstart.training.trainer import Trainer


def keep_snapshot(run: RunFolder, model: nn.Module, step: int, keep: int) -> None:
    """Keep the weights of the newest validations, to be averaged at the end."""
    save_weights(run.snapshots / f"step-{step}.safetensors", model.state_dict())
    for old in list_snapshots(run, up_to=step)[:-keep]:
        old.unlink()


def list_snapshots(run: RunFolder, up_to: int) -> list[Path]:
    """Return the snapshots in order; later ones come from a process that was killed."""
    numbered = {int(path.stem.removeprefix("step-")): path for path in run.snapshots.glob("step-*")}
    return [numbered[step] for step in sorted(numbered) if step <= up_to]


def averaged(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of several models' weights, summed in double precision."""
    total: dict[str, Tensor] = {}
    for file in files:
        for name, tensor in read_weights(file).items():
            total[name] = total.get(name, torch.zeros(())) + tensor.double()
    return {name: (tensor / len(files)).float() for name, tensor in total.items()}


def evaluate_average(
    trainer: Trainer, snapshots: Sequence[Path], evaluate: Callable[[], Evaluation]
) -> Evaluation | None:
    """Put averaged weights into the model and validate them; None unless they are better."""
    best = trainer.state.best_score or 0.0
    device = trainer.runtime.device
    weights = {name: tensor.to(device) for name, tensor in averaged(snapshots).items()}
    trainer.model.load_state_dict(weights)
    trainer.model.eval()
    mean = evaluate()
    verdict = "better" if mean.score > best else "no better"
    progress.say(
        f"the mean of the last {len(snapshots)} validations' weights is {verdict} than the best: "
        f"{mean.note}"
    )
    return mean if mean.score > best else None
