"""Labels that look wrong beside `cleanlab`, from the same held-out probabilities.

    python benchmarks/suspects.py --train imdb/train.tsv

Labels are drawn, some of them are flipped, and `review`'s models predict every text from the other
folds. Counted are the flipped labels among the first that each lists. `cleanlab` ranks its issues
by self-confidence, its default; where it finds fewer than are counted, all labels are ranked.
"""

import argparse
from pathlib import Path

import numpy as np
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores

from warmstart import progress
from warmstart.data.labelled import Dataset, read_labelled
from warmstart.evaluation.confident_learning import doubt_classes
from warmstart.labelling.held_out import held_out_probabilities
from warmstart.labelling.settings import ReviewConfig
from warmstart.settings.shared import TableFormat
from warmstart.tasks.registry import finetuning_task


def flip(data: Dataset, num_labels: int, num_flipped: int, seed: int) -> tuple[Dataset, set[int]]:
    """Return some rows with some of their labels exchanged for another, and which these are."""
    generator = np.random.default_rng(seed)
    drawn = data.subset(generator.permutation(len(data))[:num_labels].tolist())
    flipped = generator.permutation(num_labels)[:num_flipped].tolist()
    names, labels = sorted(set(drawn.labels)), list(drawn.labels)
    for row in flipped:
        labels[row] = generator.choice([name for name in names if name != labels[row]])
    columns = {"texts": drawn.texts, "labels": tuple(labels), "lines": drawn.lines}
    return Dataset(file=data.file, files=data.files, **columns), set(flipped)


def first_by_us(shares: np.ndarray, classes: np.ndarray, num: int) -> list[int]:
    """Return the labels that `review` lists first."""
    doubted = doubt_classes(shares, classes.tolist())
    order = np.lexsort((doubted.margins, ~doubted.is_doubted))
    return order[:num].tolist()


def first_by_cleanlab(shares: np.ndarray, classes: np.ndarray, num: int) -> list[int]:
    """Return the labels that cleanlab lists first."""
    issues = find_label_issues(classes, shares, return_indices_ranked_by="self_confidence")
    others = np.argsort(get_label_quality_scores(classes, shares), kind="stable")
    return list(dict.fromkeys([*issues.tolist(), *others.tolist()]))[:num]


def main() -> None:
    """Print how many flipped labels each finds, seed by seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", required=True, help="labelled texts to draw from")
    parser.add_argument("--from", dest="run", help="pretrained run")
    parser.add_argument("--unlabelled", action="append", default=[])
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--flipped", type=int, default=50)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    task, every = finetuning_task("classify"), read_labelled(Path(given.train), TableFormat())
    config = ReviewConfig(
        train=(given.train,), from_run=given.run, unlabelled=tuple(given.unlabelled)
    )
    found: dict[str, list[int]] = {"review": [], "cleanlab": []}
    for seed in range(given.seeds):
        data, flipped = flip(every, given.labels, given.flipped, seed)
        with progress.silence():
            texts, shares = held_out_probabilities(config, data, task)
        classes = np.array(texts.training.targets)
        for name, first in (("review", first_by_us), ("cleanlab", first_by_cleanlab)):
            found[name].append(len(flipped & set(first(shares, classes, given.first))))
        accuracy = (shares.argmax(1) == classes).mean()
        counts = ", ".join(f"{name} {of_seeds[-1]}" for name, of_seeds in found.items())
        print(f"seed {seed}: {counts} (held-out accuracy {accuracy:.1%})", flush=True)
    means = ", ".join(f"{name} {np.mean(of_seeds):.1f}" for name, of_seeds in found.items())
    print(f"of {given.flipped} flipped labels among the first {given.first}: {means}")


if __name__ == "__main__":
    main()
