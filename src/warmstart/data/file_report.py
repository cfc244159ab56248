"""Report the rows, lengths, labels and repeats of one file.

Keeps a length and the fingerprints of each text; text without labels is streamed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from warmstart import progress
from warmstart.data.columns import parse_columns
from warmstart.data.copies import FileReport, find_contradictions, find_repeats
from warmstart.data.corpus import Passage, RowCounts, cut_chunks, read_passages
from warmstart.data.detection import UnclearLabel, normal
from warmstart.data.fingerprints import Fingerprints, FingerprintWriter, normalise
from warmstart.data.label_sets import label_sets_form, read_label_sets
from warmstart.data.labelled import Dataset, read_labelled
from warmstart.data.lengths import TextLengths, count_words
from warmstart.data.numbers import (
    NumberSummary,
    numbers_form,
    read_numbers,
    summarise_numbers,
)
from warmstart.data.questions import questions_form, read_questions
from warmstart.data.tables import column_names, find_unclear_label, open_table
from warmstart.data.tagged import read_tagged, tagged_form
from warmstart.data.tags import count_tags
from warmstart.errors import WarmstartError
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import format_of
from warmstart.tokenization.tokenizer import Tokenizer, join_pieces

CHUNK = 1000  # texts encoded together


@dataclass
class FileReader:
    """The texts of one file, with counts of its rows and labels as far as they are read."""

    path: Path
    tables: TableFormat
    labels: Path | None
    may_lack_labels: bool = False  # although --columns names a label: another file has it
    counts: RowCounts = field(default_factory=RowCounts)
    labelled: Dataset = field(default_factory=Dataset)  # its texts, if they have labels

    def passages(self) -> Iterator[Passage]:
        """Yield documents of several rows, or labelled texts, each of which is one row."""
        if self.labels or self.has_labels:
            data = self.labelled = self._read_labelled()
            self.counts = RowCounts(len(data) + data.skipped + data.unlabelled, data.skipped)
            for text in data.whole_texts():
                yield Passage((text,), continues=False)
        else:
            yield from read_passages(self.path, tables=self.tables, counts=self.counts)

    @cached_property
    def _is_tagged(self) -> bool:
        return not self.labels and tagged_form(self.path, self.tables) is not None

    @cached_property
    def _has_label_sets(self) -> bool:
        return not self.labels and label_sets_form(self.path, self.tables) is not None

    @cached_property
    def _has_numbers(self) -> bool:
        return not self.labels and numbers_form(self.path, self.tables) is not None

    @cached_property
    def _has_questions(self) -> bool:
        return not self.labels and questions_form(self.path, self.tables) is not None

    def _read_labelled(self) -> Dataset:
        if self._has_questions:
            return read_questions(self.path, self.tables)
        if self._is_tagged:
            return read_tagged(self.path, self.tables)
        if self._has_label_sets:
            return read_label_sets(self.path, self.tables)
        if self._has_numbers:
            return read_numbers(self.path, self.tables)
        return read_labelled(self.path, self.tables, self.labels)

    @property
    def label_counts(self) -> Counter[str]:
        """Return how many texts have each label, or how many entities or words each tag."""
        labels = self.labelled.labels
        if self._has_questions:
            return Counter("answer" if answers else "no answer" for answers in labels)
        if self._is_tagged:
            return count_tags(labels)
        if self._has_numbers:
            return Counter()
        return Counter(chain.from_iterable(labels) if self._has_label_sets else labels)

    @property
    def numbers(self) -> NumberSummary | None:
        """Return how the labels are spread, if they are numbers."""
        return summarise_numbers(self.labelled.labels) if self._has_numbers else None

    @property
    def label_names(self) -> list[str]:
        """Return the label of each text as one string."""
        labels = self.labelled.labels
        if self._has_questions:
            return [" or ".join(text for _, text in answers) for answers in labels]
        is_several = self._is_tagged or self._has_label_sets
        return [" ".join(names) for names in labels] if is_several else list(map(str, labels))

    def describe(self) -> str:
        """Say how a table, or a file of tagged words, is read; empty for other files."""
        if self._has_questions:
            return read_questions(self.path, self.tables).description
        if self._is_tagged:
            return read_tagged(self.path, self.tables).description
        if self._has_label_sets:
            return read_label_sets(self.path, self.tables).description
        if self.labels or format_of(self.path) == "lines":
            return ""
        roles = ("text", "label") if self.has_labels else ("text",)
        return open_table(self.path, self.tables, roles, optional=("text2",)).describe()

    @cached_property
    def has_labels(self) -> bool:
        """Tell whether the file has labels beside its texts."""
        if self._is_tagged or self._has_questions or self._has_label_sets:
            return True
        if format_of(self.path) == "lines":
            return False
        named = [column.role for column in parse_columns(self.tables.columns, ()).columns]
        if named and None not in named:
            return self._has_named_label()
        try:
            open_table(self.path, self.tables, ("text", "label"))
        except WarmstartError:
            try:
                open_table(self.path, self.tables)
            except WarmstartError:
                return True  # neither form fits, and reading it as labelled gives the reason
            return False
        return True

    def _has_named_label(self) -> bool:
        """Tell whether --columns names a label, which this table has or should have."""
        wanted = parse_columns(self.tables.columns, ())
        names = [column.name for column in wanted.columns if column.role == "label"]
        if not names or not self.may_lack_labels or wanted.is_by_position:
            return bool(names)
        return normal(names[0]) in column_names(self.path, self.tables)

    @property
    def unclear_label(self) -> UnclearLabel | None:
        """Return which columns may be the label, if that is why the texts have none."""
        if self.labelled.labels or format_of(self.path) == "lines":
            return None
        return find_unclear_label(self.path, self.tables)


def read_row(reader: FileReader, row: int) -> str:
    """Read the file again, as far as one of its rows."""
    again = FileReader(reader.path, reader.tables, reader.labels, reader.may_lack_labels)
    rows = (text for passage in again.passages() for text in passage.rows)
    return next(islice(rows, row, None))


@dataclass(frozen=True)
class Reading:
    """How texts are read: with which tokenizer, up to which length, from pieces or not."""

    tokenizer: Tokenizer | None
    max_length: int | None
    is_split: bool  # the texts are already split into pieces

    def join(self, text: str) -> str:
        """Return a text of whole words."""
        return join_pieces(text) if self.is_split else text


@dataclass
class FileLengths:
    """The lengths of the texts of a file, in tokens if there is a tokenizer."""

    reading: Reading
    num_words: int = 0
    num_unknown: int = 0  # tokens
    _texts: TextLengths = field(default_factory=TextLengths)
    _num_tokens: list[int] = field(default_factory=list)

    def add(self, texts: Sequence[str]) -> None:
        """Measure more texts."""
        joined, tokenizer = list(map(self.reading.join, texts)), self.reading.tokenizer
        self.num_words += sum(map(count_words, joined))
        self._texts.add(texts)
        if tokenizer is not None:
            encoded = tokenizer.encode(texts if tokenizer.kind == "pieces" else joined)
            self._num_tokens += map(len, encoded)
            if tokenizer.unk is not None:
                self.num_unknown += sum(ids.count(tokenizer.unk) for ids in encoded)

    @property
    def unit(self) -> str:
        if self.reading.tokenizer is not None:
            return "tokens"
        return "words" if self.reading.is_split else self._texts.unit

    @property
    def sizes(self) -> NDArray[np.int64]:
        unit = self.unit
        return np.array(self._num_tokens if unit == "tokens" else self._texts.sizes(unit))


def report_file(reader: FileReader, reading: Reading) -> tuple[FileReport, Fingerprints]:
    """Return the report on a file and the fingerprints of its texts."""
    writer, lengths = FingerprintWriter(), FileLengths(reading)
    tokenizer, max_length = reading.tokenizer, reading.max_length
    with progress.bar(f"reading {reader.path.name}", None, "row") as bar:
        for chunk in cut_chunks(reader.passages(), CHUNK, lambda passage: len(passage.rows)):
            texts = [text for passage in chunk for text in passage.rows]
            bar.advance(len(texts))
            for passage in chunk:
                rows = [normalise(reading.join(text)) for text in passage.rows]
                writer.add(rows, passage.continues)
            lengths.add(texts)
    sizes, fingerprints = lengths.sizes, writer.finish()
    repeats = find_repeats(fingerprints)
    limit = max_length - 2 if max_length and tokenizer else max_length  # without special tokens
    labelled = reader.labelled
    report = FileReport(
        file=str(reader.path),
        rows=reader.counts.rows or len(fingerprints),
        skipped=reader.counts.skipped,
        unlabelled=labelled.unlabelled,
        repeats=int(repeats.copies.sum()),
        near_repeats=int(repeats.near.sum()),
        unit=lengths.unit,
        shortest=int(sizes.min()),
        median=float(np.median(sizes)),
        long=float(np.quantile(sizes, 0.95)),
        longest=int(sizes.max()),
        units=int(sizes.sum()),
        words=lengths.num_words,
        truncated=int((sizes > limit).sum()) if limit else None,
        unknown=lengths.num_unknown / max(1, int(sizes.sum())) if tokenizer else None,
        labels=dict(sorted(reader.label_counts.items())) or None,
        numbers=reader.numbers,
        contradictions=find_contradictions(
            fingerprints, reader.label_names, labelled.whole_texts().__getitem__
        )
        if labelled.labels
        else (),
        labels_file=str(reader.labels) if reader.labels else None,
        unclear_label=reader.unclear_label,
    )
    return report, fingerprints
