"""The texts to choose from: those without a label, each once, without near-copies."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from warmstart import progress
from warmstart.data.columns import parse_columns
from warmstart.data.copies import find_matches, find_repeats
from warmstart.data.corpus import read_texts
from warmstart.data.detection import normal
from warmstart.data.file_report import FileReader
from warmstart.data.fingerprints import Fingerprints, fingerprints_of, join_fingerprints
from warmstart.data.labelled import TextRow, join_pair, read_text_rows
from warmstart.data.tables import column_names
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.labelling.settings import SuggestConfig
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import format_of


@dataclass(frozen=True)
class Pool:
    """Texts to choose from, and what was left out."""

    rows: list[TextRow]
    texts: list[str]  # as a model reads them
    seconds: list[str] | None  # the second text of each pair
    num_rows: int
    num_empty: int = 0
    num_labelled: int = 0  # copies and near-copies of labelled texts included
    num_repeats: int = 0  # copies and near-copies of other rows
    num_passed_over: int = 0  # beyond the size of the pool

    def describe(self) -> str:
        """Say how many texts there are to choose from, and why the others are not among them."""
        reasons = {
            "without text": self.num_empty,
            "labelled already": self.num_labelled,
            "copies or near-copies": self.num_repeats,
            "passed over by chance (--pool)": self.num_passed_over,
        }
        left_out = ", ".join(f"{num:,} {reason}" for reason, num in reasons.items() if num)
        rows = quantity(self.num_rows, "row")
        return f"{len(self.rows):,} of {rows} to choose from{f' ({left_out})' if left_out else ''}"


def label_of(row: TextRow, column: str) -> Any:
    """Return what is in the column of labels of a row; None: nothing."""
    for name, cell in row.record.items():
        if normal(name) == normal(column) and cell not in (None, "") and str(cell).strip():
            return cell
    return None


def read_labelled_texts(config: SuggestConfig, is_pair: bool) -> Iterable[Fingerprints]:
    """Yield the fingerprints of the texts of --labelled that have a label, if any has one."""
    for name in config.labelled:
        path = Path(name)
        if not path.is_file():
            raise WarmstartError(f"--labelled {name} is not a file; name one with texts")
        tables = _tables_of(path, config)
        reader = FileReader(path, tables, None, may_lack_labels=True)
        if reader.has_labels:
            yield fingerprints_of(text for passage in reader.passages() for text in passage.rows)
            progress.say(reader.describe())
            if num := reader.labelled.unlabelled:
                progress.say(f"{name}: {quantity(num, 'row')} without label may be suggested")
        elif is_pair:
            rows = read_text_rows(path, tables, is_pair)
            yield fingerprints_of(join_pair(row.text, row.text2) for row in rows)
        else:
            yield fingerprints_of(read_texts(path, tables))


def _tables_of(path: Path, config: SuggestConfig) -> TableFormat:
    """Return how a labelled table is read: --columns holds where it has one of these columns."""
    tables = TableFormat(delimiter=config.delimiter, encoding=config.encoding)
    if not config.columns or format_of(path) == "lines":
        return tables
    present = column_names(path, tables)
    named = {normal(column.name) for column in parse_columns(config.columns, ()).columns}
    return tables if named.isdisjoint(present) else replace(tables, columns=config.columns)


def read_pool(
    config: SuggestConfig,
    source: Path | BinaryIO,
    is_pair: bool,
    readable: Callable[[str], str],
    known: Fingerprints | None,
) -> Pool:
    """Read the texts to choose from; `known` are labelled texts that are not in the file."""
    rows = list(read_text_rows(source, config, is_pair))
    filled = [row for row in rows if not row.is_empty]
    if not filled:
        raise WarmstartError(f"{config.file or 'standard input'}: no rows with text")
    firsts = [readable(row.text) for row in filled]
    seconds = [readable(row.text2) for row in filled if row.text2 is not None] if is_pair else None
    whole = list(map(join_pair, firsts, seconds)) if seconds else firsts
    prints = fingerprints_of(whole)
    is_labelled = np.array([label_of(row, config.label_column) is not None for row in filled])
    marked = fingerprints_of(
        t for t, has_label in zip(whole, is_labelled, strict=True) if has_label
    )
    named = read_labelled_texts(config, is_pair)
    sets = [marked, *named, *([known] if known is not None else [])]
    is_labelled |= find_matches(prints, join_fingerprints(sets)).both
    is_repeat = find_repeats(prints).both & ~is_labelled
    free = np.flatnonzero(~is_labelled & ~is_repeat)
    kept = _sample(free, config.pool, config.seed)
    return Pool(
        [filled[row] for row in kept],
        [firsts[row] for row in kept],
        [seconds[row] for row in kept] if seconds else None,
        num_rows=len(rows),
        num_empty=len(rows) - len(filled),
        num_labelled=int(is_labelled.sum()),
        num_repeats=int(is_repeat.sum()),
        num_passed_over=len(free) - len(kept),
    )


def _sample(rows: Any, size: int, seed: int) -> list[int]:
    """Return so many of the rows, drawn at random, in order."""
    if len(rows) <= size:
        return [int(row) for row in rows]
    return sorted(np.random.default_rng(seed).choice(rows, size, replace=False).tolist())
