"""Some real training steps of a job on random tokens: how long they take, how much they hold.

Runs in a process of its own, so that its peak memory is its own and nothing stays allocated.
Knows nothing about plans.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from warmstart.errors import WarmstartError
from warmstart.insight.job import Job, build_model, job_from_json
from warmstart.insight.workload import objective_of, random_batch
from warmstart.model.models import LanguageModel
from warmstart.runtime import Runtime, choose_runtime
from warmstart.settings.training import Machine
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.trainer import train_step

CLIP = 1.0
RATE = 1e-4  # any will do
LEAST = 2  # times each figure is taken, whatever it costs
MOST = 30
FEW = 4  # rows
SHARE = 6  # steps of the largest size that the time on a CPU must suffice for
PACKAGES = Path(__file__).parents[2]  # where a child process finds this one


@dataclass(frozen=True)
class Measured:
    """What was seen."""

    rows: int  # in the largest forward pass
    pass_s: float  # of a forward and backward pass, whatever its rows
    row_s: float  # of each row in it
    optimizer_s: float  # of the rest of a step
    peak: int  # bytes: allocated on a GPU, resident on a CPU
    before: int  # bytes of the process before there was a model; 0 on a GPU
    num_steps: int  # timed

    def step_s(self, job: Job) -> float:
        """Return the time of one optimizer step of the planned size."""
        return job.micros * self.pass_s + job.rows * self.row_s + self.optimizer_s


def measure(job: Job, machine: Machine, rows: int, seconds: float) -> Measured:
    """Time passes of at most so many rows, for about so long; on a CPU perhaps of fewer."""
    return _ordered(job, machine, {"rows": rows, "seconds": seconds})


def measure_whole(job: Job, machine: Machine, seconds: float) -> Measured:
    """Time whole steps of the job as planned, for about so long."""
    return _ordered(job, machine, {"rows": None, "seconds": seconds})


def _ordered(job: Job, machine: Machine, how: dict[str, Any]) -> Measured:
    """Have a child process carry out an order, and return its answer."""
    runtime = [machine.device, machine.precision, machine.threads]
    path = os.pathsep.join(filter(None, (str(PACKAGES), os.environ.get("PYTHONPATH"))))
    ran = subprocess.run(
        [sys.executable, "-m", "warmstart.insight.measure"],
        input=json.dumps({"job": job.to_json(), "runtime": runtime, **how}),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    if ran.returncode:
        said = (ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"])[-1]
        raise WarmstartError(f"the measurement failed: {said}; --no-measure plans without it")
    return Measured(**json.loads(ran.stdout.strip().splitlines()[-1]))


class Bench:
    """A model, its optimizers and its batches, ready to take steps."""

    def __init__(self, job: Job, runtime: Runtime) -> None:
        self.job, self.runtime = job, runtime
        self.before = resident() if runtime.device.type == "cpu" else 0
        torch.manual_seed(0)
        self.model = build_model(job).to(runtime.device).train()
        if runtime.device.type == "cuda" and job.is_compiled:
            assert isinstance(self.model, LanguageModel)
            self.model.backbone.compile(dynamic=False)
        self.objective = objective_of(job)
        settings = OptimizerSettings(job.optimizer, RATE, weight_decay=0.1)
        self.optimizers = build_optimizers(self.model, settings)
        self.generator = torch.Generator().manual_seed(0)

    def step(self, rows: int, micros: int) -> float:
        """Take one optimizer step over so many passes of so many rows; return its seconds."""
        group = [random_batch(self.job, rows, self.generator) for _ in range(micros)]
        began = time.perf_counter()
        loss, _ = train_step(self.model, self.objective, group, self.optimizers, CLIP, self.runtime)
        loss.item()  # waits for the device
        return time.perf_counter() - began

    def peak(self) -> int:
        """Return the most bytes held so far."""
        if self.runtime.device.type == "cuda":
            return torch.cuda.max_memory_allocated()
        return peak_resident()


def take(bench: Bench, rows: int, seconds: float) -> Measured:
    """Time steps small enough for the time there is, and tell their parts from each other."""
    if bench.runtime.device.type == "cpu":
        rows = _affordable(bench, rows, seconds)
        few = max(1, rows // 4)
    else:
        few = rows  # every size is compiled anew, and a GPU takes no time for the planned one
    times = _timed(bench, [(few, 1), (few, 2), (rows, 1)], seconds)
    one, two, large = (statistics.median(taken) for taken in times)
    row_s = max(0.0, large - one) / (rows - few) if rows > few else 0.0
    pass_s = min(max(two - one, few * row_s), one) - few * row_s  # noise must not turn a sign
    optimizer_s = max(0.0, one - pass_s - few * row_s)
    if rows == few:
        pass_s, row_s = 0.0, pass_s / rows
    num = sum(map(len, times))
    return Measured(rows, pass_s, row_s, optimizer_s, bench.peak(), bench.before, num)


def take_whole(bench: Bench, seconds: float) -> Measured:
    """Time steps of the planned size alone."""
    rows, micros = bench.job.micro_rows, bench.job.micros
    times = _timed(bench, [(rows, micros)], seconds)[0]
    row_s = statistics.median(times) / (rows * micros)
    return Measured(rows, 0.0, row_s, 0.0, bench.peak(), bench.before, len(times))


def _timed(bench: Bench, sizes: list[tuple[int, int]], seconds: float) -> list[list[float]]:
    """Return the seconds of steps of each size, in turn; the first of each goes uncounted.

    So does its time: where it compiles there would be none left.
    """
    for rows, micros in sizes:
        bench.step(rows, micros)
    began = time.monotonic()
    times: list[list[float]] = [[] for _ in sizes]
    while len(times[0]) < LEAST or (time.monotonic() - began < seconds and len(times[0]) < MOST):
        for (rows, micros), taken in zip(sizes, times, strict=True):
            taken.append(bench.step(rows, micros))
    return times


def _affordable(bench: Bench, most: int, seconds: float) -> int:
    """Return how many rows there is time for, found by doubling; a few in any case.

    From a single row the cost of a row could not be told from the cost of a pass.
    """
    rows = min(FEW, most)
    bench.step(rows, 1)
    while rows < most and 2 * bench.step(rows, 1) < seconds / SHARE:
        rows = min(2 * rows, most)
    return rows


def resident() -> int:
    """Return the bytes of this process in memory."""
    return _status("VmRSS") or peak_resident()


def peak_resident() -> int:
    """Return the most bytes this process had in memory."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _status(key: str) -> int:
    """Return a figure of Linux about this process; 0 elsewhere."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    lines = (line.split() for line in status.read_text().splitlines())
    return next((1024 * int(words[1]) for words in lines if words[0] == f"{key}:"), 0)


def main() -> None:
    """Read an order from standard input, carry it out, answer on standard output."""
    order = json.loads(sys.stdin.read())
    job = job_from_json(order["job"])
    runtime = choose_runtime(*order["runtime"])
    bench, rows, seconds = Bench(job, runtime), order["rows"], order["seconds"]
    found = take_whole(bench, seconds) if rows is None else take(bench, rows, seconds)
    sys.stdout.write(json.dumps(asdict(found)) + "\n")


if __name__ == "__main__":
    main()
