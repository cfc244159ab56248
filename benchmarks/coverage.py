"""What 95% intervals cover: made-up comparisons whose true accuracies are known.

Every text is easy or hard for all models alike to some degree; every seed has an accuracy of its
own around that of its arm. Prints the share of intervals that hold the true accuracy, and the true
difference of two arms, with their median widths in points. Further tables show what lies outside
such intervals, how often a difference is shown, and how far labels saved are from the truth.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from warmstart.comparison.labels_saved import labels_needed
from warmstart.comparison.scores import outcome_of
from warmstart.evaluation.intervals import (
    Interval,
    accuracy_interval,
    paired_estimate,
    paired_interval,
    symmetric_interval,
)

ACCURACIES = (0.85, 0.80)  # of the two arms
EQUAL = (0.85, 0.85)
SHARED = 0.6  # share of the variance between answers that is the text's own
SIZES, SEEDS, SPREADS = (400, 2_000, 10_000), (2, 3, 5), (0.0, 0.02, 0.04)
FAILURE = 0.15  # accuracy that a seed loses when it fails


@dataclass(frozen=True)
class World:
    """A test set and the seeds of two arms; the first arm may have several pretrainings."""

    num_texts: int
    num_seeds: int
    spread: float  # standard deviation of a seed's accuracy
    accuracies: tuple[float, float] = ACCURACIES  # means over everything that is drawn
    failing: float = 0.0  # share of the first arm's seeds that fail
    num_pretrainings: int = 1
    pretraining_spread: float = 0.0  # standard deviation of a pretraining's accuracy
    texts_spread: float = 0.0  # the same of training texts, which all seeds of an arm share

    @property
    def difference(self) -> float:
        return self.accuracies[0] - self.accuracies[1]

    def draw(self, rng: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
        """Yield which answers of each arm are correct: (pretrainings, seeds, texts)."""
        ease = np.sqrt(SHARED) * rng.standard_normal(self.num_texts, dtype=np.float32)
        for is_second, accuracy in enumerate(self.accuracies):
            P = 1 if is_second else self.num_pretrainings
            of_seed = accuracy + self.spread * rng.standard_normal((P, self.num_seeds, 1))
            of_seed += self.texts_spread * rng.standard_normal()
            if not is_second:
                of_seed += self.pretraining_spread * rng.standard_normal((P, 1, 1))
                has_failed = rng.random(of_seed.shape) < self.failing
                of_seed += FAILURE * (self.failing - has_failed)
            limit = ndtri(of_seed.clip(0.001, 0.999))
            shape = P, self.num_seeds, self.num_texts
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
    truth = world.accuracies[0]
    return Coverage.of(accuracies, truth), Coverage.of(differences, world.difference)


def measure_verdicts(world: World, rounds: int, seed: int = 0) -> tuple[float, float, float]:
    """Return how often the interval of the difference holds it, excludes zero, and is a verdict."""
    rng = np.random.default_rng((seed, world.num_texts, world.num_seeds))
    counts = np.zeros(3)
    for _ in range(rounds):
        estimate = paired_estimate(*world.draw(rng))
        interval = symmetric_interval(estimate)
        counts += (
            interval.low <= world.difference <= interval.high,
            not interval.low <= 0 <= interval.high,
            outcome_of(estimate) != "none",
        )
    covered, excluded, judged = counts / rounds
    return float(covered), float(excluded), float(judged)


def measure_lead(world: World, num_arms: int, rounds: int, seed: int = 0) -> float:
    """Return by how much the best of equal arms leads another equal one, on the same texts."""
    rng, leads = np.random.default_rng((seed, world.num_texts, num_arms)), []
    for _ in range(rounds):
        ease = np.sqrt(SHARED) * rng.standard_normal(world.num_texts, dtype=np.float32)
        shape = num_arms + 1, world.num_seeds, world.num_texts
        own = np.sqrt(1 - SHARED) * rng.standard_normal(shape, dtype=np.float32)
        of_seed = 0.85 + world.spread * rng.standard_normal((*shape[:2], 1))
        scores = (ease + own < ndtri(of_seed)).mean(axis=(1, 2))
        leads.append(scores[1:].max() - scores[0])
    return float(np.mean(leads))


def measure_robust(world: World, rounds: int, seed: int = 0) -> tuple[float, float]:
    """Return coverage and false verdicts of an interval of the median seed, by its order.

    From the lowest to the highest of five seeds, it covers the median in 94% of samples.
    """
    rng, counts = np.random.default_rng((seed, world.num_texts, world.num_seeds)), np.zeros(2)
    for _ in range(rounds):
        first, second = world.draw(rng)
        of_seed = first.mean(axis=(0, 2)) - second.mean(axis=(0, 2))
        low, high = of_seed.min(), of_seed.max()
        counts += low <= world.difference <= high, not low <= 0 <= high
    covered, excluded = counts / rounds
    return float(covered), float(excluded)


def saved_labels(sizes: Sequence[int], truth: int) -> str:
    """Return the labels needed for an error of 100 / truth^0.5 %, by sizes on that curve."""
    return labels_needed(1 - truth**-0.5, {size: 1 - size**-0.5 for size in sizes})


def print_table(columns: Sequence[str]) -> None:
    """Print the head of a table."""
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def print_coverage(rounds: int, seed: int) -> None:
    """Print a row for every test size, number of seeds and spread."""
    columns = ["texts", "seeds", "spread", "accuracy covered", "width"]
    print_table([*columns, "difference covered", "width"])
    for num_texts, num_seeds, spread in product(SIZES, SEEDS, SPREADS):
        coverages = measure(World(num_texts, num_seeds, spread), rounds, seed)
        cells = " | ".join(f"{each.share:.1%} | {100 * each.width:.1f}" for each in coverages)
        print(f"| {num_texts:,} | {num_seeds} | {100 * spread:.0f} | {cells} |", flush=True)


def print_outside(rounds: int, seed: int) -> None:
    """Print what happens where something varies that the seeds of one comparison do not show."""
    usual = World(2_000, 5, 0.01, EQUAL)
    worlds = {
        "nothing else varies": usual,
        "one seed": replace(usual, num_seeds=1),
        "10% of the seeds fail": replace(usual, failing=0.1),
        "10% of ten seeds fail": replace(usual, failing=0.1, num_seeds=10),
        "one pretraining, ± 0.3": replace(usual, pretraining_spread=0.003),
        "one pretraining, ± 0.9": replace(usual, pretraining_spread=0.009),
        **{
            f"{num} pretrainings, ± 0.9": replace(
                usual, pretraining_spread=0.009, num_pretrainings=num
            )
            for num in (2, 3, 5)
        },
        "the same training texts, ± 0.5": replace(usual, texts_spread=0.005),
        "the same training texts, ± 1": replace(usual, texts_spread=0.01),
    }
    print_table(["two equal arms", "difference covered", "excludes zero", "false verdicts"])
    for name, world in worlds.items():
        cells = " | ".join(f"{share:.1%}" for share in measure_verdicts(world, rounds, seed))
        print(f"| {name} | {cells} |", flush=True)
    robust = measure_robust(replace(usual, failing=0.1), rounds, seed)
    covered, excluded = (f"{share:.1%}" for share in robust)
    print(f"| 10% of the seeds fail: lowest to highest seed | {covered} | {excluded} | |")


def print_leads(rounds: int, seed: int) -> None:
    """Print the lead that the best of equal arms shows without a test file."""
    print_table(["texts", "spread", "best of 2 equal arms leads by", "best of 4", "best of 8"])
    for num_texts, spread in product((200, 2_000), (0.0, 0.02)):
        world = World(num_texts, 5, spread)
        leads = (100 * measure_lead(world, num, rounds, seed) for num in (2, 4, 8))
        cells = " | ".join(f"{lead:+.1f}" for lead in leads)
        print(f"| {num_texts:,} | {100 * spread:.0f} | {cells} |", flush=True)


def print_power(rounds: int, seed: int) -> None:
    """Print how often a difference of 3 points is shown."""
    print_table(["texts", "spread", *(f"{num} seeds" for num in (2, 3, 5, 10))])
    for num_texts, spread in product((1_000, 2_000), (0.01, 0.015, 0.02)):
        world = World(num_texts, 2, spread, (0.85, 0.82))
        powers = (
            measure_verdicts(replace(world, num_seeds=num), rounds, seed)[2]
            for num in (2, 3, 5, 10)
        )
        cells = " | ".join(f"{power:.0%}" for power in powers)
        print(f"| {num_texts:,} | {100 * spread:g} | {cells} |", flush=True)


def print_saved_labels() -> None:
    """Print labels saved where the error falls with the root of the labels, and 500 are needed."""
    print_table(["measured sizes", "labels needed; the truth is 500"])
    for sizes in ((100, 400, 1_600), (100, 5_000), (250, 1_000)):
        print(f"| {', '.join(map(str, sizes))} | {saved_labels(sizes, 500)} |")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print_coverage(given.rounds, given.seed)
    print_outside(given.rounds, given.seed)
    print_leads(given.rounds // 2, given.seed)
    print_power(given.rounds // 2, given.seed)
    print_saved_labels()


if __name__ == "__main__":
    main()
