"""What to run with the files and the machine at hand, and why.

The figures behind the advice are in docs/results.md, "What pays on which machine".
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from warmstart.data.file_report import FileReader
from warmstart.data.lengths import count_words
from warmstart.data.questions import questions_form
from warmstart.data.splits import describe_similar, list_labels
from warmstart.formats import MOST_CHOICES, list_choices, quantity, shell_line
from warmstart.report.html import Shown
from warmstart.settings.shared import LabelledColumns, TableFormat
from warmstart.settings.training import DEFAULT_MINUTES
from warmstart.settings.using import DataConfig, StartConfig
from warmstart.textfiles import expand

if TYPE_CHECKING:
    from warmstart.data.copies import DataReport, FileReport

LITTLE_TEXT = 1_000_000  # words; a backbone pretrained on fewer was worse than a public one
TOKENS_PER_WORD = 4  # at most, where a tokenizer was trained on the text
FEW_TO_SCORE = 1_000  # labels of which a fifth is too small to tell simple methods apart
FEW_LABELS = 20  # too few to compare anything with
ENGLISH_MODEL = "hf:sentence-transformers/all-MiniLM-L6-v2"  # 22M parameters
# 50 languages, those below among them; 118M parameters, most of them its vocabulary
MULTILINGUAL_MODEL = "hf:sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
SAMPLE = 200  # texts that the language is guessed from
FEW_TOKENS = 200_000_000  # read in a pretraining: lsa leads after 100 million, trails after 200
FEW_TOKENS_ADVICE = (
    "expect lsa of the same text, which takes a minute, to stay ahead with few labels. On film "
    "reviews, 100 labels, it has 87.3%; a Transformer had 81.1% after 25 million tokens, 84.4% "
    "after 100, 90.4% after 500 (with 1,000 labels, in the same order). What can beat it: a GPU, "
    "which reads that many in minutes, or a public model (warmstart import)"
)
CPU_ADVICE = (
    "on a CPU expect lsa to stay ahead with few labels: a Transformer passed it after some "
    "hundreds of millions of tokens, which takes a GPU"
)
LITTLE_TEXT_ADVICE = (
    "text to pretrain on, but pretraining of one's own begins to pay at a million words: start "
    "from a public model"
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

    command: str  # without `warmstart`; in Python a call of one of its functions
    purpose: str

    @property
    def line(self) -> str:
        """Return what to type."""
        is_call = not self.command or self.command.startswith("warmstart.")
        return self.command if is_call else f"warmstart {self.command}"


@dataclass(frozen=True)
class StartResult(Shown):
    """What there is, and what to do with it."""

    findings: tuple[str, ...]
    steps: tuple[Step, ...]

    def lines(self) -> Iterator[str]:
        """Yield the findings, then each step with what to type."""
        yield from self.findings
        for number, step in enumerate(self.steps, 1):
            yield f"{number}. {step.purpose}"
            if step.command:
                yield f"   {step.line}"

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def pieces(self) -> list[str]:
        return [Markup("<pre>{}</pre>").format(self)]

    def in_python(
        self, translate: Callable[[str], str], call: Callable[[str], str]
    ) -> "StartResult":
        """Return the steps as calls."""
        steps = (Step(s.command and call(s.command), translate(s.purpose)) for s in self.steps)
        return StartResult(tuple(map(translate, self.findings)), tuple(steps))


def start(config: StartConfig) -> StartResult:
    """Read what there is and say what to run."""
    from warmstart.recipes.prepare_files import report_data
    from warmstart.runtime import describe_gpu, num_threads

    report = report_data(DataConfig.from_values(config.recorded()))
    gpu = describe_gpu()
    language = guess_language(sample_texts(config))
    findings = (
        *(_describe(file) for file in report.files),
        f"language: {language or 'not recognised'}",
        f"machine: {gpu or quantity(num_threads(), 'CPU core') + ', no GPU'}",
    )
    steps = next_steps(report, config, public_model(language), is_gpu=gpu is not None)
    return StartResult(findings, tuple(steps))


def next_steps(
    report: "DataReport", columns: LabelledColumns, public: str, is_gpu: bool = False
) -> Iterator[Step]:
    """Yield what to run with these files, whose columns were named so, in order."""
    texts = [file for file in report.files if not file.num_labelled]
    labelled = [file for file in report.files if file.num_labelled]
    files = _Files(texts, sum(file.words for file in texts), columns, public)
    if not labelled:
        yield from _without_labels(files)
        return
    first = labelled[0]
    if problem := _find_problem(first):
        yield Step("", problem)
        return
    if first.num_labelled < FEW_LABELS:
        yield from _with_few_labels(files, first)
        return
    train = files.train(first)
    rare = _rare_classes(first)
    if rare:
        yield Step("", f"correct these labels or leave them out, they have one text each: {rare}")
    if texts:
        is_crossed = first.num_labelled < FEW_TO_SCORE and not rare
        folds = " --folds 5" if is_crossed else ""
        yield Step(
            f"compare --unlabelled {files.names} {train}{folds} -o first",
            "about a minute: what simple methods give on these labels (tf-idf, lsa)",
        )
    yield from _backbone(files, train, is_gpu)
    if _has_one_label_each(first) and not questions_form(Path(first.file)):
        yield Step(f"review {train} -o suspects.csv", "about a minute: labels that look wrong")
    yield from _name_label(files, report.files)


@dataclass(frozen=True)
class _Files:
    """Files of texts without labels, how the columns of all tables were named, a public model."""

    texts: Sequence["FileReport"]
    num_words: int
    columns: LabelledColumns
    public: str

    @property
    def is_little(self) -> bool:
        return self.num_words < LITTLE_TEXT

    @property
    def names(self) -> str:
        return shell_line([file.file for file in self.texts])

    def flags(self, declared_by: type[LabelledColumns] | type[TableFormat]) -> str:
        """Return the flags that a command needs to read the tables in the same way."""
        words = self.columns.flags(declared_by)
        return f" {shell_line(words)}" if words else ""

    def train(self, labelled: "FileReport") -> str:
        words = ["--train", labelled.file]
        if labelled.labels_file:
            words += ["--train-labels", labelled.labels_file]
        return shell_line(words) + self.flags(LabelledColumns)


def _without_labels(files: _Files) -> Iterator[Step]:
    yield from _name_label(files, files.texts)
    if any(file.unclear_label for file in files.texts):
        yield Step("", "if no column holds labels yet, choose texts to label:")
    yield from _backbone_of(files)
    yield from _suggest(files, "a minute or more: which texts to label first")


def _name_label(files: _Files, everything: Sequence["FileReport"]) -> Iterator[Step]:
    """Yield how to name the column of labels of the first table where it is not clear."""
    for file in [file for file in files.texts if file.unclear_label][:1]:
        unclear = file.unclear_label
        assert unclear
        names = shell_line([each.file for each in everything])
        for column, flag in zip(unclear.columns[:MOST_CHOICES], unclear.flags, strict=False):
            others = [name for name in unclear.columns if name != column]
            doubt = f" (it may be {list_choices(others)}, too)" if others else ""
            yield Step(
                f"start {names} {flag}{files.flags(LabelledColumns)}",
                f"if {column!r} is the label of {file.file}{doubt}: then other steps follow",
            )


def _with_few_labels(files: _Files, labelled: "FileReport") -> Iterator[Step]:
    few = f"label more texts first: {labelled.num_labelled} are too few to compare anything with"
    if not files.texts:
        yield Step("", f"{few}; give a file of texts without labels too, to choose from")
        return
    yield from _backbone_of(files)
    yield from _suggest(files, few, f" --labelled {shell_line([labelled.file])}")


def _backbone_of(files: _Files) -> Iterator[Step]:
    if files.is_little:
        yield Step(f"import {files.public} -o runs/public", _say_little_text(files.num_words))
    else:
        flags = files.flags(TableFormat)
        yield Step(f"pretrain {files.names}{flags} -o runs/base", "ten minutes by default")


def _suggest(files: _Files, purpose: str, already: str = "") -> Iterator[Step]:
    """Yield how to choose texts to label, and how to label them."""
    run = "runs/public" if files.is_little else "runs/base"
    first = min(files.texts, key=lambda file: file.unclear_label is not None)
    texts = f"{shell_line([first.file])} --num 100{already}{files.flags(LabelledColumns)}"
    yield Step(f"suggest {run} {texts} -o to-label.csv", purpose)
    yield Step(
        f"serve {run} --label to-label.csv{files.flags(TableFormat)}",
        "label them in the browser, one key a label, or fill in the column label yourself",
    )


def _find_problem(file: "FileReport") -> str | None:
    """Say why nothing can be learned from labels; None: something can."""
    counts = file.labels or {}
    if len(counts) == 1:
        return (
            f"the texts of {file.file} all have the label {next(iter(counts))!r}: add others, "
            "or name another column with --columns text=NAME,label=NAME"
        )
    if len(counts) > 1 and max(counts.values()) == 1:
        return (
            f"no label of {file.file} occurs twice: label more texts of each class, or name "
            "another column with --columns text=NAME,label=NAME"
        )
    return None


def _rare_classes(file: "FileReport") -> str:
    """Name the classes of one text; in each half of the labels one of them would be missing."""
    if not _has_one_label_each(file):
        return ""
    counts = file.labels or {}
    rare = [label for label, count in counts.items() if count == 1]
    similar = describe_similar(counts) if rare else []
    return "; ".join([list_labels(rare), *similar]) if rare else ""


def _has_one_label_each(file: "FileReport") -> bool:
    return file.labels is not None and sum(file.labels.values()) == file.num_labelled


def _backbone(files: _Files, train: str, is_gpu: bool) -> Iterator[Step]:
    """Yield how to get a backbone, and what to compare it with."""
    if files.is_little:
        yield Step(f"import {files.public} -o runs/public", _say_little_text(files.num_words))
        texts = f" --unlabelled {files.names}" if files.texts else ""
        limit = "" if is_gpu else f" --minutes {DEFAULT_MINUTES}"
        yield Step(
            f"compare --from runs/public{texts} {train}{limit} -o comparison",
            "minutes: what it adds" if is_gpu else f"{DEFAULT_MINUTES} minutes: what it adds",
        )
        return
    purpose = "ten minutes by default"
    if not is_gpu:
        purpose += f"; {CPU_ADVICE}"
    yield Step(f"pretrain {files.names}{files.flags(TableFormat)} -o runs/base", purpose)
    yield Step(
        f"compare --from runs/base {train} -o comparison", "minutes: what the pretraining buys"
    )


def little_text_advice(num_tokens: int, texts: Iterable[str]) -> str | None:
    """Return what to do instead of pretraining on so few tokens; None: they are enough."""
    if num_tokens >= TOKENS_PER_WORD * LITTLE_TEXT:
        return None
    num_words, first = _count_words(texts)
    return None if num_words >= LITTLE_TEXT else _advise_public_model(num_words, first)


def archive_advice(texts: Iterable[str], files: str) -> str:
    """Return what may do better than simple methods on these texts."""
    num_words, first = _count_words(texts)
    if num_words >= LITTLE_TEXT:
        return (
            f"A pretrained Transformer may do better; {CPU_ADVICE}. {DEFAULT_MINUTES} minutes "
            f"by default: `warmstart pretrain {files} -o runs/base`, then `compare --from "
            f"runs/base`; `warmstart plan pretrain {files}` says what it costs on a GPU."
        )
    return _advise_public_model(num_words, first)


def _count_words(texts: Iterable[str]) -> tuple[int, list[str]]:
    """Return the number of words, or that they are no little text, and the first texts."""
    num_words, first = 0, list[str]()
    for text in texts:
        num_words += count_words(text)
        first += [text] * (len(first) < SAMPLE)
        if num_words >= LITTLE_TEXT:
            break
    return num_words, first


def _advise_public_model(num_words: int, texts: Sequence[str]) -> str:
    name = public_model(guess_language(texts))
    return (
        f"about {num_words:,.0f} words of {LITTLE_TEXT_ADVICE}, as with `warmstart import {name} "
        "-o runs/public`, then `compare --from runs/public`"
    )


def public_model(language: str | None) -> str:
    """Return a small public model that reads a language; None: one that was not recognised."""
    return ENGLISH_MODEL if language == "English" else MULTILINGUAL_MODEL


def few_tokens_advice(num_tokens: int) -> str | None:
    """Return what to expect of a pretraining that reads so many tokens; None: enough."""
    return None if num_tokens >= FEW_TOKENS else f"{num_tokens:,} tokens: {FEW_TOKENS_ADVICE}"


def _say_little_text(num_words: int) -> str:
    have = f"about {num_words:,} words of" if num_words else "no unlabelled"
    return f"{have} {LITTLE_TEXT_ADVICE}"


def _describe(file: "FileReport") -> str:
    words = f"{file.units:,} {file.unit}"
    if file.numbers:
        labelled = quantity(file.num_labelled, "text")
        return f"{file.file}: {labelled} with numbers from {file.numbers}, {words}"
    if not file.labels:
        unclear = ""
        if file.unclear_label:
            unclear = f" (or the label is {list_choices(file.unclear_label.columns)})"
        return f"{file.file}: {quantity(file.rows, 'text')} without labels{unclear}, {words}"
    labelled, num_classes = quantity(file.num_labelled, "labelled text"), len(file.labels)
    if not _has_one_label_each(file):
        num_labels = quantity(sum(file.labels.values()), "label")
        kinds = quantity(num_classes, "kind")
        return f"{file.file}: {labelled} with {num_labels} of {kinds}, {words}"
    classes = "1 class" if num_classes == 1 else f"{num_classes:,} classes"
    others = f", {file.unlabelled:,} without a label" if file.unlabelled else ""
    others += f", {file.skipped:,} without text" if file.skipped else ""
    clash = quantity(len(file.contradictions), "text")
    clashes = f", {clash} with different labels" if file.contradictions else ""
    return f"{file.file}: {labelled} of {classes}{others}{clashes}, {words}"


def sample_texts(config: DataConfig | StartConfig) -> list[str]:
    """Return the first texts of every file."""
    texts: list[str] = []
    for path in expand(config.files, config.allow_private_urls):
        reader = FileReader(Path(path), config, None, may_lack_labels=True)
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
