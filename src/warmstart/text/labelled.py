"""Read labelled texts, from a table or from two line-aligned files.

Knows nothing about classes or tokens: labels stay the strings they are in the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warmstart.errors import WarmstartError
from warmstart.text.columns import parse_columns
from warmstart.text.files import format_of, read_lines
from warmstart.text.tables import as_text, place, read_rows

_SUSPICIOUS_ROWS = 10  # from here on, more labels than texts can only be exchanged columns


@dataclass(frozen=True)
class LabelledTexts:
    """The rows of one labelled file, in file order."""

    file: str
    texts: tuple[str, ...]  # none empty
    labels: tuple[str, ...]  # none empty; spaces around a label are dropped
    lines: tuple[int, ...]  # the line each row begins on; in Parquet, its row number

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
    read = _read_table(path, columns or ("text", "label"))
    if not columns:
        _refuse_exchanged(read)
    return read


def _read_table(path: Path, columns: Sequence[str]) -> LabelledTexts:
    texts: list[str] = []
    labels: list[str] = []
    lines: list[int] = []
    for row in read_rows(path, parse_columns(columns, ("text", "label"))):
        texts.append(_filled(row.values["text"], path, row.number))
        labels.append(_label(row.values["label"], path, row.number))
        lines.append(row.number)
    return _finish(path, texts, labels, lines)


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
    path: Path, texts: Sequence[str], labels: Sequence[str], lines: Sequence[int]
) -> LabelledTexts:
    if not texts:
        raise WarmstartError(f"{path}: no rows")
    return LabelledTexts(str(path), tuple(texts), tuple(labels), tuple(lines))


def _filled(value: object, path: Path, number: int) -> str:
    text = as_text(value, path, number, "text")
    if not text.strip():
        raise WarmstartError(f"{place(path, number)}: the text is empty; every row needs one")
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
