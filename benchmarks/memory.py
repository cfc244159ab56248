"""Whether memory stays flat: the resident size of a long run of `tiny`, at the start and the end.

Trains through the product's own recipe in this process, with small batches, and reads its size as
the steps go by.
"""

import argparse
import os
import tempfile
from pathlib import Path

from warmstart.recipes.pretrain import pretrain
from warmstart.samples.sample_files import SampleSizes, write_samples
from warmstart.settings.pretraining import PretrainConfig
from warmstart.training.trainer import Trainer


def main() -> None:
    """Train, and print the memory at each thousandth step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=1_000)
    given = parser.parse_args()
    sizes: dict[int, float] = {}
    take = Trainer._step

    def stepping(self: Trainer) -> object:
        if self.state.step and self.state.step % given.every == 0:
            sizes[self.state.step] = resident_mb()
            print(f"step {self.state.step:6}: {sizes[self.state.step]:.1f} MB", flush=True)
        return take(self)

    Trainer._step = stepping  # type: ignore[method-assign,assignment]
    with tempfile.TemporaryDirectory() as made:
        files = write_samples(Path(made) / "samples", sizes=SampleSizes(unlabelled=2_000))
        pretrain(
            PretrainConfig(
                files=(str(files.unlabelled),),
                out=str(Path(made) / "run"),
                preset="tiny",
                vocab_size=500,
                max_length=16,
                batch_tokens=16,
                steps=given.steps + 1,
                eval_every=1_000,
                save_every=500,
                device="cpu",
                precision="fp32",
                threads=1,
            )
        )
    first, last = min(sizes), max(sizes)
    growth = sizes[last] - sizes[first]
    print(f"{growth:+.1f} MB from step {first:,} to step {last:,} ({growth / sizes[first]:+.2%})")


def resident_mb() -> float:
    """Return the memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


if __name__ == "__main__":
    main()
