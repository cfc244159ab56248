"""One pretraining in fp32, bf16 and fp16, with the same texts and seed, and fine-tuning after it.

Prints the rate and the loss of each precision, how often fp16 skipped a step, and the accuracy with
few labels; draws the three losses in one figure. Every part is a command with --resume, so what
was cut off continues when the script is started again.

    python benchmarks/precision.py --text unlabelled.txt.xz --text imdb/train.tsv \\
      --train imdb/train.tsv --test imdb/test.tsv -o precision
"""

import argparse
import json
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from warmstart.evaluation.intervals import paired_interval
from warmstart.report.style import SHADES, WIDTH, save_image, styled
from warmstart.report.training_figure import smooth_losses
from warmstart.runs.facts import read_metrics

PRECISIONS = {"fp32": SHADES["baseline"][2], "bf16": SHADES["cold"][0], "fp16": SHADES["warm"][0]}
Lines = list[dict[str, float]]


def main() -> None:
    """Train what is not trained yet, print the figures, and draw the losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--text", action="append", help="unlabelled; may repeat; without: no training"
    )
    parser.add_argument("--train", help="labelled texts; without them nothing is fine-tuned")
    parser.add_argument("--test", help="labelled texts to score on")
    parser.add_argument("--preset", default="modern-small")
    parser.add_argument("--tokens", type=int, default=40_000_000)
    parser.add_argument("--labels", default="1000")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--only", choices=PRECISIONS, help="train in one; draw what is there")
    parser.add_argument("--device", default="auto")
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    precisions = [given.only] if given.only else list(PRECISIONS)
    if given.text:
        for precision in precisions:
            _pretrain(given, precision)
    if given.train:
        for precision in precisions:
            _compare(given, precision)
    lines = {name: _metrics(given.out / name) for name in PRECISIONS if (given.out / name).exists()}
    _print_trainings(lines)
    _print_accuracies(given.out)
    save_image(_draw(lines), given.out / "precision.png")


def _pretrain(given: argparse.Namespace, precision: str) -> None:
    """Pretrain in one precision; all trainings read the same tokens."""
    tokenizer = given.out / "tokenizer"
    if not tokenizer.exists():
        sizes = ["--vocab-size", "300"] if given.preset == "tiny" else []
        _run("tokenizer", *given.text, *sizes, "-o", str(tokenizer))
    length = ["--tokens", str(given.tokens), "--preset", given.preset, "--save-every", "100"]
    names = ["--tokenizer", str(tokenizer), "-o", str(given.out / precision), "--resume"]
    machine = ["--precision", precision, "--device", given.device]
    _run("pretrain", *given.text, *length, *names, *machine, *_compiling(given))


def _compare(given: argparse.Namespace, precision: str) -> None:
    """Fine-tune in one precision, from the pretraining in it, with every seed; score the test."""
    _run(
        *("compare", "--from", str(given.out / precision), "--precision", precision),
        *("--train", given.train, "--test", given.test, "--truncate", "head", "--save", "none"),
        *("--labels", given.labels, "--seeds", given.seeds, "--trials", "1"),
        *("--arms", "warm,tfidf"),  # there must be two; TF-IDF takes seconds
        *("--device", given.device, "-o", str(given.out / f"{precision}-labels"), "--resume"),
    )


def _compiling(given: argparse.Namespace) -> list[str]:
    """Compile in every precision or in none: by default the length in seconds decides."""
    return ["--no-compile"] if given.device == "cpu" else ["--compile"]


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "warmstart", *arguments], check=True)


def _metrics(run: Path) -> Lines:
    return [line for line in read_metrics(run / "metrics.jsonl") if "train_loss" in line]


def _print_trainings(lines: dict[str, Lines]) -> None:
    first, plain = _reference(lines)
    print(f"\n| precision | steps/s | last loss | from {first}, median | overflows | faults |")
    print("|---|---|---|---|---|---|")
    for name, logged in lines.items():
        gaps = [abs(e["train_loss"] / plain[e["step"]] - 1) for e in logged if e["step"] in plain]
        gap = f"{statistics.median(gaps):.2%}" if gaps and name != first else "–"
        last = logged[-1]
        print(
            f"| {name} | {_rate(logged):,.1f} | {last['train_loss']:.4f} | {gap} | "
            f"{last.get('overflows', 0):.0f} | {last.get('faults', 0):.0f} |"
        )


def _reference(lines: dict[str, Lines]) -> tuple[str, dict[float, float]]:
    """Return the first precision that there is, and its losses by step."""
    name, logged = next(iter(lines.items()))
    return name, {line["step"]: line["train_loss"] for line in logged}


def _rate(logged: Lines) -> float:
    """Return the steps per second: a median over the intervals of the log, without validations."""
    return statistics.median(
        (after["step"] - before["step"]) / (after["elapsed_s"] - before["elapsed_s"])
        for before, after in pairwise(logged)
        if after["elapsed_s"] > before["elapsed_s"]
    )


def _print_accuracies(out: Path) -> None:
    """Print the accuracy with every number of labels, and its difference to bf16."""
    correct = {name: _correct(out / f"{name}-labels") for name in PRECISIONS}
    for labels in sorted({labels for rows in correct.values() for labels in rows}):
        for name, by_labels in correct.items():
            if labels not in by_labels:
                continue
            seeds = 100 * by_labels[labels].mean(1)
            text = f"{labels:,} labels, {name}: {seeds.mean():.1f}%, seeds {np.round(seeds, 1)}"
            if name != "bf16" and labels in correct["bf16"]:
                base = correct["bf16"][labels]
                found = paired_interval(by_labels[labels], base)
                text += f"; minus bf16 {seeds.mean() - 100 * base.mean():+.2f} "
                text += f"({100 * found.low:+.1f} to {100 * found.high:+.1f})"
            print(text)


def _correct(folder: Path) -> dict[int, NDArray[np.float64]]:
    """Return which test texts every seed (a row) answered rightly, by number of labels."""
    file = folder / "results.json"
    if not file.exists():
        return {}
    results: dict[str, Any] = json.loads(file.read_text("utf-8"))
    truth = np.array(results["splits"][-1]["classes"])
    rows: dict[int, list[NDArray[np.float64]]] = {}
    for cell in (cell for cell in results["cells"] if cell["arm"] == "warm"):
        right = (np.array(cell["predictions"]["test"]) == truth).astype(np.float64)
        rows.setdefault(cell["labels"], []).append(right)
    return {labels: np.array(of_seeds) for labels, of_seeds in rows.items()}


@styled
def _draw(lines: dict[str, Lines]) -> Figure:
    """Draw the training loss of every precision, smoothed, and its distance from the first."""
    figure = Figure(figsize=(WIDTH, WIDTH), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    first, plain = _reference(lines)
    for (name, logged), style in zip(lines.items(), ("-", "--", ":"), strict=False):
        steps, losses = ([line[key] for line in logged] for key in ("step", "train_loss"))
        above.plot(steps, smooth_losses(losses), style, color=PRECISIONS[name], label=name)
        shared = [
            (step, loss - plain[step])
            for step, loss in zip(steps, losses, strict=True)
            if step in plain
        ]
        if shared:
            below.plot(*zip(*shared, strict=True), style, color=PRECISIONS[name], linewidth=0.8)
    above.set(
        ylabel="training loss, nats per token", title=f"One pretraining in {', '.join(lines)}"
    )
    below.set(xlabel="step", ylabel=f"minus {first}, step by step")
    above.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
