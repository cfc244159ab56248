"""Report the rows, lengths, labels and repeats of one file.

Keeps a length and a fingerprint of each text, never the texts.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from warmstart import progress
from warmstart.data.chunks import chunked
from warmstart.data.corpus import RowCounts, read_passages
from warmstart.data.labelled import join_pair, read_labelled
from warmstart.data.overlap import Codes, count_repeats, fingerprint
from warmstart.data.tables import open_table
from warmstart.errors import WarmstartError
from warmstart.results.data import FileReport
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import format_of
from warmstart.tokenization.pieces import join_pieces
from warmstart.tokenization.tokenizer import Tokenizer

CHUNK = 1000  # texts encoded together


@dataclass
class FileReader:
    """The texts of one file, with counts of its rows and labels as far as they are read."""

    path: Path
    tables: TableFormat
    labels: Path | None
    counts: RowCounts = field(default_factory=RowCounts)
    label_counts: Counter[str] = field(default_factory=Counter)

    def texts(self) -> Iterator[str]:
        if self.labels or self._has_labels():
            data = read_labelled(self.path, self.tables, self.labels)
            self.label_counts.update(data.labels)
            self.counts = RowCounts(len(data) + data.skipped, data.skipped)
            yield from map(join_pair, data.texts, data.seconds or [None] * len(data))
        else:
            for passage in read_passages(self.path, tables=self.tables, counts=self.counts):
                yield from passage.rows

    def _has_labels(self) -> bool:
        if format_of(self.path) == "lines":
            return False
        if self.tables.columns:
            return any(column.split("=")[0] == "label" for column in self.tables.columns)
        try:
            open_table(self.path, self.tables, ("text", "label"))
        except WarmstartError:
            try:
                open_table(self.path, self.tables)
            except WarmstartError:
                return True  # neither form fits, and reading it as labelled gives the reason
            return False
        return True


def report_file(
    reader: FileReader, tokenizer: Tokenizer | None, max_length: int | None, is_split: bool
) -> tuple[FileReport, Codes]:
    """Return the report on a file and the fingerprints of its texts.

    `is_split`: the texts are already split into pieces.
    """
    codes, lengths, num_unknown = [], [], 0
    with progress.bar(f"reading {reader.path.name}", None, "row") as bar:
        for chunk in chunked(reader.texts(), CHUNK):
            bar.advance(len(chunk))
            joined = [join_pieces(text) for text in chunk] if is_split else chunk
            codes += [fingerprint(text) for text in joined]
            if tokenizer is None:
                lengths += [len(text.split()) for text in chunk]
                continue
            encoded = tokenizer.encode(chunk if tokenizer.kind == "pieces" else joined)
            lengths += [len(ids) for ids in encoded]
            if tokenizer.unk is not None:
                num_unknown += sum(ids.count(tokenizer.unk) for ids in encoded)
    sizes, prints = np.array(lengths), np.array(codes, np.uint64)
    limit = max_length - 2 if max_length and tokenizer else max_length  # without special tokens
    report = FileReport(
        file=str(reader.path),
        rows=reader.counts.rows or len(prints),
        skipped=reader.counts.skipped,
        repeats=count_repeats(prints),
        unit="tokens" if tokenizer else "words",
        shortest=int(sizes.min()),
        median=float(np.median(sizes)),
        long=float(np.quantile(sizes, 0.95)),
        longest=int(sizes.max()),
        units=int(sizes.sum()),
        truncated=int((sizes > limit).sum()) if limit else None,
        unknown=num_unknown / max(1, int(sizes.sum())) if tokenizer else None,
        labels=dict(sorted(reader.label_counts.items())) or None,
    )
    return report, prints
