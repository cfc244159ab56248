"""Read labelled texts or text pairs, from a table or from two line-aligned files.

Labels are the strings of the file, or its numbers and truth values as strings.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from warmstart import progress
from warmstart.data.tables import DEFAULT, Row, aligned_rows, open_table
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import TABLE_SUFFIXES, format_of, read_lines

PAIR = ("text", "text2")
WordSpan = tuple[int, int]  # where a word begins and ends, in its text or in its ids
SHARE = "probability_"  # of a class: how the columns that `predict` writes begin
ROUNDED = 0.01  # by which probabilities may miss one
_SEPARATOR = " ␞ "  # joins the two texts of a pair; the symbol does not occur in ordinary text


@dataclass(frozen=True)
class Dataset:
    """Texts, or pairs of texts, with what is to be learned of them.

    Each column has a value for every row, or none until it is filled: a task makes targets of the
    labels, and a tokenizer makes ids of the texts.
    """

    file: str = ""  # where the rows come from, for messages
    texts: Sequence[str] = ()  # none empty
    labels: Sequence[Any] = ()  # as in the file, a string or one for each word; none empty
    lines: Sequence[int] = ()  # where each row begins; in Parquet and Excel, the number of the row
    seconds: Sequence[str] | None = None  # the second text of each pair, none empty
    words: Sequence[Sequence[WordSpan]] = ()  # of each text, where words or tokens have labels
    groups: Sequence[str] = ()  # rows of one group stay in one split: questions about a passage
    shares: Sequence[Mapping[str, float]] = ()  # of classes, where labels are not certain
    targets: Sequence[Any] = ()
    strata: Sequence[int] = ()  # the class of each row, of which every subset has its share
    ids: Sequence[Sequence[int]] = ()  # tokens as a model reads them
    starts: Sequence[int] | None = None  # where the ids of the second text of each pair begin
    word_tokens: Sequence[Sequence[WordSpan]] = ()  # the ids that stand for each word
    is_truncated: Sequence[bool] = ()  # whether the ids are those of a part of the text
    files: Mapping[Path, int] = field(default_factory=dict)  # that were read, with their rows
    skipped: int = 0  # rows without a text
    unlabelled: int = 0  # rows with a text, but without a label
    description: str = ""  # how the file was read

    def __len__(self) -> int:
        return len(self.texts or self.ids)

    def columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns that are filled, by name."""
        others = {"file", "files", "skipped", "unlabelled", "description"}
        names = (field.name for field in fields(self) if field.name not in others)
        return {name: column for name in names if (column := getattr(self, name))}

    def subset(self, rows: Sequence[int]) -> "Dataset":
        """Return these rows, in this order."""
        chosen: dict[str, Any] = {
            name: tuple(column[row] for row in rows) for name, column in self.columns().items()
        }
        return replace(self, **chosen)

    def whole_texts(self) -> list[str]:
        """Return every row as one text; the two texts of a pair are joined."""
        if self.seconds is None:
            return list(self.texts)
        return list(map(join_pair, self.texts, self.seconds))


def join_datasets(parts: Sequence[Dataset]) -> Dataset:
    """Return the rows of several datasets, one after the other; all have the same columns."""
    first, *others = parts
    if not others:
        return first
    columns: dict[str, Any] = {
        name: tuple(chain.from_iterable(getattr(part, name) for part in parts))
        for name in first.columns()
    }
    return Dataset(
        file=", ".join(part.file for part in parts),
        files={file: rows for part in parts for file, rows in part.files.items()},
        skipped=sum(part.skipped for part in parts),
        unlabelled=sum(part.unlabelled for part in parts),
        **columns,
    )


def read_labelled(
    path: Path,
    tables: TableFormat = DEFAULT,
    labels: Path | None = None,
    has_shares: bool = False,
) -> Dataset:
    """Read the texts of `path` with their labels, from its columns or from the file `labels`.

    With `has_shares`, also the probability of every class, from the columns that `predict` writes.
    """
    for file in (path, labels):
        if file is not None and file.is_dir():
            raise WarmstartError(f"{file} is a folder; labelled texts are read from files")
    is_plain = format_of(path) == "lines"
    if labels is not None:
        if tables.columns or not is_plain:
            raise WarmstartError(
                f"{path}: a separate file of labels ({labels}) goes with plain lines, "
                "not with a table or columns"
            )
        rows = aligned_rows((path, labels), ("text", "label"), tables.encoding)
        description = f"{path}: one text per line, labels in {labels}"
        return _collect(rows, (path, labels), description)
    if is_plain:
        raise WarmstartError(
            f"{path}: plain lines hold no labels; give the file of labels that goes with it, "
            f"or a {TABLE_SUFFIXES} file with text and label"
        )
    table = open_table(path, tables, ("text", "label"), optional=("text2",))
    rows = ((row, row) for row in table.rows())
    return _collect(rows, (path,), table.describe(), has_shares)


def _collect(
    rows: Iterable[tuple[Row, Row]],
    files: Sequence[Path],
    description: str,
    has_shares: bool = False,
) -> Dataset:
    """Keep the rows with text and label; count the others."""
    texts, labels, lines, seconds, shares = [], [], [], [], []
    num_rows, num_unlabelled, is_pair = 0, 0, False
    for row, label_row in rows:
        num_rows += 1
        is_pair = "text2" in row.values
        text, label = row.text("text"), _label(label_row)
        second = row.text("text2") if is_pair else text
        if not text.strip() or not second.strip():
            continue
        if not label:
            num_unlabelled += 1
        else:
            texts.append(text)
            labels.append(label)
            lines.append(row.number)
            seconds.append(second)
            if has_shares:
                shares.append(_shares(row, label))
    if not num_rows:
        raise WarmstartError(
            f"{files[0]}: no rows with text and label; the file is empty, or only a header"
        )
    if not texts:
        reason = f"none of the {quantity(num_rows, 'row')} has both"
        raise WarmstartError(f"{files[0]}: no rows with text and label ({reason}); {description}")
    return Dataset(
        str(files[0]),
        tuple(texts),
        tuple(labels),
        tuple(lines),
        tuple(seconds) if is_pair else None,
        shares=tuple(shares),
        files=dict.fromkeys(files, len(texts)),
        skipped=num_rows - num_unlabelled - len(texts),
        unlabelled=num_unlabelled,
        description=description,
    )


def join_pair(text: str, second: str | None) -> str:
    """Return a pair as one text, for models that read single texts."""
    return text if second is None else f"{text}{_SEPARATOR}{second}"


def _label(row: Row) -> str:
    """Return a label as a string: true and 1 as in JSON, 1.0 as 1; empty where there is none."""
    value = row.values["label"]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))  # tools without a missing integer write integers as floats
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    return row.text("label").strip()


def _shares(row: Row, label: str) -> dict[str, float]:
    """Return the probability of every class, which add up to one but for rounding."""
    cells = {
        name.removeprefix(SHARE): value
        for name, value in row.record.items()
        if name.startswith(SHARE)
    }
    if not cells:
        raise WarmstartError(
            f"{row.path}: --soft-labels needs a column {SHARE}… for each class, as `predict -o "
            "FILE.csv` writes them"
        )
    shares = {name: _share(row, name, value) for name, value in cells.items()}
    total = sum(shares.values())
    if label not in shares or abs(total - 1) > ROUNDED:
        problem = f"add up to {total:.3g}, not 1" if label in shares else f"lack that of '{label}'"
        raise WarmstartError(f"{row.name}: the columns {SHARE}… {problem}")
    return {name: share / total for name, share in shares.items()}


def _share(row: Row, name: str, value: object) -> float:
    try:
        share = float(str(value))
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise WarmstartError(f"{row.name}: {SHARE}{name} is {value!r}, not a number from 0 to 1")
    return share


class TextRow(NamedTuple):
    """One row of a table, or one line as such a row."""

    text: str
    text2: str | None  # None: a single text
    record: Mapping[str, Any]  # the whole row by column name

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no text, or one of a pair is missing."""
        return not self.text.strip() or (self.text2 is not None and not self.text2.strip())


def read_text_rows(
    source: Path | BinaryIO,
    tables: TableFormat,
    is_pair: bool,
    names: tuple[str, str] = PAIR,
) -> Iterator[TextRow]:
    """Yield every row, including empty ones; in plain lines a tab separates the texts of a pair."""
    if not isinstance(source, Path) or format_of(source) == "lines":
        lines = read_lines(source, tables.encoding)
        name = str(source) if isinstance(source, Path) else "standard input"
        yield from _pair_lines(lines, name) if is_pair else _text_lines(lines)
        return
    table = open_table(source, tables, names if is_pair else names[:1])
    progress.say(table.describe())
    for row in table.rows():
        yield TextRow(row.text(names[0]), row.text(names[1]) if is_pair else None, row.record)


def _text_lines(lines: Iterable[str]) -> Iterator[TextRow]:
    for line in lines:
        yield TextRow(line, None, {"text": line})


def _pair_lines(lines: Iterable[str], name: str) -> Iterator[TextRow]:
    for number, line in enumerate(lines, 1):
        first, tab, second = line.partition("\t")
        if line and (not tab or "\t" in second):
            fields = quantity(line.count("\t") + 1, "field")
            raise WarmstartError(
                f"{name} line {number}: {fields}, but 2 expected: a pair is two texts separated "
                "by a tab"
            )
        yield TextRow(first, second, {"text": first, "text2": second})
