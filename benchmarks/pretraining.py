"""Pretraining step of the `lab` preset: warmstart against the notebook way, in one run.

The notebook way is the usual course code: `nn.TransformerEncoder`, full logits, fp32, AdamW. Each
contender runs in processes of its own, turn by turn, so that peak memory is its own and a change
in the machine's load meets both. Prints rates, peak memory and the two ratios.

    python benchmarks/pretraining.py
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from measuring import Ratio, add_json_option, report
from torch import Tensor, nn

from warmstart.batching.packing import pack
from warmstart.model.attention import sinusoids
from warmstart.model.models import LanguageModel
from warmstart.runtime import choose_runtime
from warmstart.settings.model import PRESETS
from warmstart.tasks.causal import CausalObjective
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.step import train_step

LAB = PRESETS["lab"]
BOS, EOS = 0, 2


class Notebook(nn.Module):
    """The lab's model as a notebook writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(LAB.vocab_size, LAB.width)
        self.positions: Tensor
        self.register_buffer("positions", sinusoids(1024, LAB.width, torch.device("cpu")).float())
        self.dropout = nn.Dropout(LAB.dropout)
        layer = nn.TransformerEncoderLayer(
            LAB.width, LAB.heads, LAB.ffn_width, LAB.dropout, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAB.depth)
        self.output = nn.Linear(LAB.width, LAB.vocab_size)

    def forward(self, ids: Tensor) -> Tensor:
        """Return all logits."""
        T = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(T, device=ids.device)
        x = self.dropout(self.embed(ids) * math.sqrt(LAB.width) + self.positions[:T])
        return self.output(self.encoder(x, mask=mask, is_causal=True))


def rows_of_text(num: int, length: int) -> Tensor:
    """Return running tokens with a document end every 150 tokens or so."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(4, LAB.vocab_size, (num, length + 1), generator=generator)
    ends = torch.rand(rows.shape, generator=generator) < 1 / 150
    ends[:, -1] = False
    rows[ends] = EOS
    rows[:, 1:][ends[:, :-1]] = BOS
    return rows


def notebook_step(rows: Tensor, device: torch.device) -> Callable[[], None]:
    """Return a function that takes one optimizer step the notebook way."""
    model = Notebook().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rows = rows.to(device)

    def step() -> None:
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, LAB.vocab_size), rows[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def warmstart_step(rows: Tensor, device: torch.device) -> Callable[[], None]:
    """Return a function that takes one optimizer step of warmstart."""
    runtime = choose_runtime(device.type)
    model = LanguageModel(LAB).to(device).train()
    optimizers = build_optimizers(model, OptimizerSettings("adamw", 1e-3, 0.1))
    if device.type == "cuda":
        model.backbone.compile(dynamic=False)

    def step() -> None:
        train_step(model, CausalObjective(), [pack(rows, BOS, EOS)], optimizers, 1.0, runtime)

    return step


CONTENDERS = {"notebook": notebook_step, "warmstart": warmstart_step}


def measure(name: str, num: int, length: int, steps: int, device: torch.device) -> None:
    """Print tokens per second (median of the steps) and peak memory in MiB, as JSON."""
    torch.manual_seed(0)
    step = CONTENDERS[name](rows_of_text(num, length), device)
    for _ in range(2):
        step()
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    rate = num * length / statistics.median(times)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**20
    print(json.dumps({"rate": rate, "peak_mib": peak}))


def main() -> None:
    """Measure all contenders in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", choices=CONTENDERS)
    add_json_option(parser)
    options = parser.parse_args()
    if options.only:
        device = torch.device(options.device)
        measure(options.only, options.rows, options.length, options.steps, device)
        return
    print(f"lab preset, {options.rows}×{options.length} tokens a step, {options.device},")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    rounds = [{name: measured(name) for name in CONTENDERS} for _ in range(options.rounds)]
    rates, peaks = (
        [(each["warmstart"][figure], each["notebook"][figure]) for each in rounds]
        for figure in ("rate", "peak_mib")
    )
    work = f"pretraining step, lab, {options.device}"
    report(
        [
            Ratio.of(work, "tokens/s", "notebook, fp32", rates),
            Ratio.of(f"{work}: peak memory", "MiB", "notebook, fp32", peaks, is_less_better=True),
        ],
        options.json,
    )


def measured(name: str) -> dict[str, float]:
    """Measure a contender in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--only", name]
    figures: dict[str, float] = json.loads(subprocess.check_output(command, env=os.environ))
    return figures


if __name__ == "__main__":
    main()
