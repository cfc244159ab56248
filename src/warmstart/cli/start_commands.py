"""Commands to begin with: call the recipe, print the result."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.cli.options import Command
from warmstart.cli.printing import print_comparison, print_json, print_table, quoted, say, say_next
from warmstart.errors import WarmstartError
from warmstart.files import distinct_names
from warmstart.formats import counted
from warmstart.settings.starting import (
    DataConfig,
    DemoConfig,
    DoctorConfig,
    SamplesConfig,
    TokenizerConfig,
)

if TYPE_CHECKING:
    from warmstart.results.data_report import DataReport, SharedTexts


def demo(config: DemoConfig) -> None:
    """Run every step on built-in data and write one report."""
    from warmstart.recipes.demo import demo as run

    result = run(config)
    print_comparison(result.comparison.comparison, result.comparison.summary)
    say_next(f"{result.report}: open it in a browser", "pretrain your-text.txt -o runs/base")


def samples(config: SamplesConfig) -> None:
    """Write the built-in texts as files: reviews, labels, sentence pairs."""
    from warmstart.recipes.samples import make_samples

    result = make_samples(config)
    print_table(["file", "lines"], [[k, f"{v:,}"] for k, v in result.num_lines.items()])
    say(f"a reader who understands every text scores {result.attainable:.1%} on test.tsv")
    texts = quoted(result.folder / "unlabelled.txt")
    say_next(result.folder, f"pretrain {texts} -o runs/base --minutes 2")


def doctor(config: DoctorConfig, as_json: bool) -> None:
    """Check the installation and the machine, and prove with a short training that they work."""
    from warmstart.recipes.doctor import doctor as run

    result = run(config)
    if as_json:
        print_json([asdict(finding) for finding in result.findings])
    else:
        for finding in result.findings:
            say(f"{finding.status:<8} {finding.name:<16} {finding.detail}")
    if result.problems:
        names = ", ".join(dict.fromkeys(finding.name for finding in result.problems))
        raise WarmstartError(f"this installation is not ready to train: see {names}")


def data(config: DataConfig, as_json: bool) -> None:
    """Report on files before training: lengths, labels, repeats, shared texts."""
    from warmstart.recipes.data import report_data

    report = report_data(config)
    if as_json:
        print_json(asdict(report))
        return
    _print_files(report)
    for line in _data_sentences(report):
        say(line)


def _print_files(report: "DataReport") -> None:
    """Print the rows of every file, then their lengths: one table would be too wide to read."""
    files = report.files
    names = distinct_names([Path(file.file) for file in files])
    rows = {
        "rows": [file.rows for file in files],
        "empty": [file.skipped for file in files],
        "repeats": [file.repeats for file in files],
        "near-copies": [file.near_repeats for file in files],
    }
    lengths = {
        "shortest": [file.shortest for file in files],
        "median": [file.median for file in files],
        "95%": [file.long for file in files],
        "longest": [file.longest for file in files],
    }
    if any(file.truncated is not None for file in files):
        lengths["cut"] = [file.truncated or 0 for file in files]
    for columns, title in ((rows, ""), (lengths, f"lengths in {files[0].unit}")):
        cells = ([f"{cell:,.0f}" for cell in row] for row in zip(*columns.values(), strict=True))
        print_table(
            ["file", *columns], [[n, *row] for n, row in zip(names, cells, strict=True)], title
        )


def _data_sentences(report: "DataReport") -> Iterator[str]:
    from warmstart.data.splits import describe_similar

    rows = {file.file: file.rows for file in report.files}
    for file in report.files:
        if file.unknown is not None:
            yield f"{file.file}: {file.unknown:.2%} of the tokens are unknown"
        if file.labels:
            total = sum(file.labels.values())
            shares = (f"{k} {v:,} ({v / total:.0%})" for k, v in file.labels.items())
            yield f"{file.file}: labels {', '.join(shares)}"
            yield from (f"{file.file}: {note}" for note in describe_similar(file.labels))
    if report.shared and not any(pair.rows or pair.near for pair in report.shared):
        yield "no text occurs in two of these files"
    for pair in report.shared:
        if pair.rows or pair.near:
            yield from _shared_sentences(pair, rows[pair.b], pair.a)
    for pair in report.against:
        yield from _shared_sentences(pair, rows[pair.b], f"the training data of {report.run}")


def _shared_sentences(pair: "SharedTexts", num_rows: int, other: str) -> Iterator[str]:
    of_rows = f"of {num_rows:,} rows in {pair.b}"
    texts = counted(pair.distinct, "different text")
    example = f": {pair.copy!r}" if pair.copy else ""
    yield f"{pair.rows:,} {of_rows} also occur in {other} ({texts}){example}"
    if pair.near_copy:
        original = pair.near_copy.original
        beside = "" if original is None else f" is nearly {original!r}"
        yield f"{pair.near:,} more {of_rows} are near-copies: {pair.near_copy.text!r}{beside}"


def tokenizer(config: TokenizerConfig) -> None:
    """Train a tokenizer on a sample of text."""
    from warmstart.recipes.make_tokenizer import make_tokenizer

    result = make_tokenizer(config)
    say(f"{result.vocab_size:,} entries; for example {' '.join(result.examples)}")
    files, folder = " ".join(map(quoted, config.files)), quoted(result.folder)
    say_next(result.folder, f"pretrain {files} --tokenizer {folder} -o runs/base")


COMMANDS = (
    Command("demo", demo, "-o demo"),
    Command("samples", samples, "-o samples --language french"),
    Command("doctor", doctor, "--device cuda"),
    Command("data", data, "train.tsv valid.tsv --columns label,text --against runs/base"),
    Command("tokenizer", tokenizer, "reviews.txt -o tokenizer --kind bpe --vocab-size 8000"),
)
