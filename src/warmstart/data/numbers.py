"""Read texts with a number each, and tell whether labels can only be numbers."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from warmstart.data.labelled import Dataset, read_labelled
from warmstart.data.tables import DEFAULT, open_table
from warmstart.errors import WarmstartError
from warmstart.formats import quantity, significant
from warmstart.settings.shared import TableFormat
from warmstart.textfiles import format_of

SNIFFED_ROWS = 2_000
LEAST_DIFFERENT = 20  # numbers; fewer may be classes
LARGEST = 1e30  # a model computes in single precision
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_WITH_COMMA = re.compile(r"[+-]?\d*,\d+", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_MISSING = ("nan", "+nan", "-nan")


def numbers_form(path: Path, tables: TableFormat = DEFAULT) -> str | None:
    """Say why the labels of a file can only be numbers; None: they may be classes.

    They are, if all are numbers, at least 20 different ones, and either some have a fraction or
    most occur only once. So 0 and 1, stars and the numbers of classes stay classes.
    """
    if not path.is_file() or format_of(path) == "lines":
        return None
    try:
        table = open_table(path, tables, ("text", "label"))
        cells = [row.values["label"] for row in islice(table.rows(), SNIFFED_ROWS)]
    except WarmstartError:  # whoever reads the file gives the reason
        return None
    numbers = _plain_numbers([cell for cell in cells if cell is not None and str(cell).strip()])
    num_different = len(set(numbers))
    if num_different < LEAST_DIFFERENT:
        return None
    first = f"its first {quantity(len(numbers), 'label')} are {num_different:,} different numbers"
    num_fractions = sum(not number.is_integer() for number in numbers)
    if num_fractions:
        return f"{first}, {num_fractions:,} of them with a fraction"
    return f"{first}, most of which occur once" if 2 * num_different > len(numbers) else None


def _plain_numbers(cells: Sequence[Any]) -> list[float]:
    """Return cells as numbers, without missing ones; none at all if one is anything else."""
    texts = [str(cell).strip().lower() for cell in cells if not isinstance(cell, bool)]
    present = [text for text in texts if text not in _MISSING]
    if len(texts) < len(cells) or not all(map(_NUMBER.fullmatch, present)):
        return []
    return [number for text in present if math.isfinite(number := float(text))]


def read_numbers(path: Path, tables: TableFormat = DEFAULT, labels: Path | None = None) -> Dataset:
    """Read the texts of a file with their numbers; a label that is NaN is missing."""
    data = read_labelled(path, tables, labels)
    kept = [row for row, label in enumerate(data.labels) if label.lower() not in _MISSING]
    if not kept:
        raise WarmstartError(f"{path}: no row has a number, all are NaN; {data.description}")
    num_missing = len(data) - len(kept)
    data = data.subset(kept) if num_missing else data
    has_commas = _has_decimal_commas(data.labels)
    rows = zip(data.labels, data.lines, strict=True)
    numbers = tuple(_number(label, has_commas, f"{path} line {line}") for label, line in rows)
    description = f"{data.description}{', decimal commas' if has_commas else ''}"
    unlabelled = data.unlabelled + num_missing
    return replace(data, labels=numbers, unlabelled=unlabelled, description=description)


def _has_decimal_commas(labels: Sequence[str]) -> bool:
    """Tell whether commas can only be decimal: 3,5 beside 4 and 1,25, but not 1,250 alone."""
    with_comma = [label for label in labels if "," in label]
    if not with_comma or not all(map(_WITH_COMMA.fullmatch, with_comma)):
        return False
    others_fit = all(_INTEGER.fullmatch(label) for label in labels if "," not in label)
    return others_fit and any(len(label.partition(",")[2]) != 3 for label in with_comma)


def _number(label: str, has_commas: bool, where: str) -> float:
    text = label.replace(",", ".") if has_commas else label
    if not _NUMBER.fullmatch(text) and text.lower().lstrip("+-") not in ("inf", "infinity"):
        raise WarmstartError(
            f"{where}: the label '{label}' is not a number; write 1234.5 or 1.2e3, without a unit, "
            "a percent sign or a mark between thousands. For labels in words, use --task classify"
        )
    number = float(text)
    if abs(number) > LARGEST:
        raise WarmstartError(
            f"{where}: the label '{label}' is too large; numbers from {-LARGEST:g} to {LARGEST:g} "
            "can be learned. Leave the row out, or divide all labels by a power of ten"
        )
    return number


@dataclass(frozen=True, kw_only=True)
class NumberSummary:
    """How numbers are spread."""

    lowest: float
    quartiles: tuple[float, float, float]
    highest: float
    mean: float

    def __str__(self) -> str:
        low, median, high = map(significant, self.quartiles)
        return (
            f"{significant(self.lowest)} to {significant(self.highest)}, half of them {low} to "
            f"{high}, median {median}, mean {significant(self.mean)}"
        )


def summarise_numbers(numbers: Sequence[float]) -> NumberSummary:
    """Return the ends, the quartiles and the mean of numbers."""
    lowest, low, median, high, highest = np.quantile(numbers, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return NumberSummary(
        lowest=lowest, quartiles=(low, median, high), highest=highest, mean=float(np.mean(numbers))
    )
