"""`data`, `samples`, `tokenizer`: report on files, write the built-in ones, train a tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from warmstart import progress
from warmstart.data.copies import (
    DataReport,
    NamedTexts,
    SharedTexts,
    describe_shared,
    find_matches,
    find_shared,
)
from warmstart.data.corpus import source_of
from warmstart.data.file_report import FileReader, Reading, read_row, report_file
from warmstart.data.prepare import sample_tokenizer
from warmstart.errors import WarmstartError
from warmstart.files import new_folder
from warmstart.recipes.drift import find_drift
from warmstart.report.html import Shown, table
from warmstart.runs.saved import describe_unrecorded, read_run
from warmstart.samples.questions import write_questions
from warmstart.samples.ratings import write_ratings
from warmstart.samples.samples import write_samples
from warmstart.samples.tagged import write_tagged
from warmstart.settings.using import DataConfig, SamplesConfig, TokenizerConfig
from warmstart.textfiles import expand, format_of
from warmstart.tokenization.backends import load_tokenizer


def report_data(config: DataConfig) -> DataReport:
    """Report rows, lengths, labels, repeats, and texts that files share."""
    files = expand(config.files, config.allow_private_urls)
    if config.labels and len(config.labels) != len(files):
        raise WarmstartError(
            f"--labels was given {len(config.labels)} times for {len(files)} text files"
        )
    tokenizer = load_tokenizer(Path(config.tokenizer)) if config.tokenizer else None
    run = read_run(config.against) if config.against else None
    if run and run.has_unrecorded_texts:
        progress.say(describe_unrecorded(str(run.path)))
    reading = Reading(tokenizer, config.max_length, config.pieces)
    reports, named, readers = [], [], []
    for index, path in enumerate(files):
        labels = Path(config.labels[index]) if config.labels else None
        reader = FileReader(path, config, labels, may_lack_labels=len(files) > 1)
        if description := reader.describe():
            progress.say(description)
        report, fingerprints = report_file(reader, reading)
        reports.append(report)
        readers.append(reader)
        named.append(NamedTexts(str(path), fingerprints, partial(read_row, reader)))
    _check_named_label(config, readers)
    against = (
        _find_seen_texts(NamedTexts(str(config.against), run.texts_seen()), named) if run else []
    )
    return DataReport(
        files=tuple(reports),
        shared=tuple(find_shared(named)),
        against=tuple(against),
        run=config.against,
        drift=find_drift(run, readers, config) if run else (),
    )


def _check_named_label(config: DataConfig, readers: Sequence[FileReader]) -> None:
    """Refuse a label that --columns names if no file has a column of that name."""
    wants_label = any(column.split("=")[0].strip() == "label" for column in config.columns)
    if wants_label and not any(reader.labelled.labels for reader in readers):
        tables = [reader for reader in readers if format_of(reader.path) != "lines"]
        for reader in tables[:1]:
            replace(reader, may_lack_labels=False).describe()  # which says what is there


def _find_seen_texts(seen: NamedTexts, files: Sequence[NamedTexts]) -> list[SharedTexts]:
    return [
        describe_shared(seen, file, find_matches(file.fingerprints, seen.fingerprints))
        for file in files
    ]


@dataclass(frozen=True)
class SamplesResult(Shown):
    """The files that were written, and what is attainable on them."""

    folder: Path
    num_lines: dict[str, int]  # of each file
    attainable: float  # test accuracy of a classifier that understands every text

    def pieces(self) -> list[str]:
        rows = [(name, f"{count:,}") for name, count in self.num_lines.items()]
        return [table((f"files in {self.folder}", "lines"), rows)]


def make_samples(config: SamplesConfig) -> SamplesResult:
    """Write the built-in reviews, labels, tags, questions, ratings and sentence pairs as files."""
    folder = Path(config.out)
    with new_folder(folder) as temporary:
        files = write_samples(temporary, config.seed, config.language)
        write_tagged(temporary, config.seed)
        write_questions(temporary, config.seed)
        write_ratings(temporary, config.seed, config.language)
    num_lines = {path.name: _num_lines(path) for path in sorted(folder.iterdir())}
    return SamplesResult(folder, num_lines, files.attainable)


def _num_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


@dataclass(frozen=True)
class TokenizerResult:
    """The tokenizer that was written."""

    folder: Path
    vocab_size: int
    examples: tuple[str, ...]  # pieces of the first text


def make_tokenizer(config: TokenizerConfig) -> TokenizerResult:
    """Train a tokenizer on a bounded sample of text and write it to a folder."""
    folder = Path(config.out)
    with new_folder(folder) as temporary:
        source = source_of(config.files, config.document, config, config.allow_private_urls)
        tokenizer = sample_tokenizer(source, config.kind, config.vocab_size, config.sample_mb)
        tokenizer.save(temporary)
    first = next(source.passages()).rows[0][:80]
    pieces = tokenizer.pieces(tokenizer.encode([first])[0])
    return TokenizerResult(folder, tokenizer.vocab_size, tuple(pieces))
