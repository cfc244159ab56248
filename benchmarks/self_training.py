"""Compare variants of the `self` arm, and show how good its labels are from round to round.

    python benchmarks/self_training.py --from runs/imdb --train imdb/train.tsv \
        --unlabelled imdb/unlabelled.txt --labels 25,100 --seeds 0,1,2,3,4

5,000 texts of the labelled file are the test, whose labels nothing else uses. 1,000 more take part
as unlabelled texts whose labels are known here, to score what each view says of them. So variants
are chosen on none of the texts that a result is reported on, which are in another file.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart.comparison.arms import Splits
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import plan_experiment
from warmstart.comparison.self_training import SelfArm, SelfTraining
from warmstart.data.labelled import Dataset, join_datasets
from warmstart.data.splits import nested_rows

Floats = NDArray[np.float64]
VARIANTS = {
    "default": SelfTraining(),
    "no-drafts": SelfTraining(drafts=()),
    "exact": SelfTraining(perturbs=False),
    "two-votes": SelfTraining(drafts=(0.2, 0.4), parts=(0.4, 0.6, 0.8)),
    "surer": SelfTraining(parts=(0.3, 0.5)),
    "one-student": SelfTraining(students=1),
}
NUM_TEST, NUM_KNOWN, CHOICE_SEED = 5_000, 1_000, 2026


@dataclass(frozen=True)
class Watched(SelfArm):
    """A self-trained arm of whose unlabelled texts the last ones have labels known here alone."""

    truth: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    said: list[str] = field(default_factory=list, compare=False)

    def agreement(self, said: Sequence[Floats], weights: Sequence[float], priors: Floats) -> Floats:
        shares = super().agreement(said, weights, priors)
        views = ", ".join(f"{self._accuracy(view):.1%}" for view in said)
        shown = [] if self.said else [f"weights {', '.join(f'{w:.1f}' for w in weights)}"]
        self.said.extend([*shown, f"{views} agree {self._accuracy(shares):.1%}"])
        return shares

    def _accuracy(self, shares: Floats) -> float:
        return float((shares[-len(self.truth) :].argmax(axis=1) == self.truth).mean())


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="run", required=True)
    parser.add_argument("--train", required=True)
    parser.add_argument("--unlabelled", required=True)
    parser.add_argument("--labels", default="25,100")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--variants", default="default,no-drafts")
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
    ((arm, (parts,)),) = ((p.arm, p.parts) for p in plan.arms if isinstance(p.arm, SelfArm))
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
    columns = {each.name: getattr(arm, each.name) for each in fields(arm)}
    watched = Watched(**{**columns, "pool": joined}, truth=truth)
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
            scores, watched = [], replace(arm, rules=VARIANTS[name], said=[])
            for seed in seeds:
                started = time.monotonic()
                watched.said.clear()
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
