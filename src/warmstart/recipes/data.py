"""Look at files before training on them: lengths, balance, repeats, leaks.

Streams; keeps a length and a fingerprint of each text, never the texts.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.data.corpus import Tally, expand, read_passages
from warmstart.data.labelled import join_pair, read_labelled
from warmstart.data.overlap import Shared, count_repeats, find_shared, fingerprint
from warmstart.errors import WarmstartError
from warmstart.runs.lineage import unrecorded_words
from warmstart.runs.saved import read_source
from warmstart.settings.training import DataConfig
from warmstart.textfiles import format_of
from warmstart.tokenization.pieces import join_pieces
from warmstart.tokenization.tokenizer import Tokenizer, load_tokenizer

CHUNK = 1000  # texts encoded together


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """What one file holds."""

    file: str
    rows: int
    skipped: int  # empty rows
    repeats: int  # rows whose text stood there before
    unit: str  # what lengths are counted in
    shortest: int
    median: float
    long: float  # 95% are no longer
    longest: int
    units: int  # in all
    truncated: int | None  # longer than --max-length
    unknown: float | None  # share of tokens the tokenizer does not know
    labels: dict[str, int] | None


@dataclass(frozen=True, kw_only=True)
class SeenReport:
    """Texts of one file that a run has already seen."""

    file: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class DataReport:
    """What files hold, and what they have in common."""

    files: tuple[FileReport, ...]
    shared: tuple[Shared, ...]
    against: tuple[SeenReport, ...]
    run: str | None


def report_data(config: DataConfig) -> DataReport:
    """Report rows, lengths, labels, repeats, and texts shared between files."""
    files = expand(config.files)
    if config.labels and len(config.labels) != len(files):
        raise WarmstartError(
            f"--labels was given {len(config.labels)} times for {len(files)} text files"
        )
    tokenizer = load_tokenizer(Path(config.tokenizer)) if config.tokenizer else None
    run = read_source(config.against) if config.against else None
    if run and run.has_unrecorded_texts:
        progress.say(unrecorded_words(str(run.path)))
    seen = run.texts_seen() if run else None
    reports, codes = [], {}
    for index, path in enumerate(files):
        labels = Path(config.labels[index]) if config.labels else None
        report, codes[str(path)] = _read(config, path, labels, tokenizer)
        reports.append(report)
    against = (
        [SeenReport(file=name, rows=int(seen.contain(rows).sum())) for name, rows in codes.items()]
        if seen is not None
        else []
    )
    return DataReport(
        files=tuple(reports),
        shared=tuple(find_shared(codes)),
        against=tuple(against),
        run=config.against,
    )


def _read(
    config: DataConfig, path: Path, labels: Path | None, tokenizer: Tokenizer | None
) -> tuple[FileReport, NDArray[np.uint64]]:
    counts: Counter[str] = Counter()
    tally = Tally()
    codes, lengths, unknown = [], [], 0
    with progress.bar(f"reading {path.name}", None, "row") as bar:
        for chunk in _chunks(_texts(config, path, labels, counts, tally)):
            codes += [fingerprint(join_pieces(t) if config.pieces else t) for t in chunk]
            bar.advance(len(chunk))
            if not tokenizer:
                lengths += [len(text.split()) for text in chunk]
                continue
            is_joined = config.pieces and tokenizer.kind != "pieces"
            encoded = tokenizer.encode([join_pieces(t) for t in chunk] if is_joined else chunk)
            lengths += [len(ids) for ids in encoded]
            unknown += sum(ids.count(tokenizer.unk) for ids in encoded if tokenizer.unk is not None)
    sizes, found = np.array(lengths), np.array(codes, np.uint64)
    room = config.max_length - 2 if config.max_length and tokenizer else config.max_length
    report = FileReport(
        file=str(path),
        rows=tally.rows or len(found),
        skipped=tally.skipped,
        repeats=count_repeats(found),
        unit="tokens" if tokenizer else "words",
        shortest=int(sizes.min()),
        median=float(np.median(sizes)),
        long=float(np.quantile(sizes, 0.95)),
        longest=int(sizes.max()),
        units=int(sizes.sum()),
        truncated=int((sizes > room).sum()) if room else None,
        unknown=unknown / max(1, int(sizes.sum())) if tokenizer else None,
        labels=dict(sorted(counts.items())) or None,
    )
    return report, found


def _texts(
    config: DataConfig, path: Path, labels: Path | None, counts: "Counter[str]", tally: Tally
) -> Iterator[str]:
    """Yield the texts of a file; labels, where it has them, are counted on the way."""
    if labels or _has_labels(config, path):
        data = read_labelled(path, config.columns, labels)
        counts.update(data.labels)
        yield from map(join_pair, data.texts, data.seconds or [None] * len(data))
    else:
        columns = config.columns or ("text",)
        for passage in read_passages(path, columns=columns, tally=tally):
            yield from passage.rows


def _has_labels(config: DataConfig, path: Path) -> bool:
    if format_of(path) == "lines":
        return False
    if config.columns:
        return any(column.split("=")[0] == "label" for column in config.columns)
    try:
        read_labelled(path)
    except WarmstartError:
        try:
            next(read_passages(path))
        except (WarmstartError, StopIteration):
            return True  # neither form fits: let reading it as labelled say what is wrong
        return False
    return True


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
