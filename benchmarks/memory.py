"""Whether memory stays flat: the resident size of a long run of `tiny`, at the start and the end.

Trains through the product's own recipe in this process, with small batches, and reads its size as
the steps go by.
"""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from warmstart import progress
from warmstart.recipes.pretrain import pretrain
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.training import PretrainConfig


class Sizes:
    """A display that reads the memory as the bar of the steps advances."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.by_step: dict[int, float] = {}
        self.step = 0

    def say(self, line: str) -> None: ...

    def bar(
        self, title: str, total: float | None, unit: str, done: float
    ) -> Iterator[progress.Bar]:
        self.step = 0
        self.is_counting = unit == "step"
        yield self

    def advance(self, amount: float, note: str = "") -> None:
        self.step += int(amount)
        if self.is_counting and self.step % self.every == 0:
            self.by_step[self.step] = resident_mb()
            print(f"step {self.step:6}: {self.by_step[self.step]:.1f} MB", flush=True)


def main() -> None:
    """Train, and print the memory at each thousandth step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=1_000)
    given = parser.parse_args()
    sizes = Sizes(given.every)
    with tempfile.TemporaryDirectory() as made, progress.show_on(sizes):
        files = write_samples(Path(made) / "samples", sizes=SampleSizes(unlabelled=2_000))
        pretrain(
            PretrainConfig(
                files=(str(files.unlabelled),),
                out=str(Path(made) / "run"),
                preset="tiny",
                vocab_size=500,
                max_length=16,
                batch_tokens=16,
                steps=given.steps,
                eval_every=1_000,
                save_every=500,
                device="cpu",
                precision="fp32",
                threads=1,
            )
        )
    first, last = min(sizes.by_step), max(sizes.by_step)
    growth = sizes.by_step[last] - sizes.by_step[first]
    share = growth / sizes.by_step[first]
    print(f"{growth:+.1f} MB from step {first:,} to step {last:,} ({share:+.2%})")


def resident_mb() -> float:
    """Return the memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


if __name__ == "__main__":
    main()
