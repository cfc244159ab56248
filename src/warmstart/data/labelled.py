"""Read labelled texts or pairs of texts, from a table or from two line-aligned files.

Knows nothing about classes or tokens: labels stay the strings they are in the file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from warmstart.data.columns import Columns, parse_columns
from warmstart.data.tables import as_text, place, read_rows
from warmstart.errors import WarmstartError
from warmstart.textfiles import format_of, read_lines

PAIR = ("text", "text2")
BETWEEN = " ␞ "  # stands between two texts written as one; no spacing can imitate it

_SUSPICIOUS_ROWS = 10  # from here on, more labels than texts can only be exchanged columns


@dataclass(frozen=True)
class LabelledTexts:
    """The rows of one labelled file, in file order."""

    file: str
    texts: tuple[str, ...]  # none empty
    labels: tuple[str, ...]  # none empty; spaces around a label are dropped
    lines: tuple[int, ...]  # the line each row begins on; in Parquet, its row number
    seconds: tuple[str, ...] | None = None  # the second text of each pair, none empty

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.texts)


def read_labelled(
    path: Path, columns: Sequence[str] = (), labels: Path | None = None
) -> LabelledTexts:
    """Read the texts of `path` with their labels, from its columns or from the file `labels`."""
    for file in (path, labels):
        if file is not None and file.is_dir():
            raise WarmstartError(f"{file} is a folder; labelled texts are read from one file")
    if labels is not None:
        if columns or format_of(path) != "lines":
            raise WarmstartError(
                f"{path}: labels in a file of their own ({labels}) go with plain lines, "
                "not with a table or columns"
            )
        return _read_aligned(path, labels)
    if format_of(path) == "lines":
        raise WarmstartError(
            f"{path}: plain lines hold no labels; give the file of labels that goes with it, "
            "or a .csv .tsv .jsonl .parquet file with text and label"
        )
    read = _read_table(path, columns or _usual_columns(path))
    if not columns:
        _refuse_exchanged(read)
    return read


def _read_table(path: Path, columns: Sequence[str]) -> LabelledTexts:
    texts: list[str] = []
    labels: list[str] = []
    lines: list[int] = []
    seconds: list[str] = []
    wanted = parse_columns(columns, ("text", "label"))
    is_pair = "text2" in wanted.roles
    for row in read_rows(path, wanted):
        texts.append(_filled(row.values["text"], path, row.number))
        labels.append(_label(row.values["label"], path, row.number))
        lines.append(row.number)
        if is_pair:
            seconds.append(_filled(row.values["text2"], path, row.number, "text2"))
    return _finish(path, texts, labels, lines, seconds if is_pair else None)


def _usual_columns(path: Path) -> tuple[str, ...]:
    """Return the columns to expect where none were named: pairs when a `text2` is there."""
    return ("text", "text2", "label") if has_named_column(path, "text2") else ("text", "label")


def has_named_column(path: Path, name: str) -> bool:
    """Tell whether a table names a column: in its header, its schema or its first record."""
    try:
        rows = read_rows(path, Columns((name,), (name,)))
        first = next((row for row in rows if row.values[name] != ""), None)
    except WarmstartError:
        return False
    # Without a header, the first line is a row.
    has_names = format_of(path) in ("jsonl", "parquet")
    return first is not None and (has_names or first.number > 1)


def read_text_pairs(
    source: Path | BinaryIO, columns: Sequence[str] = PAIR
) -> Iterator[tuple[str, str]]:
    """Yield one pair for every row, empty ones too; plain lines hold a tab between the texts."""
    if isinstance(source, Path) and format_of(source) != "lines":
        for row in read_rows(source, parse_columns(columns, PAIR)):
            first, second = (as_text(row.values[role], source, row.number, role) for role in PAIR)
            yield first, second
        return
    for number, line in enumerate(read_lines(source), 1):
        first, tab, second = line.partition("\t")
        if not tab or "\t" in second:
            where = source if isinstance(source, Path) else "standard input"
            fields = line.count("\t") + 1
            raise WarmstartError(
                f"{where} line {number}: {fields} field{'s' * (fields != 1)}, but 2 expected: "
                "a pair is two texts with a tab between them"
            )
        yield first, second


def join_pair(text: str, second: str | None) -> str:
    """Return a pair as one text, for what cannot tell its two texts apart."""
    return text if second is None else f"{text}{BETWEEN}{second}"


def _read_aligned(path: Path, label_path: Path) -> LabelledTexts:
    texts = list(read_lines(path))
    labels = list(read_lines(label_path))
    if len(texts) != len(labels):
        raise WarmstartError(
            f"{path} has {len(texts):,} lines but {label_path} has {len(labels):,}; "
            "line-aligned files need the same number"
        )
    texts = [_filled(text, path, number) for number, text in enumerate(texts, 1)]
    labels = [_label(label, label_path, number) for number, label in enumerate(labels, 1)]
    return _finish(path, texts, labels, range(1, len(texts) + 1))


def _finish(
    path: Path,
    texts: Sequence[str],
    labels: Sequence[str],
    lines: Sequence[int],
    seconds: Sequence[str] | None = None,
) -> LabelledTexts:
    if not texts:
        raise WarmstartError(f"{path}: no rows")
    pairs = None if seconds is None else tuple(seconds)
    return LabelledTexts(str(path), tuple(texts), tuple(labels), tuple(lines), pairs)


def _filled(value: object, path: Path, number: int, role: str = "text") -> str:
    text = as_text(value, path, number, role)
    if not text.strip():
        raise WarmstartError(f"{place(path, number)}: the {role} is empty; every row needs one")
    return text


def _label(value: object, path: Path, number: int) -> str:
    """Return a label as a string: true and 1 as JSON writes them, 1.0 as 1."""
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        # Tools that know no missing integer write a column of integers as floats.
        value = str(int(value))
    elif isinstance(value, float) and value == value:  # not NaN
        value = repr(value)
    if value is None:
        raise WarmstartError(f"{place(path, number)}: the label is null; every row needs one")
    label = as_text(value, path, number, "label").strip()
    if not label:
        raise WarmstartError(f"{place(path, number)}: the label is empty; every row needs one")
    return label


def _refuse_exchanged(read: LabelledTexts) -> None:
    num_texts, num_labels = len(set(read.texts)), len(set(read.labels))
    if len(read) >= _SUSPICIOUS_ROWS and num_labels > num_texts:
        raise WarmstartError(
            f"{read.file}: {num_labels:,} different labels but only {num_texts:,} different texts; "
            "if the label comes first, say --columns label,text"
        )
