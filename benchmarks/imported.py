"""Predictions of an imported BERT classifier: `warmstart.load` against the pipeline of its library.

Both in fp32, on the same texts, whose order `transformers` gets sorted by length, in batches of 32.
The figures are CPU time, which other programs disturb least; the labels must be equal.

    warmstart import hf-folder -o run
    python benchmarks/imported.py run hf-folder texts.txt
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measuring import Ratio, add_json_option, in_turns, report

import warmstart


def sorted_predictions(pipeline: Any, texts: list[str]) -> list[str]:
    """Return the labels of the peer, in the order of the texts."""
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    outputs = pipeline([texts[row] for row in order], batch_size=32, truncation=True)
    labels = dict(zip(order, (output["label"] for output in outputs), strict=True))
    return [labels[row] for row in range(len(texts))]


def cpu_time(work: Callable[[], object]) -> Callable[[], float]:
    """Return a function that does the work and returns its CPU seconds."""

    def timed() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return timed


def main() -> None:
    """Compare the labels, then the CPU time, in turns."""
    from transformers import pipeline

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", help="run folder of the imported classifier")
    parser.add_argument("folder", help="the folder it was imported from")
    parser.add_argument("texts", type=Path, help="one text per line")
    parser.add_argument("--num", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    add_json_option(parser)
    given = parser.parse_args()
    texts = given.texts.read_text(encoding="utf-8").splitlines()[: given.num]
    torch.set_num_threads(given.threads)
    model: Any = warmstart.load(given.run, threads=given.threads)
    peer = pipeline("text-classification", model=given.folder, device="cpu")
    labels = [prediction.label for prediction in model.predict(texts)]
    num_equal = sum(map(str.__eq__, labels, sorted_predictions(peer, texts)))
    print(f"{num_equal} of {len(texts)} labels are equal")
    ours = cpu_time(lambda: model.predict(texts))
    theirs = cpu_time(lambda: sorted_predictions(peer, texts))
    rounds = in_turns(ours, theirs, given.rounds)
    name = f"prediction of {len(texts)} texts, {given.threads} threads"
    report(
        [Ratio.of(name, "CPU s", "transformers pipeline", rounds, is_less_better=True)], given.json
    )


if __name__ == "__main__":
    main()
