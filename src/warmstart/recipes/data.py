"""`data`: report what files contain before training on them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from warmstart import progress
from warmstart.data.file_report import FileReader, Reading, read_row, report_file
from warmstart.data.overlap import NamedTexts, describe_shared, find_matches, find_shared
from warmstart.errors import WarmstartError
from warmstart.results.data_report import DataReport, SharedTexts
from warmstart.runs.lineage import describe_unrecorded
from warmstart.runs.saved import read_run
from warmstart.settings.starting import DataConfig
from warmstart.textfiles import expand
from warmstart.tokenization.load_tokenizer import load_tokenizer


def report_data(config: DataConfig) -> DataReport:
    """Report rows, lengths, labels, repeats, and texts that files share."""
    files = expand(config.files)
    if config.labels and len(config.labels) != len(files):
        raise WarmstartError(
            f"--labels was given {len(config.labels)} times for {len(files)} text files"
        )
    tokenizer = load_tokenizer(Path(config.tokenizer)) if config.tokenizer else None
    run = read_run(config.against) if config.against else None
    if run and run.has_unrecorded_texts:
        progress.say(describe_unrecorded(str(run.path)))
    reading = Reading(tokenizer, config.max_length, config.pieces)
    reports, named = [], []
    for index, path in enumerate(files):
        labels = Path(config.labels[index]) if config.labels else None
        reader = FileReader(path, config, labels)
        if description := reader.describe():
            progress.say(description)
        report, fingerprints = report_file(reader, reading)
        reports.append(report)
        named.append(NamedTexts(str(path), fingerprints, partial(read_row, reader)))
    against = _seen_texts(NamedTexts(str(config.against), run.texts_seen()), named) if run else []
    return DataReport(
        files=tuple(reports),
        shared=tuple(find_shared(named)),
        against=tuple(against),
        run=config.against,
    )


def _seen_texts(seen: NamedTexts, files: Sequence[NamedTexts]) -> list[SharedTexts]:
    return [
        describe_shared(seen, file, find_matches(file.fingerprints, seen.fingerprints))
        for file in files
    ]
