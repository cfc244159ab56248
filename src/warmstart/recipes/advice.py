"""What to run with the files and the machine at hand, and why.

The figures behind the advice are in docs/results.md, "What pays on which machine".
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.data.file_report import FileReader
from warmstart.formats import quantity
from warmstart.settings.using import DataConfig, StartConfig
from warmstart.textfiles import expand

if TYPE_CHECKING:
    from warmstart.data.copies import DataReport, FileReport

LITTLE_TEXT = 1_000_000  # words; a backbone pretrained on fewer was worse than a public one
TOKENS_PER_WORD = 1.3  # of a tokenizer trained on the text
FEW_LABELS = 20  # too few to compare anything with
PUBLIC_MODEL = "hf:sentence-transformers/all-MiniLM-L6-v2"  # English, 22M parameters
SAMPLE = 200  # texts that the language is guessed from
FEW_TOKENS = 100_000_000  # read in a pretraining; lsa was ahead after 11 million, behind after 700
FEW_TOKENS_ADVICE = (
    "with few labels, lsa of the same text was ahead of a Transformer that has read so few tokens: "
    "compare shows both"
)
LITTLE_TEXT_ADVICE = (
    "text to pretrain on, less than the million words from which pretraining of one's own begins "
    "to pay: start from a public model"
)
COMMON_WORDS = {
    "English": "the and of to is that it was for with this but",
    "French": "le la les des et est une que pour dans qui pas",
    "German": "der die das und ist nicht ein ich mit zu auf den",
    "Spanish": "el los las una que por con para es del como pero",
    "Italian": "il che di non una per sono con della gli anche più",
    "Portuguese": "o os um uma que não para com em é mais muito",
    "Dutch": "de het een van en is niet dat met op voor zijn",
}
SCRIPTS = {
    "Chinese": r"[\u4e00-\u9fff]",
    "Japanese": r"[\u3040-\u30ff]",
    "Korean": r"[\uac00-\ud7af]",
    "Thai": r"[\u0e00-\u0e7f]",
    "Arabic": r"[\u0600-\u06ff]",
    "a language in Cyrillic": r"[\u0400-\u04ff]",
    "Greek": r"[\u0370-\u03ff]",
    "Hebrew": r"[\u0590-\u05ff]",
    "Hindi": r"[\u0900-\u097f]",
}


@dataclass(frozen=True)
class Step:
    """A command to run, what it is for, and how long it takes."""

    command: str
    purpose: str


@dataclass(frozen=True)
class StartResult:
    """What there is, and what to do with it."""

    findings: tuple[str, ...]
    steps: tuple[Step, ...]


def start(config: StartConfig) -> StartResult:
    """Read what there is and say what to run."""
    from warmstart.recipes.prepare_files import report_data
    from warmstart.runtime import describe_gpu, num_threads

    report = report_data(DataConfig(files=config.files, columns=config.columns))
    gpu = describe_gpu()
    language = guess_language(_sample(config))
    findings = (
        *(_describe(file) for file in report.files),
        f"language: {language or 'not recognised'}",
        f"machine: {gpu or quantity(num_threads(), 'CPU core') + ', no GPU'}",
    )
    return StartResult(findings, tuple(next_steps(report, is_gpu=gpu is not None)))


def next_steps(report: "DataReport", is_gpu: bool = False) -> Iterator[Step]:
    """Yield what to run with these files, in order."""
    texts = [file for file in report.files if not file.labels]
    labelled = [file for file in report.files if file.labels]
    num_labels = sum(max(f.rows - f.skipped, 0) for f in labelled[:1])
    num_words = sum(
        round(file.units / (TOKENS_PER_WORD if file.unit == "tokens" else 1)) for file in texts
    )
    if not labelled:
        yield from _without_labels(texts, num_words)
        return
    train = f"--train {shlex.quote(labelled[0].file)}"
    unlabelled = " ".join(shlex.quote(file.file) for file in texts)
    names = list(labelled[0].labels or ())
    if len(names) == 1:
        yield Step(
            "", f"label other texts first: all have the label '{names[0]}', and two are needed"
        )
        return
    if num_labels < FEW_LABELS:
        yield Step("", f"label more texts first: {num_labels} are too few to compare anything with")
        return
    if texts:
        yield Step(
            f"compare --unlabelled {unlabelled} {train} -o first",
            "about a minute: what simple methods give on these labels (tf-idf, lsa)",
        )
    yield from _backbone(unlabelled, num_words, train, is_gpu)


def _without_labels(texts: Sequence["FileReport"], num_words: int) -> Iterator[Step]:
    names = " ".join(shlex.quote(file.file) for file in texts)
    if num_words < LITTLE_TEXT:
        yield Step(f"import {PUBLIC_MODEL} -o runs/public", _say_little_text(num_words))
    else:
        yield Step(f"pretrain {names} -o runs/base", "ten minutes by default")
    yield Step("", "then label a hundred texts: a table with the columns label and text")


def _backbone(unlabelled: str, num_words: int, train: str, is_gpu: bool) -> Iterator[Step]:
    """Yield how to get a backbone, and what to compare it with."""
    if num_words < LITTLE_TEXT:
        yield Step(f"import {PUBLIC_MODEL} -o runs/public", _say_little_text(num_words))
        yield Step(f"compare --from runs/public {train} -o comparison", "what it adds")
        return
    purpose = "ten minutes by default"
    if not is_gpu:
        purpose += (
            "; on a CPU expect lsa to stay ahead with few labels, and pretrain on a GPU if you can"
        )
    yield Step(f"pretrain {unlabelled} -o runs/base", purpose)
    yield Step(f"compare --from runs/base {train} -o comparison", "what the pretraining buys")


def little_text_advice(num_tokens: int) -> str | None:
    """Return what to do instead of pretraining on so few tokens; None: they are enough."""
    num_words = round(num_tokens / TOKENS_PER_WORD, -3)
    if num_words >= LITTLE_TEXT:
        return None
    return (
        f"about {num_words:,.0f} words of {LITTLE_TEXT_ADVICE}, as with `warmstart import "
        f"{PUBLIC_MODEL} -o runs/public`, then compare --from runs/public"
    )


def few_tokens_advice(num_tokens: int) -> str | None:
    """Return what to expect of a pretraining that reads so many tokens; None: enough."""
    return None if num_tokens >= FEW_TOKENS else f"{num_tokens:,} tokens: {FEW_TOKENS_ADVICE}"


def _say_little_text(num_words: int) -> str:
    have = f"{num_words:,} words of" if num_words else "no unlabelled"
    return f"{have} {LITTLE_TEXT_ADVICE}"


def _describe(file: "FileReport") -> str:
    words = f"{file.units:,} {file.unit}"
    if not file.labels:
        return f"{file.file}: {quantity(file.rows, 'text')} without labels, {words}"
    return (
        f"{file.file}: {quantity(sum(file.labels.values()), 'labelled text')} of "
        f"{len(file.labels):,} class{'' if len(file.labels) == 1 else 'es'}, {words}"
    )


def _sample(config: StartConfig) -> list[str]:
    """Return the first texts of every file."""
    texts: list[str] = []
    for path in expand(config.files, config.allow_private_urls):
        reader = FileReader(Path(path), config, None)
        rows = (row for passage in reader.passages() for row in passage.rows)
        texts += islice(rows, SAMPLE)
    return texts


def guess_language(texts: Sequence[str]) -> str | None:
    """Return the likeliest language of texts by script and common words; None: none likely."""
    text = " ".join(texts).lower()
    letters = len(re.findall(r"[^\W\d_]", text))
    scripts = {name: len(re.findall(pattern, text)) for name, pattern in SCRIPTS.items()}
    if scripts["Japanese"] > 0.1 * letters > 0:
        return "Japanese"  # which uses Chinese characters, too
    script = max(scripts, key=lambda name: scripts[name])
    if scripts[script] > 0.3 * letters > 0:
        return script
    return _by_common_words(Counter(re.findall(r"[^\W\d_]+", text)))


def _by_common_words(counts: Mapping[str, int]) -> str | None:
    total = sum(counts.values())
    shares = {
        language: sum(counts.get(word, 0) for word in words.split()) / max(total, 1)
        for language, words in COMMON_WORDS.items()
    }
    best = max(shares, key=lambda language: shares[language])
    return best if shares[best] > 0.05 else None
