"""The training loss of the fast paths beside that of the plain ones: the same texts and seed.

Plain is fp32 without compiled or replayed steps (`--no-compile --precision fp32`); fast is compiled
and replayed, as long trainings on a GPU are. Dropout is drawn in another order there, so single
steps differ.

    python benchmarks/losses.py --text reviews.txt --train labelled.tsv --source train.en \\
      --target train.fr -o docs/figures/losses.png
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from warmstart.report.style import styled

PLAIN, FAST = ["--no-compile", "--precision", "fp32"], ["--compile"]
COLOURS = {"plain": "#777777", "fast": "#d5521c"}
Losses = dict[str, float]  # by step


def main() -> None:
    """Train every kind of model twice, print the largest difference, and draw both losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("text", "train", "source", "target"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--labels", default="160")
    parser.add_argument("--only", help="part of a name; the others are read from the JSON")
    parser.add_argument("--jobs", type=int, default=1, help="kinds of model at the same time")
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    pairs = ["--source", given.source, "--target", given.target]
    pairs += ["--valid-source", given.source, "--valid-target", given.target]
    length = ["--steps", str(given.steps), "--eval-every", str(given.steps)]
    works = {
        "causal, lab": ["pretrain", given.text, "--preset", "lab", *length],
        "masked, default": ["pretrain", given.text, *length],
        # Small steps, many epochs: there is one loss for each epoch, that of its last batch.
        "classifier, cold": [
            *("finetune", "--train", given.train, "--labels", given.labels),
            *("--epochs", "30", "--learning-rate", "5e-5"),
        ],
        "translator, default": ["train-translator", *pairs, *length],
    }
    file = given.out.with_suffix(".json")
    curves: dict[str, tuple[Losses, Losses]] = {}
    if given.only:
        curves = json.loads(file.read_text())
        works = {name: work for name, work in works.items() if given.only in name}
    with ThreadPoolExecutor(given.jobs) as executor:
        trainings = {name: executor.submit(_train_twice, work) for name, work in works.items()}
    for name, training in trainings.items():
        plain, fast = curves[name] = training.result()
        gaps = [abs(fast[step] - loss) / loss for step, loss in plain.items() if step in fast]
        print(
            f"{name}: {len(gaps)} losses, apart by {np.median(gaps):.2%} (median), "
            f"{max(gaps):.2%} (most)",
            flush=True,
        )
        file.write_text(json.dumps(curves))
        _draw(curves, given.out)


def _train_twice(arguments: list[str]) -> tuple[Losses, Losses]:
    with tempfile.TemporaryDirectory() as folder:
        plain, fast = (Path(folder) / name for name in COLOURS)
        command = [sys.executable, "-m", "warmstart", *arguments]
        subprocess.run([*command, *PLAIN, "-o", str(plain)], check=True)
        subprocess.run([*command, *FAST, "-o", str(fast)], check=True)
        return _losses(plain), _losses(fast)


def _losses(run: Path) -> Losses:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return {str(entry["step"]): entry["train_loss"] for entry in entries if "train_loss" in entry}


@styled
def _draw(curves: dict[str, tuple[Losses, Losses]], out: Path) -> None:
    figure = Figure(figsize=(9, 6), layout="constrained")
    for axes, (name, both) in zip(figure.subplots(2, 2).flat, curves.items(), strict=False):
        for (label, colour), losses in zip(COLOURS.items(), both, strict=True):
            style = "-" if label == "plain" else "--"
            steps = [int(step) for step in losses]
            axes.plot(steps, losses.values(), style, color=colour, label=label)
        axes.set(title=name, xlabel="step", ylabel="training loss")
        axes.legend()
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    main()
