"""Which runs made with default settings each library reads, and whether it answers as we do.

Every preset is trained for a few steps on the built-in texts, exported in each format, and asked
about 200 sentences that it was not trained on. Needs the dev extra. Prints a table in Markdown.

    python benchmarks/exports.py
    python benchmarks/exports.py --only modern-small
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch

import warmstart
from warmstart import progress
from warmstart.interop.onnx_check import OnnxSession, as_past
from warmstart.model.backbone import Layout

FORMATS = {"hf": "fp32", "onnx": "fp32", "onnx int8": "int8", "ctranslate2": "fp32"}
SHALLOW = {"depth": 1, "vocab_size": 2000}  # neither decides what fits
NARROW = {"width": 128, "heads": 4, "ffn_width": 256}  # of presets that take long to train
NUM_TEXTS, NUM_NEW = 200, 3
NUM_LINES = {  # that are kept of a file: enough to train for a few steps
    "unlabelled.txt": 2000,
    **dict.fromkeys(("train.tsv", "valid.tsv", "valid.en", "valid.fr"), 100),
}


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


def train(case: Case, samples: Path, folder: Path) -> Path:
    """Train a case for a few steps, and return its run."""
    run = folder / "run"
    settings: dict[str, Any] = {
        "preset": case.preset,
        "out": str(run),
        "steps": 5,
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
class Question:
    """A sentence that no training saw, as the model reads it; for a translator with its target."""

    text: str
    ids: list[int]
    target: list[int]


def questions(case: Case, samples: Path, used: Any) -> list[Question]:
    """Return what every library is asked."""
    tokenizer = used.tokenizer
    if case.objective == "translate":
        texts, targets = (read_lines(samples / f"test.{side}") for side in ("en", "fr"))
        rows = zip(texts, used.encode(texts).ids, tokenizer.encode(targets), strict=True)
        return [Question(*row) for row in rows]
    texts = [line.split("\t")[1] for line in read_lines(samples / "test.tsv", skip=1)]
    if case.objective == "causal":
        room = used.config.max_length - NUM_NEW - 1
        return [
            Question(text, [tokenizer.bos, *ids[:room]], ids[:room])
            for text, ids in zip(texts, tokenizer.encode(texts), strict=True)
        ]
    return [
        Question(text, ids, []) for text, ids in zip(texts, used.encode(texts).ids, strict=True)
    ]


def read_lines(file: Path, skip: int = 0) -> list[str]:
    """Return the first lines of a file."""
    return file.read_text().splitlines()[skip : skip + NUM_TEXTS]


class Ours:
    """Our own model; other libraries replace how logits are computed and texts translated."""

    def __init__(self, case: Case, run: Path) -> None:
        self.case, self.used = case, warmstart.load(run, threads=1)
        self.tokenizer = self.used.tokenizer

    def logits(self, ids: list[int]) -> Any:
        """Return logits of a text: of its label, or of each token."""
        is_token = torch.ones(1, len(ids), dtype=torch.bool)
        return self.used.model(torch.tensor([ids]), Layout(is_token=is_token))[0]

    def target_logits(self, ids: list[int], target: list[int]) -> Any:
        """Return logits of each target token."""
        return self.used.model(torch.tensor([ids]), None, torch.tensor([target]))[0]

    def outputs(self, asked: list[Question]) -> list[Any]:
        """Return numbers to compare: logits, of texts that are generated log-probabilities."""
        if self.case.objective == "translate":
            start, end = self.tokenizer.bos, self.tokenizer.eos
            return [
                chosen(self.target_logits(q.ids, [start, *q.target]), [*q.target, end])
                for q in asked
            ]
        if self.case.objective == "causal":
            return [chosen(self.logits(q.ids), q.target) for q in asked]
        return [self.logits(q.ids) for q in asked]

    def decisions(self, asked: list[Question]) -> list[str]:
        """Return what must be equal: labels, tokens or texts."""
        if self.case.objective == "translate":
            start = [self.tokenizer.bos]
            return [self.continued(partial(self.target_logits, q.ids), start) for q in asked]
        if self.case.objective == "causal":
            return [self.continued(self.logits, q.ids) for q in asked]
        return [str(self.logits(q.ids).argmax(-1).tolist()) for q in asked]

    def continued(self, logits: Callable[[list[int]], Any], ids: list[int]) -> str:
        """Continue ids greedily; a model of a few steps does not know yet where to end."""
        suppressed = self.tokenizer.suppressed_ids(self.used.config.vocab_size)
        for _ in range(NUM_NEW):
            last = logits(ids)[-1].clone()
            last[[*suppressed, self.tokenizer.eos]] = -torch.inf
            ids = [*ids, int(last.argmax())]
        return str(ids[-NUM_NEW:])


def chosen(logits: Any, ids: list[int]) -> Any:
    """Return the log-probability of each id."""
    return logits[: len(ids)].log_softmax(-1)[range(len(ids)), ids]


class Transformers(Ours):
    """The model as transformers loads it."""

    def __init__(self, case: Case, run: Path, folder: Path) -> None:
        import transformers

        super().__init__(case, run)
        (name,) = json.loads((folder / "config.json").read_text())["architectures"]
        self.theirs = getattr(transformers, name).from_pretrained(folder).eval()

    def logits(self, ids: list[int]) -> Any:
        return self.theirs(input_ids=torch.tensor([ids])).logits[0]

    def target_logits(self, ids: list[int], target: list[int]) -> Any:
        given = {"input_ids": torch.tensor([ids]), "decoder_input_ids": torch.tensor([target])}
        return self.theirs(**given).logits[0]


class Onnx(Ours):
    """The model as onnxruntime loads it."""

    def __init__(self, case: Case, run: Path, folder: Path) -> None:
        super().__init__(case, run)
        names = ["encoder_model", "decoder_model"] if case.objective == "translate" else ["model"]
        self.sessions = [OnnxSession(folder / f"{name}.onnx") for name in names]

    def logits(self, ids: list[int]) -> Any:
        (session,), row = self.sessions, np.array([ids])
        inputs = {"input_ids": row, "attention_mask": np.ones_like(row), **session.empty_cache(1)}
        return torch.from_numpy(session(inputs)["logits"])[0]

    def target_logits(self, ids: list[int], target: list[int]) -> Any:
        (encoder, decoder), row = self.sessions, np.array([ids])
        encoded = encoder({"input_ids": row, "attention_mask": np.ones_like(row)})
        inputs = {"input_ids": np.array([target]), "encoder_attention_mask": np.ones_like(row)}
        caches = decoder.empty_cache(1) | as_past(encoded)
        return torch.from_numpy(decoder({**inputs, **caches})["logits"])[0]


class CTranslate2(Ours):
    """The model as CTranslate2 loads it."""

    def __init__(self, case: Case, run: Path, folder: Path) -> None:
        import ctranslate2

        super().__init__(case, run)
        self.words = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        engine = ctranslate2.Translator if case.objective == "translate" else ctranslate2.Generator
        self.engine = engine(str(folder), compute_type="float32", intra_threads=1)
        self.suppressed = self.tokens(self.tokenizer.suppressed_ids(self.tokenizer.vocab_size))

    def tokens(self, ids: list[int]) -> list[str]:
        return [self.words.id_to_token(index) for index in ids]

    def outputs(self, asked: list[Question]) -> list[Any]:
        if self.case.objective == "translate":
            sources = [self.tokens(q.ids[1:-1]) for q in asked]
            results = self.engine.score_batch(sources, [self.tokens(q.target) for q in asked])
        else:
            results = self.engine.score_batch([self.tokens(q.ids) for q in asked])
        return [torch.tensor(result.log_probs) for result in results]

    def decisions(self, asked: list[Question]) -> list[str]:
        suppressed = [[token] for token in self.suppressed]
        if self.case.objective == "translate":
            results = self.engine.translate_batch(
                [self.tokens(q.ids[1:-1]) for q in asked],
                beam_size=1,
                max_decoding_length=NUM_NEW,
                min_decoding_length=NUM_NEW,
                suppress_sequences=suppressed,
            )
            written = [result.hypotheses[0] for result in results]
            return [str([*map(self.words.token_to_id, tokens)]) for tokens in written]
        results = self.engine.generate_batch(
            [self.tokens(q.ids) for q in asked],
            beam_size=1,
            max_length=NUM_NEW,
            min_length=NUM_NEW,
            suppress_sequences=suppressed,
            include_prompt_in_result=False,
        )
        return [str(list(result.sequences_ids[0])) for result in results]


READERS = {"hf": Transformers, "onnx": Onnx, "ctranslate2": CTranslate2}


def compare(case: Case, samples: Path, folder: Path, formats: list[str]) -> list[str]:
    """Return the cells of one row: architecture, then difference and equal decisions by format."""
    run = train(case, samples, folder)
    torch.set_grad_enabled(False)
    own = Ours(case, run)
    asked = questions(case, samples, own.used)
    outputs, decisions = own.outputs(asked), own.decisions(asked)
    architecture, cells = "–", []
    for name in formats:
        out = folder / name.replace(" ", "-")
        to = name.split()[0]
        try:
            exported = warmstart.export_model(run=run, to=to, precision=FORMATS[name], out=out)
        except warmstart.WarmstartError as problem:
            progress.say(f"{case}: {problem}")
            cells.append("–")
            continue
        if to == "hf":
            architecture = f"`{exported.architecture}`"
        reader = READERS[to](case, run, out)
        theirs = zip(reader.outputs(asked), outputs, strict=True)
        difference = max(float((a - b).abs().max()) for a, b in theirs)
        equal = sum(a == b for a, b in zip(reader.decisions(asked), decisions, strict=True))
        cells.append(f"{difference:.0e}, {equal}/{len(asked)}")
    torch.set_grad_enabled(True)
    objective = f"{case.objective} from {case.start}" if case.start else case.objective
    return [f"`{case.preset}`", objective, architecture, *cells]


def shorten(file: Path, num: int) -> None:
    """Keep the first lines of a file."""
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:num]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="preset to look at")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    arguments = parser.parse_args()
    only = arguments.only
    header = ["preset", "task", "in transformers", *arguments.formats]
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        samples = Path(folder) / "samples"
        warmstart.make_samples(out=str(samples))
        for name, num in NUM_LINES.items():
            shorten(samples / name, num)
        for number, case in enumerate(all_cases()):
            if only in ("", case.preset):
                place = Path(folder) / str(number)
                place.mkdir()
                print(
                    f"| {' | '.join(compare(case, samples, place, arguments.formats))} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
