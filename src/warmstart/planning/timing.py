"""Run real training steps of a job on random tokens; measure their time and peak memory.

The steps run in a process of their own, so that the peak is theirs and no memory stays taken.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from warmstart.data.labelled import Dataset
from warmstart.errors import WarmstartError
from warmstart.runtime import Runtime, choose_runtime
from warmstart.settings.model import model_from_json
from warmstart.settings.shared import Machine
from warmstart.tasks.finetuning import FinetuningTask
from warmstart.tasks.registry import task_named
from warmstart.tasks.task import TrainingJob
from warmstart.tasks.vectors import MANY_TOKENS, TextBatches
from warmstart.training.defaults import compile_backbone
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.step import train_step

CLIP = 1.0
LEARNING_RATE = 1e-4  # has no effect on time and memory
MIN_ROUNDS, MAX_ROUNDS = 2, 30
FEW_ROWS = 4
READ_TOKENS = 2 * MANY_TOKENS  # to time reading, which packs the weights for so many
CPU_STEPS = 6  # steps of the largest size that must fit into the time on a CPU
PACKAGES = Path(__file__).parents[2]  # so that the child process finds this package


@dataclass(frozen=True)
class StepTiming:
    """Measured time and memory of training steps."""

    rows: int  # in the largest forward pass
    pass_s: float  # of a forward and backward pass, however many rows it has
    row_s: float  # of each row in a pass
    optimizer_s: float  # of the rest of a step
    peak_bytes: int  # allocated on a GPU, resident on a CPU
    baseline_bytes: int  # of the process before the model was built; 0 on a GPU
    num_steps: int  # timed

    def step_s(self, job: TrainingJob) -> float:
        """Return the time of one optimizer step of the job."""
        return job.num_passes * self.pass_s + job.rows * self.row_s + self.optimizer_s


def time_steps(
    job: TrainingJob, machine: Machine, seconds: float, rows: int | None = None
) -> StepTiming:
    """Time steps of a job for about `seconds`, in a child process.

    With `rows`, time passes of at most `rows` rows; without, whole steps as planned.
    """
    runtime = [machine.device, machine.precision, machine.threads]
    request = {"job": asdict(job), "runtime": runtime, "rows": rows, "seconds": seconds}
    path = os.pathsep.join(filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH"))))
    process = subprocess.run(
        [sys.executable, "-m", "warmstart.planning.timing"],
        input=json.dumps(request),
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": path},
    )
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"exit status {process.returncode}"]
        raise WarmstartError(f"the measurement failed: {lines[-1]}; --no-measure plans without it")
    return StepTiming(**json.loads(process.stdout.strip().splitlines()[-1]))


class _Bench:
    """A model with optimizers and random batches, ready to take steps."""

    def __init__(self, job: TrainingJob, runtime: Runtime) -> None:
        self.job, self.runtime, self.task = job, runtime, task_named(job.task)
        self.baseline_bytes = _process_bytes("VmRSS") if runtime.device.type == "cpu" else 0
        torch.manual_seed(0)
        self.model = self.task.planned_model(job).to(runtime.device).train()
        if runtime.device.type == "cuda" and job.is_compiled:
            compile_backbone(self.model.get_submodule("backbone"))
        self.objective = self.task.planned_objective(job, runtime.device)
        dtype = runtime.dtype or torch.float32
        settings = OptimizerSettings(job.optimizer, LEARNING_RATE, weight_decay=0.1, dtype=dtype)
        self.optimizers = build_optimizers(self.model, settings)
        self.generator = torch.Generator().manual_seed(0)

    def step(self, rows: int, num_passes: int) -> float:
        """Take one optimizer step and return its seconds."""
        make = partial(self.task.random_batch, self.job, rows, self.generator)
        group = [make() for _ in range(num_passes)]
        began = time.perf_counter()
        loss, _ = train_step(self.model, self.objective, group, self.optimizers, CLIP, self.runtime)
        loss.item()  # waits for the device
        return time.perf_counter() - began

    def time(self, sizes: list[tuple[int, int]], seconds: float) -> list[list[float]]:
        """Return the seconds of steps of each size, in turn.

        The first step of each size does not count, nor does its time: it may compile.
        """
        for rows, num_passes in sizes:
            self.step(rows, num_passes)
        ends = time.monotonic() + seconds
        rounds: list[list[float]] = []
        while len(rounds) < MIN_ROUNDS or (time.monotonic() < ends and len(rounds) < MAX_ROUNDS):
            rounds.append([self.step(rows, num_passes) for rows, num_passes in sizes])
        return [list(times) for times in zip(*rounds, strict=True)]

    def result(self, rows: int, num_steps: int, **seconds: float) -> StepTiming:
        """Return the times with the memory used so far."""
        is_cuda = self.runtime.device.type == "cuda"
        return StepTiming(
            rows=rows,
            num_steps=num_steps,
            peak_bytes=torch.cuda.max_memory_allocated() if is_cuda else _process_bytes("VmHWM"),
            baseline_bytes=self.baseline_bytes,
            **seconds,
        )


def _time_parts(bench: _Bench, rows: int, seconds: float) -> StepTiming:
    """Time small steps, and separate the cost of a row, of a pass and of the optimizer."""
    if bench.runtime.device.type == "cpu":
        rows = _affordable_rows(bench, rows, seconds)
        few = max(1, rows // 4)
    else:
        few = rows  # each size compiles again, and a GPU has time for the planned size
    times = bench.time([(few, 1), (few, 2), (rows, 1)], seconds)
    one_pass, two_passes, large_pass = map(statistics.median, times)
    row_s = max(0.0, large_pass - one_pass) / (rows - few) if rows > few else 0.0
    # Noise must not make a cost negative.
    pass_s = min(max(two_passes - one_pass, few * row_s), one_pass) - few * row_s
    optimizer_s = max(0.0, one_pass - pass_s - few * row_s)
    if rows == few:
        pass_s, row_s = 0.0, pass_s / rows
    num_steps = sum(map(len, times))
    return bench.result(rows, num_steps, pass_s=pass_s, row_s=row_s, optimizer_s=optimizer_s)


def _time_reading(bench: _Bench, seconds: float) -> StepTiming:
    """Time how a frozen backbone reads: as a model predicts."""
    job, task = bench.job, bench.task
    assert isinstance(task, FinetuningTask)
    rows = max(job.rows, READ_TOKENS // job.length)
    texts = Dataset(ids=job.random_ids(rows, job.length, bench.generator).tolist())
    batches = TextBatches(job.micro_rows * job.length, 0, bench.runtime)
    ends, times = time.monotonic() + seconds, list[float]()
    while len(times) < MIN_ROUNDS or (time.monotonic() < ends and len(times) < MAX_ROUNDS):
        began = time.perf_counter()
        task.outputs(bench.model.eval(), texts, batches)
        times.append(time.perf_counter() - began)
    row_s = statistics.median(times) / rows
    return bench.result(rows, len(times), pass_s=0.0, row_s=row_s, optimizer_s=0.0)


def _time_whole(bench: _Bench, seconds: float) -> StepTiming:
    """Time steps of the planned size."""
    rows, num_passes = bench.job.micro_rows, bench.job.num_passes
    times = bench.time([(rows, num_passes)], seconds)[0]
    row_s = statistics.median(times) / (rows * num_passes)
    return bench.result(rows, len(times), pass_s=0.0, row_s=row_s, optimizer_s=0.0)


def _affordable_rows(bench: _Bench, most: int, seconds: float) -> int:
    """Double the rows while there is time for them; start with a few.

    From a single row the cost of a row could not be separated from the cost of a pass.
    """
    rows = min(FEW_ROWS, most)
    bench.step(rows, 1)
    while rows < most and 2 * bench.step(rows, 1) < seconds / CPU_STEPS:
        rows = min(2 * rows, most)
    return rows


def _process_bytes(key: str) -> int:
    """Return one figure from /proc about the memory of this process; 0 where there is no /proc."""
    status = Path("/proc/self/status")
    content = status.read_text(encoding="utf-8") if status.exists() else ""
    match = re.search(rf"{key}:\s+(\d+) kB", content)
    return 1024 * int(match[1]) if match else 0


def main() -> None:
    """Read a request from standard input, and write the timing to standard output."""
    request = json.loads(sys.stdin.read())
    job = request["job"]
    job = TrainingJob(**{**job, "model": model_from_json(job["model"])})
    bench = _Bench(job, choose_runtime(*request["runtime"]))
    rows, seconds = request["rows"], request["seconds"]
    if job.is_frozen:
        timing = _time_reading(bench, seconds)
    else:
        timing = _time_whole(bench, seconds) if rows is None else _time_parts(bench, rows, seconds)
    sys.stdout.write(json.dumps(asdict(timing)) + "\n")


if __name__ == "__main__":
    main()
