"""How often 95% intervals hold the truth: made-up comparisons whose true accuracies are known.

Every text is easy or hard for all models alike to some degree; every seed has an accuracy of its
own around that of its arm. Prints the share of intervals that hold the true accuracy, and the true
difference of two arms, with their median widths in points.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from warmstart.evaluation.intervals import Interval, accuracy_interval, paired_interval

ACCURACIES = (0.85, 0.80)  # of the two arms
SHARED = 0.6  # share of the variance between answers that is the text's own
SIZES, SEEDS, SPREADS = (400, 2_000, 10_000), (2, 3, 5), (0.0, 0.02, 0.04)


@dataclass(frozen=True)
class World:
    """A test set and the seeds of two arms."""

    num_texts: int
    num_seeds: int
    spread: float  # standard deviation of a seed's accuracy

    def draw(self, rng: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
        """Yield which answers of each arm are correct: (seeds, texts)."""
        shape = self.num_seeds, self.num_texts
        ease = np.sqrt(SHARED) * rng.standard_normal(self.num_texts, dtype=np.float32)
        for accuracy in ACCURACIES:
            of_seed = accuracy + self.spread * rng.standard_normal((self.num_seeds, 1))
            limit = ndtri(of_seed.clip(0.001, 0.999))
            own = np.sqrt(1 - SHARED) * rng.standard_normal(shape, dtype=np.float32)
            yield ease + own < limit


@dataclass(frozen=True)
class Coverage:
    """The share of intervals that hold the truth, and their median width."""

    share: float
    width: float

    @classmethod
    def of(cls, intervals: list[Interval], truth: float) -> "Coverage":
        holds = [each.low <= truth <= each.high for each in intervals]
        return cls(float(np.mean(holds)), float(np.median([i.high - i.low for i in intervals])))


def measure(world: World, rounds: int, seed: int = 0) -> tuple[Coverage, Coverage]:
    """Return the coverage of one arm's accuracy and of the difference of both arms."""
    rng = np.random.default_rng((seed, world.num_texts, world.num_seeds, round(1e4 * world.spread)))
    accuracies, differences = [], []
    for _ in range(rounds):
        first, second = world.draw(rng)
        accuracies.append(accuracy_interval(first))
        differences.append(paired_interval(first, second))
    truth, other = ACCURACIES
    return Coverage.of(accuracies, truth), Coverage.of(differences, truth - other)


def main() -> None:
    """Print a row for every test size, number of seeds and spread."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| texts | seeds | spread | accuracy covered | width | difference covered | width |")
    print("|---|---|---|---|---|---|---|")
    for num_texts, num_seeds, spread in product(SIZES, SEEDS, SPREADS):
        found = measure(World(num_texts, num_seeds, spread), given.rounds, given.seed)
        cells = " | ".join(f"{each.share:.1%} | {100 * each.width:.1f}" for each in found)
        print(f"| {num_texts:,} | {num_seeds} | {100 * spread:.0f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
