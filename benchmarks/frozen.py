"""The frozen arm beside scikit-learn's `LogisticRegressionCV` on the vectors that `embed` writes.

Both see the same labels, drawn as `compare` draws them, and the same test texts.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from warmstart.data.labelled import Dataset, read_labelled
from warmstart.data.splits import nested_rows
from warmstart.evaluation.intervals import paired_interval
from warmstart.settings.shared import Machine, TableFormat
from warmstart.tasks.frozen import solve_head
from warmstart.tasks.registry import load_transformer


def main() -> None:
    """Print the accuracy of both at every number of labels, and their paired difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="run", required=True, help="pretrained or imported run")
    parser.add_argument("--train", required=True, help="labelled texts to draw from")
    parser.add_argument("--test", required=True, help="labelled texts to score on")
    parser.add_argument("--labels", default="100,1000")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    train, test = (read_labelled(Path(p), TableFormat()) for p in (given.train, given.test))
    names = sorted(set(train.labels))
    model = load_transformer(given.run, Machine(threads=given.threads, precision="fp32"))
    vectors = [model.embed(split.texts).astype(np.float64) for split in (train, test)]
    first = [model.embed(split.texts, pooling="cls").astype(np.float64) for split in (train, test)]
    print("labels  frozen  LogisticRegressionCV, raw and standardised  difference (95% interval)")
    for labels in map(int, given.labels.split(",")):
        compare(labels, given.draws, (train, test), names, vectors, first)


def compare(
    labels: int,
    num_draws: int,
    texts: tuple[Dataset, Dataset],
    names: list[str],
    vectors: list[np.ndarray],
    first: list[np.ndarray],
) -> None:
    """Score both on several draws of labels."""
    classes, truth = (np.array([names.index(name) for name in t.labels]) for t in texts)
    correct: dict[str, list[np.ndarray]] = {"frozen": [], "raw": [], "standardised": []}
    for draw in range(num_draws):
        rows = nested_rows(classes.tolist(), draw)[:labels]
        of_train = {"mean": vectors[0][rows], "cls": first[0][rows]}
        head = solve_head(of_train, classes[rows].tolist(), len(names), "none")
        of_test = {"mean": vectors[1], "cls": first[1]}[head.pooling]
        correct["frozen"].append(head.outputs(of_test).argmax(1) == truth)
        peers = {
            "raw": LogisticRegressionCV(max_iter=1000),
            "standardised": make_pipeline(StandardScaler(), LogisticRegressionCV(max_iter=1000)),
        }
        for name, peer in peers.items():
            peer.fit(vectors[0][rows], classes[rows])
            correct[name].append(peer.predict(vectors[1]) == truth)
    scores = {name: np.array(of_draws, np.float64) for name, of_draws in correct.items()}
    means = [f"{100 * score.mean():.1f}%" for score in scores.values()]
    for name in ("raw", "standardised"):
        found = paired_interval(scores["frozen"], scores[name])
        low, high = 100 * found.low, 100 * found.high
        difference = 100 * (scores["frozen"] - scores[name]).mean()
        print(
            f"{labels:,}: {', '.join(means)}; frozen minus {name} {difference:+.1f} "
            f"({low:+.1f} to {high:+.1f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
