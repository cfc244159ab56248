"""Which runs made with default settings each library reads, and whether it answers as we do.

Every preset is trained for a few steps, exported in each format, and asked about 200 sentences
that it was not trained on. Texts are the built-in ones, or those of files: one review per line,
reviews with a label as `imdb_splits.py` writes them, and pairs of sentences. Needs the dev extra.
Prints a table in Markdown.

    python benchmarks/exports.py
    python benchmarks/exports.py --only modern-small
    python benchmarks/exports.py --steps 100 --reviews unlabelled.txt.xz --labelled train.tsv \\
        --pairs train.en.xz train.fr.xz
"""

import argparse
import re
import sys
import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from export_readers import NUM_NEW, READERS, Ours, Question

import warmstart
from warmstart.textfiles import read_lines

FORMATS = {"hf": "fp32", "onnx": "fp32", "onnx int8": "int8", "ctranslate2": "fp32"}
SHALLOW = {"depth": 1, "vocab_size": 2000}  # neither decides what fits
NARROW = {"width": 128, "heads": 4, "ffn_width": 256}  # of presets that take long to train
NUM_TEXTS = 200
NUM_TRAINED, NUM_VALID = 2000, 100  # lines: enough to train for a few steps
SENTENCE = re.compile(r"[^.!?]{20,300}[.!?]")


@dataclass(frozen=True)
class Case:
    """A preset, and what is trained with it."""

    preset: str
    objective: str
    start: str = ""  # of a classifier: the objective of its pretraining

    @property
    def overrides(self) -> dict[str, Any]:
        """Return the sizes that are smaller than the preset's."""
        narrow = NARROW if self.preset in ("bert-base", "vaswani-base") else {}
        decoder = {"decoder_depth": 1} if self.objective == "translate" else {}
        return SHALLOW | narrow | decoder


def all_cases() -> list[Case]:
    """Return what can be trained with default settings."""
    tasks = {"masked": "", "classify": "masked", "causal": ""}
    presets = ("modern-small", "mini", "tiny", "bert-base")
    cases = [Case(preset, task, start) for preset in presets for task, start in tasks.items()]
    cases.remove(Case("bert-base", "causal"))  # an encoder
    cases.append(Case("modern-small", "classify", "causal"))
    translators = [Case(preset, "translate") for preset in ("translator-small", "vaswani-base")]
    return [*translators, *cases, Case("lab", "causal")]


def train(case: Case, samples: Path, folder: Path, steps: int) -> Path:
    """Train a case for a few steps, and return its run."""
    folder.mkdir()
    run = folder / "run"
    settings: dict[str, Any] = {
        "preset": case.preset,
        "out": str(run),
        "steps": steps,
        "batch_tokens": 512,
        "threads": 1,
    }
    settings |= case.overrides
    if case.objective == "translate":
        pairs = {"source": "train.en", "target": "train.fr"}
        valid = {"valid_source": "valid.en", "valid_target": "valid.fr"}
        files = {name: str(samples / file) for name, file in (pairs | valid).items()}
        warmstart.train_translator(**settings, **files, samples=0)
        return run
    objective = case.start or case.objective
    text = (str(samples / "unlabelled.txt"),)
    warmstart.pretrain(**settings, files=text, objective=objective)
    if case.objective == "classify":
        train_file, valid_file = (str(samples / f"{part}.tsv") for part in ("train", "valid"))
        labels = {"train": (train_file,), "valid": valid_file, "epochs": 1, "threads": 1}
        warmstart.finetune(from_run=str(run), out=str(folder / "labels"), **labels)
        return folder / "labels"
    return run


@dataclass(frozen=True)
class Sentences:
    """Sentences that no training sees: any, and those to translate with their translations."""

    texts: list[str]
    sources: list[str]
    translations: list[str]

    def questions(self, objective: str, used: Any) -> list[Question]:
        """Return what every library is asked."""
        tokenizer = used.tokenizer
        if objective == "causal":
            room = used.config.max_length - NUM_NEW - 1
            encoded = [ids[:room] for ids in tokenizer.encode(self.texts)]
            return [Question([tokenizer.bos, *ids], ids) for ids in encoded]
        rows = used.encode(self.sources if objective == "translate" else self.texts).ids
        if objective == "translate":
            targets = tokenizer.encode(self.translations)
            return [Question(ids, target) for ids, target in zip(rows, targets, strict=True)]
        return [Question(ids, []) for ids in rows]


def row(case: Case, run: Path, sentences: Sentences, formats: list[str]) -> list[str]:
    """Return the cells of one row: architecture, then difference and equal decisions by format."""
    own = Ours(case.objective, run)
    asked = sentences.questions(case.objective, own.used)
    outputs, decisions = own.outputs(asked), own.decisions(asked)
    architecture, cells = "–", []
    for name in formats:
        out, to = run.parent / name.replace(" ", "-"), name.split()[0]
        try:
            exported = warmstart.export_model(run=run, to=to, precision=FORMATS[name], out=out)
        except warmstart.WarmstartError as problem:
            print(f"{case.preset}, {case.objective}, {name}: {problem}", file=sys.stderr)
            cells.append("–")
            continue
        architecture = f"`{exported.architecture}`" if to == "hf" else architecture
        reader = READERS[to](case.objective, run, out)
        theirs = zip(reader.outputs(asked), outputs, strict=True)
        difference = max(float((a - b).abs().max()) for a, b in theirs)
        equal = sum(a == b for a, b in zip(reader.decisions(asked), decisions, strict=True))
        cells.append(f"{difference:.0e}, {equal}/{len(asked)}")
    objective = f"{case.objective} from {case.start}" if case.start else case.objective
    return [f"`{case.preset}`", objective, architecture, *cells]


def lines_of(file: Path, num: int) -> list[str]:
    """Return the first lines of a file, which may be compressed."""
    return list(islice(read_lines(file), num))


def write(file: Path, lines: list[str]) -> None:
    """Write lines."""
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def gather(samples: Path, options: argparse.Namespace) -> Sentences:
    """Write the texts to train on, and return the sentences to ask about."""
    reviews = options.reviews or samples / "unlabelled.txt"
    texts = lines_of(reviews, NUM_TRAINED + 2 * NUM_TEXTS)
    write(samples / "unlabelled.txt", texts[:NUM_TRAINED])
    labelled = lines_of(options.labelled or samples / "train.tsv", 2 * NUM_VALID + 1)
    write(samples / "train.tsv", labelled[: NUM_VALID + 1])
    write(samples / "valid.tsv", [labelled[0], *labelled[NUM_VALID + 1 :]])
    files = options.pairs or [samples / "train.en", samples / "train.fr"]
    asked = []
    for suffix, file in zip(("en", "fr"), files, strict=True):
        lines = lines_of(file, NUM_TRAINED + NUM_VALID + NUM_TEXTS)
        write(samples / f"train.{suffix}", lines[:NUM_TRAINED])
        write(samples / f"valid.{suffix}", lines[NUM_TRAINED:-NUM_TEXTS])
        asked.append(lines[-NUM_TEXTS:])
    found = (SENTENCE.search(text) for text in texts[NUM_TRAINED:])
    sentences = [match[0].strip() for match in found if match]
    return Sentences(sentences[:NUM_TEXTS], *asked)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="preset to look at")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    parser.add_argument("--steps", type=int, default=5, help="of each training")
    parser.add_argument("--reviews", type=Path, help="texts, one per line")
    parser.add_argument("--labelled", type=Path, help="table of labels and texts")
    parser.add_argument("--pairs", type=Path, nargs=2, help="English sentences, French sentences")
    options = parser.parse_args()
    show("preset", "task", "in transformers", *options.formats)
    show(*["---"] * (3 + len(options.formats)))
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples"
        warmstart.make_samples(out=str(samples))
        sentences = gather(samples, options)
        for number, case in enumerate(all_cases()):
            if options.only in ("", case.preset):
                run = train(case, samples, Path(folder) / str(number), options.steps)
                with torch.inference_mode():
                    show(*row(case, run, sentences, options.formats))


def show(*cells: str) -> None:
    """Print a row of the table."""
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
