"""Losses of masked pretraining on a GPU: attention document by document against masks.

Trains twice from the same seed on the text of this repository, letter by letter, and prints how
far apart the losses are. 32,768 tokens a step; compiled and replayed, as `pretrain` does it.

    python benchmarks/document_losses.py --steps 300
"""

import argparse
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from warmstart.batching.masking import Corruption, MaskedStream
from warmstart.batching.packing import PackedStream, RunningText
from warmstart.model.models import LanguageModel
from warmstart.runtime import choose_runtime
from warmstart.settings.model import PRESETS
from warmstart.tasks.masked import MaskedObjective
from warmstart.training.defaults import compile_backbone
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.step import RecordedObjective, update_weights

BOS, EOS, PAD, UNK, MASK = range(5)
ROOT = Path(__file__).parents[1]
ROWS, LENGTH = 64, 512


@dataclass(frozen=True)
class Setup:
    """The model, its batches, and where it is trained."""

    device: str
    rows: int
    length: int
    is_small: bool

    def stream(self) -> MaskedStream:
        """Return masked rows of every document of the repository, an id for each byte."""
        parts: list[bytes] = []
        for file in sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py")]):
            parts += [part for part in file.read_bytes().split(b"\n\n") if len(part) > 1]
        ids = [np.array([BOS, *(5 + byte for byte in part), EOS]) for part in parts]
        text = RunningText(np.concatenate(ids).astype(np.uint16), self.length, BOS, EOS)
        packed = PackedStream(text, self.rows, self.rows, seed=0)
        masking = Corruption(261, (BOS, EOS, PAD, UNK), MASK, 0.3, seed=0)
        return MaskedStream(packed, masking, self.rows, self.rows)

    def losses(self, steps: int, has_bounds: bool) -> list[float]:
        """Return the loss of every step."""
        runtime = choose_runtime(self.device)
        torch.manual_seed(0)
        shape = replace(PRESETS["modern-small"], vocab_size=261, attention="bidirectional")
        if self.is_small:
            shape = replace(shape, width=32, heads=2, depth=1, ffn_width=32)
        model = LanguageModel(shape).to(runtime.device).train()
        optimizers = build_optimizers(model, OptimizerSettings("muon", 1e-3, 0.1))
        if runtime.device.type == "cuda":
            compile_backbone(model.backbone)
        recorded: Any = RecordedObjective(model, MaskedObjective(), runtime)
        stream, losses, num_bounds = self.stream(), [], 0
        for step in range(steps):
            (batch,) = stream.group(step)
            num_bounds += batch.bounds is not None
            batch = batch if has_bounds else replace(batch, bounds=None)
            losses.append(recorded.add_gradients([batch]).clone())
            update_weights(model, optimizers, 1.0)
        print(f"{num_bounds} of {steps} batches have bounds, {recorded.num_replayed} replayed")
        return [float(loss) for loss in losses]


def main() -> None:
    """Train both and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    is_small = options.device == "cpu"
    setup = Setup(options.device, 4 if is_small else ROWS, 64 if is_small else LENGTH, is_small)
    masks, bounds = (setup.losses(options.steps, has_bounds) for has_bounds in (False, True))
    apart = [abs(a - b) / a for a, b in zip(masks, bounds, strict=True)]
    for step in range(0, options.steps, max(1, options.steps // 15)):
        print(f"step {step:4}: masks {masks[step]:.4f}, documents {bounds[step]:.4f}")
    print(f"last: masks {masks[-1]:.4f}, documents {bounds[-1]:.4f}")
    print(f"apart by {statistics.median(apart):.2%} (median), {max(apart):.2%} at most")


if __name__ == "__main__":
    main()
