"""`data`: report what files contain before training on them."""

from pathlib import Path

from warmstart import progress
from warmstart.data.file_report import FileReader, report_file
from warmstart.data.overlap import find_shared
from warmstart.errors import WarmstartError
from warmstart.results.data import DataReport, SeenTexts
from warmstart.runs.lineage import describe_unrecorded
from warmstart.runs.saved import read_run
from warmstart.settings.starting import DataConfig
from warmstart.textfiles import expand
from warmstart.tokenization.loading import load_tokenizer


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
    seen = run.texts_seen() if run else None
    reports, fingerprints = [], {}
    for index, path in enumerate(files):
        labels = Path(config.labels[index]) if config.labels else None
        reader = FileReader(path, config, labels)
        report, codes = report_file(reader, tokenizer, config.max_length, config.pieces)
        reports.append(report)
        fingerprints[str(path)] = codes
    against = [
        SeenTexts(file=file, rows=int(seen.contain(codes).sum()))
        for file, codes in fingerprints.items()
        if seen is not None
    ]
    return DataReport(
        files=tuple(reports),
        shared=tuple(find_shared(fingerprints)),
        against=tuple(against),
        run=config.against,
    )
