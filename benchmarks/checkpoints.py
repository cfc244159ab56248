"""What a checkpoint every minute costs: the time of a save against sixty seconds of training.

Saves the `lab` preset with its optimizer as a run does, checksums and flushing to disk included.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from warmstart.model.models import LanguageModel
from warmstart.runs.checkpoint import State, load_latest, optimizer_tensors, save_checkpoint
from warmstart.runs.folder import RunFolder
from warmstart.settings.model import PRESETS
from warmstart.training.optimizers import OptimizerSettings, build_optimizers


def main() -> None:
    """Save and load a few times and print the median."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="lab")
    parser.add_argument("--folder", default=None, help="where to write; default: temporary")
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    model = LanguageModel(PRESETS[given.preset])
    optimizers = build_optimizers(model, OptimizerSettings("muon", 1e-3, 0.1))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for optimizer in optimizers.values():
        optimizer.step()
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        run = RunFolder(Path(made) / "run")
        saves, loads = [], []
        for step in range(1, given.times + 1):
            began = time.perf_counter()
            path = save_checkpoint(run, model, optimizer_tensors(optimizers), State(step), keep=2)
            saves.append(time.perf_counter() - began)
            began = time.perf_counter()
            load_latest(run)
            loads.append(time.perf_counter() - began)
        size = sum(file.stat().st_size for file in path.iterdir())
    save, load = statistics.median(saves), statistics.median(loads)
    print(f"{given.preset}: {size / 1e6:.0f} MB, save {save:.2f} s, load {load:.2f} s")
    print(f"one save a minute: {save / 60:.2%} of the time")


if __name__ == "__main__":
    main()
