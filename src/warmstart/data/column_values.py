"""What the first rows of a table hold, column by column: texts, labels, numbers, row numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROWS_TO_JUDGE = 8  # in fewer rows, a value that occurs once says nothing
_INDEX_NAMES = ("", "index", "id", "unnamed: 0", "__index_level_0__")  # pandas writes these
_MOST_LABELS = 50
_LABEL_CHARS = 40  # a label has at most so many, on average
_TEXT_WORDS = 3  # a text has at least so many, on average


def normal(name: str) -> str:
    """Return a column's name as it is compared."""
    return name.strip().casefold()


def is_number(value: object) -> bool:
    """Tell whether a cell holds a number."""
    try:
        float(str(value).replace(",", "."))
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class ColumnValues:
    """The values of one column that are not empty."""

    name: str | None  # normal; None without a header
    values: tuple[Any, ...]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(str(value).strip() for value in self.values)

    @cached_property
    def mean_chars(self) -> float:
        return sum(len(str(value)) for value in self.values) / max(1, len(self.values))

    @cached_property
    def is_text(self) -> bool:
        """Tell whether these are long, mostly different strings."""
        if not self.values or not all(isinstance(value, str) for value in self.values):
            return False
        num_words = sum(len(value.split()) for value in self.values)
        is_long = num_words >= _TEXT_WORDS * len(self.values)
        return is_long and len(self.counts) > len(self.values) / 2

    @cached_property
    def is_label(self) -> bool:
        """Tell whether these are short and have few different values."""
        if not all(isinstance(value, (str, int, float)) for value in self.values):
            return False
        is_few = 0 < len(self.counts) <= min(_MOST_LABELS, len(self.values) / 2)
        return is_few and self.mean_chars <= _LABEL_CHARS

    @cached_property
    def is_distinct(self) -> bool:
        """Tell whether no value occurs twice; of two values, this says nothing."""
        return len(self.counts) == len(self.values) > 2

    @cached_property
    def is_numeric(self) -> bool:
        return len(self.values) > 1 and all(map(is_number, self.values))

    @cached_property
    def is_index(self) -> bool:
        """Tell whether these are row numbers, or nothing at all."""
        if self.name in _INDEX_NAMES and (not self.values or self.is_numeric):
            return True
        shown = [str(value) for value in self.values]
        counts = (list(map(str, range(start, start + len(shown)))) for start in (0, 1))
        return len(shown) >= ROWS_TO_JUDGE and shown in counts


@dataclass(frozen=True)
class Sample:
    """The first rows of a table, without blank ones."""

    path: Path
    names: tuple[str, ...] | None  # None: the table has no header, or it is the first row
    rows: Sequence[Sequence[Any]]
    is_whole: bool  # the table has no other rows

    @cached_property
    def normal_names(self) -> list[str]:
        return list(map(normal, self.names or ()))

    @cached_property
    def columns(self) -> list[ColumnValues]:
        def values(index: int) -> tuple[Any, ...]:
            cells = (row[index] for row in self.rows if index < len(row))
            return tuple(cell for cell in cells if cell is not None and str(cell).strip())

        names = self.normal_names if self.names is not None else [None] * len(self.rows[0])
        return [ColumnValues(name, values(i)) for i, name in enumerate(names)]

    def headed(self) -> "Sample":
        """Return the same table with its first row as the names."""
        names = tuple(str(cell).strip() for cell in self.rows[0])
        return Sample(self.path, names, self.rows[1:], self.is_whole)

    def part(self, indices: Sequence[int]) -> "Sample":
        """Return some columns of a table with names."""
        names = tuple((self.names or ())[index] for index in indices)
        rows = [[row[i] if i < len(row) else None for i in indices] for row in self.rows]
        return Sample(self.path, names, rows, self.is_whole)
