"""What sharing a training costs, and whether it changes the losses: on one device, in minutes.

Every run is `warmstart pretrain` in processes of its own. `connected` is one process that is made
to exchange everything with itself, by NCCL on a GPU: left to itself, a single process exchanges
nothing. Two processes on one GPU share it by gloo. Prints a table, and writes JSON with --out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist

from warmstart.cli.main import main as command_line
from warmstart.processes import Processes, share_training
from warmstart.recipes.prepare_files import make_tokenizer
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.using import TokenizerConfig
from warmstart.training import opening

SOURCE = Path(__file__).resolve().parents[1] / "src"
EXACT = "--optimizer adamw --precision fp32 --no-compile --dropout 0 --log-every 1"


@dataclass(frozen=True)
class Contender:
    """One way to start a training."""

    name: str
    num_processes: int = 1
    is_connected: bool = False  # exchanges everything, though it is alone
    options: str = ""

    def command(self) -> list[str]:
        """Return how Python starts it."""
        launcher = f"-m torch.distributed.run --standalone --nproc-per-node {self.num_processes}"
        if self.is_connected:
            return [*launcher.split(), __file__, "connected"]
        return (
            [*launcher.split(), "-m", "warmstart"]
            if self.num_processes > 1
            else ["-m", "warmstart"]
        )


@dataclass
class Measured:
    """What the runs of a contender gave."""

    name: str
    tokens_per_s: float = 0.0
    largest_difference: float | None = None  # of a loss, relative to one process


TIMED = (
    Contender("one process"),
    Contender("one process, connected", is_connected=True),
)
SAME = (
    Contender("one process"),
    Contender("two processes", 2),
    Contender("one process, connected", is_connected=True),
    Contender("one process, connected, --shard", is_connected=True, options="--shard"),
)


class Connected(Processes):
    """A single process that exchanges everything with itself."""

    is_shared = True


@contextmanager
def joined_alone() -> Iterator[Processes]:
    """Connect this process to nobody, by the means that several would use."""
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
    with share_training(Connected()):
        yield Connected()
    dist.destroy_process_group()


@dataclass(frozen=True)
class Bench:
    """The settings that all runs share, and the folder for them."""

    folder: Path
    preset: str
    device: str
    batch_tokens: int

    def losses(self, contender: Contender, steps: int, options: str) -> list[dict[str, float]]:
        """Train; return the figures of every step that was logged."""
        out = self.folder / "run"
        words = f"pretrain {self.folder}/samples/unlabelled.txt -o {out} --objective causal "
        words += f"--tokenizer {self.folder}/tokenizer --preset {self.preset} --steps {steps} "
        words += f"--device {self.device} --batch-tokens {self.batch_tokens} --eval-every {steps} "
        words += f"--save-every {steps} {options} {contender.options}"
        start = [sys.executable, *contender.command(), *words.split()]
        ended = subprocess.run(start, env=environment(), capture_output=True, text=True)
        if ended.returncode:
            sys.exit(f"{contender.name}: exit code {ended.returncode}\n{ended.stderr}")
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        subprocess.run(["rm", "-r", out], check=True)
        return [line for line in lines if "train_loss" in line]

    def rate(self, contender: Contender, steps: int) -> float:
        """Return tokens per second: the median over ten parts of the run, without the first."""
        figures = self.losses(contender, steps, f"--log-every {max(1, steps // 10)}")
        times = [line["elapsed_s"] for line in figures]
        parts = [after - before for before, after in pairwise(times)]
        return max(1, steps // 10) * self.batch_tokens / statistics.median(parts)


def environment() -> dict[str, str]:
    """Return the variables of a run: it finds this package, and leaves cores to its siblings."""
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    return {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path}


def measure(bench: Bench, steps: int, rounds: int) -> list[Measured]:
    """Return the rate of each timed contender, in turns, and its overhead."""
    rates: dict[str, list[float]] = {contender.name: [] for contender in TIMED}
    for _ in range(rounds):
        for contender in TIMED:
            rates[contender.name].append(bench.rate(contender, steps))
            print(f"  {contender.name}: {rates[contender.name][-1]:,.0f} tokens/s", flush=True)
    return [Measured(name, statistics.median(values)) for name, values in rates.items()]


def compare_losses(bench: Bench, steps: int) -> list[Measured]:
    """Return by how much the losses of each contender differ from those of one process."""
    found, expected = [], list[float]()
    for contender in SAME:
        losses = [line["train_loss"] for line in bench.losses(contender, steps, EXACT)]
        expected = expected or losses
        pairs = zip(losses, expected, strict=True)
        found.append(Measured(contender.name, 0.0, max(abs(a - b) / b for a, b in pairs)))
        print(f"  {contender.name}: {found[-1].largest_difference:.1e}", flush=True)
    return found


def main() -> None:
    """Time the contenders, compare losses, print and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="modern-small")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--batch-tokens", type=int, default=32_768)
    parser.add_argument("--steps", type=int, default=400, help="of the runs that are timed")
    parser.add_argument("--exact-steps", type=int, default=10, help="of those that are compared")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="warmstart-distributed-") as made:
        bench = Bench(Path(made), given.preset, given.device, given.batch_tokens)
        files = write_samples(bench.folder / "samples", sizes=SampleSizes(unlabelled=8_000))
        text, folder = (str(files.unlabelled),), f"{made}/tokenizer"
        make_tokenizer(TokenizerConfig(files=text, out=folder, vocab_size=2_000))
        timed = measure(bench, given.steps, given.rounds)
        same = compare_losses(bench, given.exact_steps)
    report(given, timed, same)


def report(given: argparse.Namespace, timed: list[Measured], same: list[Measured]) -> None:
    """Print both tables; write them as JSON if asked."""
    name = torch.cuda.get_device_name() if given.device == "cuda" else "CPU"
    print(f"\n{given.preset}, {given.batch_tokens:,} tokens a step, {name}, {torch.__version__}\n")
    print(f"{'':34}{'tokens/s':>12}{'overhead':>10}")
    for run in timed:
        overhead = timed[0].tokens_per_s / run.tokens_per_s - 1
        print(f"{run.name:34}{run.tokens_per_s:12,.0f}{overhead:10.2%}")
    print(f"\n{'':34}{'largest relative difference of a loss':>40}")
    for run in same:
        print(f"{run.name:34}{run.largest_difference:40.1e}")
    if given.out:
        facts = {"device": name, "torch": torch.__version__, "preset": given.preset}
        tables = {"timed": [asdict(run) for run in timed], "same": [asdict(run) for run in same]}
        given.out.write_text(json.dumps({**facts, **tables}, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["connected"]:
        del sys.argv[1]
        setattr(opening, "join_processes", joined_alone)  # noqa: B010
        command_line()
    else:
        main()
