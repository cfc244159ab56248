"""Read labelled texts or text pairs, from a table or from two line-aligned files.

Labels remain the strings of the file.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from warmstart.data.tables import Columns, Row, aligned_rows, first_row, parse_columns, read_rows
from warmstart.errors import WarmstartError
from warmstart.textfiles import TABLE_SUFFIXES, format_of

PAIR = ("text", "text2")
_SEPARATOR = " ␞ "  # joins the two texts of a pair; the symbol does not occur in ordinary text

_SUSPICIOUS_ROWS = 10  # with this many, more labels than texts mean that columns are swapped


@dataclass(frozen=True)
class LabelledTexts:
    """The rows of one labelled file, in file order."""

    file: str
    texts: tuple[str, ...]  # none empty
    labels: tuple[str, ...]  # none empty, without surrounding spaces
    lines: tuple[int, ...]  # number of the line where each row begins; in Parquet, of the row
    seconds: tuple[str, ...] | None = None  # the second text of each pair, none empty

    def __len__(self) -> int:
        return len(self.texts)


def read_labelled(
    path: Path, columns: Sequence[str] = (), labels: Path | None = None
) -> LabelledTexts:
    """Read the texts of `path` with their labels, from its columns or from the file `labels`."""
    for file in (path, labels):
        if file is not None and file.is_dir():
            raise WarmstartError(f"{file} is a folder; labelled texts are read from one file")
    is_plain = format_of(path) == "lines"
    if labels is not None:
        if columns or not is_plain:
            raise WarmstartError(
                f"{path}: a separate file of labels ({labels}) goes with plain lines, "
                "not with a table or columns"
            )
        return _collect(path, aligned_rows((path, labels), ("text", "label")), is_pair=False)
    if is_plain:
        raise WarmstartError(
            f"{path}: plain lines hold no labels; give the file of labels that goes with it, "
            f"or a {TABLE_SUFFIXES} file with text and label"
        )
    default = (*PAIR, "label") if has_named_column(path, "text2") else ("text", "label")
    parsed = parse_columns(columns or default, ("text", "label"))
    rows = ((row, row) for row in read_rows(path, parsed))
    data = _collect(path, rows, "text2" in parsed.roles)
    if not columns:
        _refuse_swapped(data)
    return data


def _collect(path: Path, rows: Iterable[tuple[Row, Row]], is_pair: bool) -> LabelledTexts:
    texts, labels, lines, seconds = [], [], [], []
    for row, label_row in rows:
        texts.append(_filled_text(row, "text"))
        labels.append(_label(label_row))
        lines.append(row.number)
        if is_pair:
            seconds.append(_filled_text(row, "text2"))
    if not texts:
        raise WarmstartError(f"{path}: no rows")
    pair = tuple(seconds) if is_pair else None
    return LabelledTexts(str(path), tuple(texts), tuple(labels), tuple(lines), pair)


def has_named_column(path: Path, name: str) -> bool:
    """Tell whether a table names a column in its header, its schema or its first record."""
    first = first_row(path, Columns((name,), (name,)))
    # Without a header, a .csv or .tsv has a row on its first line.
    has_names = format_of(path) in ("jsonl", "parquet")
    return first is not None and (has_names or first.number > 1)


def join_pair(text: str, second: str | None) -> str:
    """Return a pair as one text, for models that read single texts."""
    return text if second is None else f"{text}{_SEPARATOR}{second}"


def _filled_text(row: Row, role: str) -> str:
    text = row.text(role)
    if not text.strip():
        raise WarmstartError(f"{row.name}: the {role} is empty; every row needs one")
    return text


def _label(row: Row) -> str:
    """Return a label as a string: true and 1 as in JSON, 1.0 as 1."""
    value = row.values["label"]
    if value is None:
        raise WarmstartError(f"{row.name}: the label is null; every row needs one")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))  # tools without a missing integer write integers as floats
    if isinstance(value, float) and not math.isnan(value):
        return repr(value)
    return _filled_text(row, "label").strip()


def _refuse_swapped(data: LabelledTexts) -> None:
    num_texts, num_labels = len(set(data.texts)), len(set(data.labels))
    if len(data) >= _SUSPICIOUS_ROWS and num_labels > num_texts:
        raise WarmstartError(
            f"{data.file}: {num_labels:,} different labels but only {num_texts:,} different texts; "
            "if the label comes first, add --columns label,text"
        )
