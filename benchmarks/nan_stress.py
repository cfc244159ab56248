"""Replay the default masked pretraining step of a GPU until a loss or a gradient is not finite.

The step is that of `pretrain` by defaults: `modern-small`, compiled, recorded, Muon. A bad step
changes no weight, so the same step is then taken again, recorded and plain, to see whether the
fault recurs. Prints one line of JSON for each copy; copies share the GPU.

    python benchmarks/nan_stress.py --minutes 9 --copies 3
    python benchmarks/nan_stress.py --steps 2000 --cudnn
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from steps import Work
from torch import Tensor
from torch.nn.attention import SDPBackend

from warmstart.batching.batches import pin
from warmstart.runtime import Runtime, choose_runtime
from warmstart.seeds import derive_seed
from warmstart.settings.model import DEFAULT_PRESETS, PRESETS
from warmstart.settings.training import BATCH_TOKENS, Masking, PretrainConfig
from warmstart.tasks.masked import MaskedTask
from warmstart.tasks.task import TrainingJob
from warmstart.training.defaults import compile_backbone, pretraining_rate
from warmstart.training.optimizers import OptimizerSettings, build_optimizers, set_rates
from warmstart.training.step import Latch, RecordedObjective, add_gradients, step_optimizers

NUM_BATCHES = 8  # that are replayed in turn
NUM_REPEATS = 10  # of a bad step, recorded and plain
WARM_UP = 20  # steps that are not timed: compiling, recording
RISING = 500  # steps in which the learning rate rises
LOOK_EVERY = 500  # steps: looking waits for the GPU


@dataclass(frozen=True)
class Stress:
    """What is replayed."""

    work: Work
    runtime: Runtime
    is_frozen: bool  # nothing is learned: a batch must have the same gradient norm every time
    is_recorded: bool
    is_compiled: bool
    seed: int


class Replay:
    """A model in training, and what its steps showed."""

    def __init__(self, stress: Stress) -> None:
        self.stress = stress
        job, runtime = stress.work.job, stress.runtime
        torch.manual_seed(stress.seed)
        self.task = MaskedTask()
        self.model = self.task.planned_model(job).to(runtime.device).train()
        self.objective = self.task.planned_objective(job, runtime.device)
        if stress.is_compiled:
            compile_backbone(self.model.get_submodule("backbone"))
        self.recorded = RecordedObjective(self.model, self.objective, runtime)
        self.rate = pretraining_rate(job.model, job.optimizer)
        settings = OptimizerSettings(job.optimizer, self.rate, PretrainConfig.weight_decay)
        self.optimizers = build_optimizers(self.model, settings)
        named = [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]
        self.names, self.parameters = [name for name, _ in named], [p for _, p in named]
        self.latch = Latch(runtime.device)
        self.bad_gradients = torch.zeros(len(named), dtype=torch.bool, device=runtime.device)
        generator = torch.Generator().manual_seed(stress.seed + 1)
        self.batches = [
            pin(self.task.random_batch(job, stress.work.rows, generator))
            for _ in range(NUM_BATCHES)
        ]
        self.norms: list[list[Tensor]] = [[] for _ in self.batches]  # of each batch

    def set_gradients(self, step: int, is_recorded: bool) -> tuple[Tensor, Tensor]:
        """Set the gradients of a step; return the loss and the norm of every gradient."""
        turn = step % NUM_BATCHES
        runtime, group = self.stress.runtime, [self.batches[turn]]
        runtime.seed(derive_seed(0, "step", turn if self.stress.is_frozen else step))
        if is_recorded:
            loss = self.recorded.add_gradients(group)
        else:
            loss = add_gradients(self.model, self.objective, group, runtime)
        grads = [p.grad for p in self.parameters if p.grad is not None]
        return loss, torch.stack(torch._foreach_norm(grads))

    def take_step(self, step: int) -> Tensor:
        """Take a step as the trainer does; return its loss."""
        loss, norms = self.set_gradients(step, is_recorded=self.stress.is_recorded)
        norm = torch.linalg.vector_norm(norms)
        is_bad = ~(loss.isfinite() & norm.isfinite())
        is_first = is_bad & (self.latch.num_skipped == 0)
        self.bad_gradients |= is_first & ~norms.isfinite()
        is_skipped = self.latch.enter(is_bad)
        torch.nn.utils.clip_grads_with_norm_(self.parameters, PretrainConfig.clip, norm)
        if self.stress.is_frozen:
            self.norms[step % NUM_BATCHES].append(norm)
            return loss
        set_rates(self.optimizers, step, min(1.0, (step + 1) / RISING))
        step_optimizers(self.optimizers, is_skipped)
        return loss

    def count_bad_repeats(self, step: int, is_recorded: bool) -> int:
        """Compute a step again and again with the same weights; return how often it is bad."""
        bad = 0
        for _ in range(NUM_REPEATS):
            loss, norms = self.set_gradients(step, is_recorded)
            bad += not bool(loss.isfinite() & norms.isfinite().all())
        return bad

    def spread(self) -> float | None:
        """Return the range of a batch's norms relative to their mean; None: nothing was frozen."""
        stacked = [torch.stack(norms) for norms in self.norms if norms]
        return max((float((n.max() - n.min()) / n.mean()) for n in stacked), default=None)

    @property
    def attention(self) -> str:
        """Return the kernel that torch chooses for the attention of a batch."""
        shape, device = self.stress.work.model, self.stress.runtime.device
        size = (2, shape.heads, shape.max_length, shape.width // shape.heads)
        q = torch.zeros(size, dtype=self.stress.runtime.dtype, device=device, requires_grad=True)
        mask = torch.ones(2, 1, shape.max_length, shape.max_length, dtype=torch.bool, device=device)
        return str(SDPBackend(torch._fused_sdp_choice(q, q, q, mask)).name)


def default_work(length: int, is_small: bool) -> Work:
    """Return the step of masked pretraining by defaults, or one that a CPU can take."""
    shape = replace(PRESETS[DEFAULT_PRESETS["cuda"]], attention="bidirectional", max_length=length)
    rows = max(1, BATCH_TOKENS["cuda"] // length)
    job = TrainingJob(
        task="masked",
        model=shape,
        optimizer=PretrainConfig.optimizer,
        rows=rows,
        micro_rows=rows,
        length=length,
        mask_rate=Masking.mask_rate,
    )
    work = Work("masked pretraining", job)
    return work.smaller() if is_small else work


def replay(stress: Stress, minutes: float, steps: int) -> Iterator[tuple[str, Any]]:
    """Replay steps until the time or the steps are over, or one is bad; yield what is found."""
    training = Replay(stress)
    yield "attention", training.attention
    began = timed_from = time.monotonic()
    step = num_skipped = 0
    while not num_skipped and step < steps and time.monotonic() - began < 60 * minutes:
        loss = training.take_step(step)
        step += 1
        if step == WARM_UP:
            float(loss)  # waits for the GPU
            timed_from = time.monotonic()
        if step % LOOK_EVERY == 0:
            num_skipped = training.latch.open()
    last_loss = float(loss)
    elapsed_s = time.monotonic() - timed_from
    num_skipped = num_skipped or training.latch.open()
    yield "steps", step
    yield "tokens_per_s", round((step - WARM_UP) * stress.work.tokens / elapsed_s)
    yield "last_loss", last_loss
    yield "first_bad_step", step - num_skipped if num_skipped else None
    yield (
        "bad_gradients",
        [
            name
            for name, is_bad in zip(training.names, training.bad_gradients.tolist(), strict=True)
            if is_bad
        ],
    )
    if num_skipped:
        first = step - num_skipped
        yield "bad_of_10_repeats", training.count_bad_repeats(first, stress.is_recorded)
        yield "bad_of_10_plain_repeats", training.count_bad_repeats(first, is_recorded=False)
    yield "weights_finite", all(bool(p.isfinite().all()) for p in training.parameters)
    yield "spread_of_norms", training.spread()


def measure(options: argparse.Namespace) -> None:
    """Replay in this process and print what was found."""
    runtime = choose_runtime(options.device)
    torch.backends.cuda.enable_cudnn_sdp(options.cudnn)
    is_gpu = runtime.device.type == "cuda"
    stress = Stress(
        default_work(options.length, is_small=not is_gpu),
        runtime,
        is_frozen=options.frozen,
        is_recorded=not options.no_graph,
        is_compiled=is_gpu and not options.no_compile,
        seed=options.seed,
    )
    found = dict(replay(stress, options.minutes, options.steps))
    if is_gpu:
        found["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
        found["gpu"], found["cudnn"] = torch.cuda.get_device_name(), torch.backends.cudnn.version()
    print(json.dumps(found | {"torch": torch.__version__, "options": vars(options)}), flush=True)


def main() -> None:
    """Parse; replay here, or in several processes beside each other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--steps", type=int, default=sys.maxsize)
    parser.add_argument("--length", type=int, default=512, help="tokens of a row")
    parser.add_argument("--cudnn", action="store_true", help="let torch choose cuDNN's attention")
    parser.add_argument("--no-graph", action="store_true", help="steps are not recorded")
    parser.add_argument("--no-compile", action="store_true", help="the backbone is not compiled")
    parser.add_argument("--frozen", action="store_true", help="learn nothing; compare norms")
    parser.add_argument("--copies", type=int, default=1, help="processes that share the GPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    if options.copies == 1:
        measure(options)
        return
    command = [sys.executable, __file__, *sys.argv[1:], "--copies", "1", "--seed"]
    copies = [subprocess.Popen([*command, str(seed)]) for seed in range(options.copies)]
    sys.exit(max(copy.wait() for copy in copies))


if __name__ == "__main__":
    main()
