"""The loss of the vocabulary head on a CPU: warmstart's beside torch's own.

Each contender computes loss and gradients in processes of its own, turn by turn, with one thread.
Prints CPU time, the memory on top of the inputs, and the loss. `chunked` is
`torch.nn.functional.linear_cross_entropy` (torch 2.13), `full` holds all logits.

    python benchmarks/output_loss.py --precision bf16
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from warmstart.kernels.loss import linear_cross_entropy

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def _ours(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return linear_cross_entropy(hidden, weight, None, targets)[0]


def _chunked(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    options = nn.LinearCrossEntropyOptions()
    return F.linear_cross_entropy(hidden, weight, targets, reduction="sum", options=options)


def _full(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(hidden, weight).float(), targets, reduction="sum")


CONTENDERS: dict[str, Loss] = {"warmstart": _ours, "chunked": _chunked, "full": _full}


def main() -> None:
    """Measure every contender in turn; as a process of its own, one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--vocabulary", type=int, default=16_000)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(given)
        return
    results: dict[str, list[list[float]]] = {name: [] for name in CONTENDERS}
    for _ in range(given.rounds):
        for name, figures in results.items():
            words = [sys.executable, *sys.argv, "--one", name]
            line = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            figures.append([float(word) for word in line.split()])
    for name, figures in results.items():
        seconds, megabytes, loss = map(statistics.median, zip(*figures, strict=True))
        print(f"{name:9} {1000 * seconds:6.0f} ms  {megabytes:5.0f} MB  loss {loss:.3f}")


def measure(given: argparse.Namespace) -> None:
    """Print CPU seconds, megabytes and the loss of one contender."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    hidden = torch.randn(given.rows, given.width, requires_grad=True)
    weight = (torch.randn(given.vocabulary, given.width) / given.width**0.5).requires_grad_()
    targets = torch.randint(0, given.vocabulary, (given.rows,))

    def compute() -> float:
        hidden.grad = weight.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=given.precision == "bf16"):
            loss = CONTENDERS[given.one](hidden, weight, targets)
        loss.backward()
        return float(loss)

    before, loss, seconds = _peak_mb(), compute(), []
    for _ in range(4):
        began = time.process_time()
        compute()
        seconds.append(time.process_time() - began)
    print(min(seconds), _peak_mb() - before, loss)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
