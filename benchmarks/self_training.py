"""Compare variants of the `self` arm, and show how good its labels are from round to round.

    python benchmarks/self_training.py --from runs/imdb --train imdb/train.tsv \
        --unlabelled imdb/unlabelled.txt --labels 25,100 --seeds 0,1,2,3,4

5,000 texts of the labelled file are the test, whose labels nothing else uses. 1,000 more take part
as unlabelled texts whose labels are known here, to score what each view says of them. So variants
are chosen on none of the texts that a result is reported on, which are in another file.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.comparison.arms import Splits
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import plan_experiment
from warmstart.comparison.self_training import SelfArm, SelfTraining
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.data.splits import nested_rows
from warmstart.tasks.teaching import View

VARIANTS = {
    "default": SelfTraining(),
    "more": SelfTraining(parts=(0.3, 0.8)),
    "three-rounds": SelfTraining(parts=(0.15, 0.4, 0.8)),
    "one-round": SelfTraining(parts=(0.5,)),
    "exact": SelfTraining(perturbs=False),
    "no-students": SelfTraining(parts=(0.3, 0.8), students=1),
}
NUM_TEST, NUM_KNOWN, CHOICE_SEED = 5_000, 1_000, 2026


@dataclass(frozen=True)
class Watched(SelfArm):
    """A self-trained arm of whose unlabelled texts the last ones have labels known here alone."""

    truth: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    said: list[str] = field(default_factory=list, compare=False)

    def views(self, cell: Splits, rate: float, seed: int) -> Iterator[View]:
        for view in super().views(cell, rate, seed):
            self.said.append(f"view {self._accuracy(view.texts):.1%}")
            yield view

    def taught(
        self, labelled: Dataset, shares: NDArray[np.float64], part: float, seed: int
    ) -> Dataset:
        known = shares[-len(self.truth) :]
        sure = known.max(axis=1) >= np.quantile(known.max(axis=1), 1 - part)
        right = (known.argmax(axis=1) == self.truth)[sure].mean()
        self.said.append(f"agreed {self._accuracy(shares):.1%}, the surest {part:.0%} {right:.1%}")
        return super().taught(labelled, shares, part, seed)

    def _accuracy(self, shares: NDArray[np.float64]) -> float:
        return float((shares[-len(self.truth) :].argmax(axis=1) == self.truth).mean())


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="run", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--unlabelled", required=True)
    parser.add_argument("--labels", default="25,100")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--variants", default="default,more,three-rounds")
    parser.add_argument("--texts", type=int, help="unlabelled texts; default: that of the arm")
    parser.add_argument("--test", type=int, default=NUM_TEST, help="texts to score on")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int)
    return parser.parse_args()


def planned_arm(given: argparse.Namespace, folder: Path) -> tuple[Watched, Splits]:
    """Return the arm, and the texts to train on and to score on."""
    config = CompareConfig(
        from_runs=(given.run,),
        unlabelled=(given.unlabelled,),
        train=(given.train,),
        arms=("warm", "lsa", "self"),
        labels=("all",),
        trials=1,
        self_texts=given.texts,
        device=given.device,
        threads=given.threads,
        task="classify",
        truncate="middle",
        out=str(folder),
    )
    plan = plan_experiment(config)
    (planned,) = (p for p in plan.arms if isinstance(p.arm, SelfArm))
    arm, (parts,) = planned.arm, planned.parts
    texts = join_datasets([parts.train, parts.valid])
    order = np.random.default_rng(CHOICE_SEED).permutation(len(texts)).tolist()
    test, known = order[: given.test], order[given.test : given.test + NUM_KNOWN]
    train = texts.subset(order[given.test + NUM_KNOWN :])
    pool = [arm.pool, texts.subset(known)]
    joined = Dataset(
        texts=[text for part in pool for text in part.texts],
        ids=[ids for part in pool for ids in part.ids],
    )
    truth = np.array([texts.targets[row] for row in known])
    fields = {name: getattr(arm, name) for name in SelfArm.__dataclass_fields__}
    watched = Watched(**{**fields, "pool": joined}, truth=truth)
    return watched, Splits(train, texts.subset(test), None, temperature=1.0)


def main() -> None:
    """Print the accuracy of every variant for each number of labels and each seed."""
    given = read_arguments()
    labels, seeds = (list(map(int, text.split(","))) for text in (given.labels, given.seeds))
    folder = Path("self-training")
    folder.mkdir(exist_ok=True)  # it keeps the analysis of the text
    arm, splits = planned_arm(given, folder)
    truth = np.asarray(splits.valid.targets)
    for num in labels:
        for name in given.variants.split(","):
            scores = []
            for seed in seeds:
                started, watched = time.monotonic(), replace(arm, rules=VARIANTS[name], said=[])
                rows = nested_rows(splits.train.strata, seed)[:num]
                cell = replace(splits, train=splits.train.subset(rows))
                (model,) = watched.fit(cell, watched.settings(1), seed)
                scores.append(float((model.outputs[-1].argmax(axis=1) == truth).mean()))
                seconds = time.monotonic() - started
                said = "; ".join(watched.said)
                print(
                    f"{num} labels, {name}, seed {seed}: {scores[-1]:.1%}, {seconds:.0f} s; {said}"
                )
            spread = np.std(scores, ddof=1) if len(scores) > 1 else 0.0
            mean = float(np.mean(scores))
            print(f"{num} labels, {name}: {mean:.1%} ± {100 * spread:.1f}, worst {min(scores):.1%}")


if __name__ == "__main__":
    main()
