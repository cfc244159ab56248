"""Find a table's header, and its columns of text and label, from its first rows.

Where the rows leave a doubt, the error shows them with the `--columns` flag to paste.
"""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from warmstart.data.headers import LABEL_NAMES, TEXT_NAMES, is_header, is_number
from warmstart.data.lengths import count_words
from warmstart.errors import WarmstartError
from warmstart.formats import quantity, shorten

MOST_COLUMNS = 16_384  # as Excel has; a text or label is never among more
_JUDGED_COLUMNS = 64  # enough to tell a header from data
_SHOWN = 20  # cells of a row, or names of columns, that a message shows
ROWS_TO_JUDGE = 8  # in fewer rows, a value that occurs once says nothing
_INDEX_NAMES = ("", "index", "id", "unnamed: 0", "__index_level_0__")  # pandas writes these
_MOST_LABELS = 50
_LABEL_CHARS = 40  # a label has at most this many on average
_TEXT_WORDS = 3  # a text has at least this many on average

_DATE = re.compile(r"(\d{4}-\d\d?-\d\d?|\d\d?([./-])\d\d?\2\d{2}(\d\d)?)(?!\d)")

_ALIASES = {"text": TEXT_NAMES.split(), "label": LABEL_NAMES.split()}
_TIMES_LONGER = 3  # one of two columns of text is taken if it is this many times longer


def normal(name: str) -> str:
    """Return a column's name as it is compared."""
    return name.strip().casefold()


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
        """Tell whether the values are long, mostly different strings."""
        if not self.values or not all(isinstance(value, str) for value in self.values):
            return False
        num_words = sum(map(count_words, self.values))
        is_long = num_words >= _TEXT_WORDS * len(self.values)
        return is_long and len(self.counts) > len(self.values) / 2

    @cached_property
    def is_label(self) -> bool:
        """Tell whether the values are short, with few distinct ones among them."""
        if not all(isinstance(value, (str, int, float)) for value in self.values):
            return False
        is_few = 0 < len(self.counts) <= min(_MOST_LABELS, len(self.values) / 2)
        return is_few and self.mean_chars <= _LABEL_CHARS and not self.has_dates

    @cached_property
    def has_dates(self) -> bool:
        """Tell whether every value begins like a date: 2026-11-18, 18.11.26 or 11/18/2026."""
        return all(_DATE.match(str(value).strip()) for value in self.values)

    @cached_property
    def is_distinct(self) -> bool:
        """Tell whether no value occurs twice; False if there are too few to judge."""
        return len(self.counts) == len(self.values) > 2

    @cached_property
    def is_numeric(self) -> bool:
        return len(self.values) > 1 and all(map(is_number, self.values))

    @cached_property
    def is_index(self) -> bool:
        """Tell whether the values are row numbers, or the empty column of an index."""
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
    rows: Sequence[Mapping[int, Any]]  # the cells that are there, by the position of the column
    width: int  # the number of columns
    is_whole: bool  # the table has no other rows

    def __post_init__(self) -> None:
        if self.width > MOST_COLUMNS:
            first = quantity(len(self.rows), "row")
            raise WarmstartError(
                f"{self.path}: {self.width:,} columns in its first {first}, but a table "
                f"may have {MOST_COLUMNS:,}; keep those of the texts and labels"
            )

    @cached_property
    def normal_names(self) -> list[str]:
        return list(map(normal, self.names or ()))

    @cached_property
    def columns(self) -> list[ColumnValues]:
        values: list[list[Any]] = [[] for _ in range(self.width)]
        for row in self.rows:
            for index, cell in row.items():
                if index < self.width and cell is not None and str(cell).strip():
                    values[index].append(cell)
        names = self.normal_names if self.names is not None else [None] * self.width
        return [ColumnValues(*pair) for pair in zip(names, map(tuple, values), strict=True)]

    def with_header(self) -> "Sample":
        """Return the same table with its first row as the names."""
        names = tuple(str(self.rows[0].get(index, "")).strip() for index in range(self.width))
        return Sample(self.path, names, self.rows[1:], self.width, self.is_whole)

    def part(self, indices: Sequence[int]) -> "Sample":
        """Return some columns of a table with names."""
        names = tuple((self.names or ())[index] for index in indices)
        rows = [{i: row[at] for i, at in enumerate(indices) if at in row} for row in self.rows]
        return Sample(self.path, names, rows, len(indices), self.is_whole)


def choose_columns(sample: Sample, roles: Sequence[str]) -> tuple[Sample, dict[str, int]]:
    """Return the table with its header, if it has one, and the position of every role."""
    if sample.names is None:
        is_first_header = _is_header(sample)
        if is_first_header is None and sample.width >= len(roles):
            raise _header_doubt(sample, roles)
        sample = sample.with_header() if is_first_header else sample
    choice = _Choice(sample, roles)
    if choice.missing:
        raise _column_doubt(choice)
    return sample, {role: choice.positions[role] for role in roles}


@dataclass(frozen=True)
class UnclearLabel:
    """A column that may be the label, where several may."""

    columns: tuple[str, ...]  # that it may be
    flags: tuple[str, ...]  # which name each of them


def unclear_label(sample: Sample) -> UnclearLabel | None:
    """Return the columns that may be the label of a table of texts; None: none, or it is clear."""
    if sample.names is None and is_surely_header(sample):
        sample = sample.with_header()
    choice = _Choice(sample, ("text", "label"))
    usual = [i for i in choice.free if sample.columns[i].is_label]
    usual = [i for i in usual if len(sample.columns[i].counts) > 1]
    columns = usual or choice.possible_labels
    if choice.missing != ["label"] or not columns:
        return None
    names = sample.names or [f"column {index + 1}" for index in range(sample.width)]
    flags = []
    for index in columns:
        choice.positions["label"] = index
        flags.append(_flag(choice))
    return UnclearLabel(tuple(names[index] for index in columns), tuple(flags))


def is_surely_header(sample: Sample) -> bool:
    """Tell whether the first row can only be a header."""
    return _is_header(sample) is True


def _is_header(sample: Sample) -> bool | None:
    first, *rows = sample.rows
    names = [_shown(first.get(index)) for index in range(sample.width)]
    judged = range(min(sample.width, _JUDGED_COLUMNS))
    return is_header(names, [[_shown(row.get(index)) for row in rows] for index in judged])


def _shown(cell: Any) -> str:
    return "" if cell is None else str(cell)


class _Choice:
    """The columns that are chosen for roles, by one rule after the other."""

    def __init__(self, sample: Sample, roles: Sequence[str]) -> None:
        self.sample, self.roles = sample, tuple(roles)
        self.positions: dict[str, int] = {}
        for rule in (self._by_name, self._by_alias, self._by_content, self._by_elimination):
            for role in self.missing:
                if (index := rule(role)) is not None:
                    self.positions[role] = index
        if not self.positions and self._has_usual_order():
            self.positions = dict(zip(roles, self.free, strict=True))

    @property
    def missing(self) -> list[str]:
        return [role for role in self.roles if role not in self.positions]

    @property
    def free(self) -> list[int]:
        """Return the columns without a role, except row numbers."""
        taken, columns = self.positions.values(), self.sample.columns
        return [i for i, column in enumerate(columns) if i not in taken and not column.is_index]

    @property
    def possible_labels(self) -> list[int]:
        """Return the columns without a role of which some value occurs twice."""
        return [i for i in self.free if not self.sample.columns[i].is_distinct]

    def guess(self, role: str) -> int:
        """Return the most likely column for a role."""
        columns, taken = self.sample.columns, self.positions.values()
        among = self.free or [i for i in range(len(columns)) if i not in taken]
        if role == "text":
            return max(among, key=self._mean_chars)
        if role == "label":
            sizes = {i: len(columns[i].counts) for i in self.possible_labels or among}
            return min(sizes, key=lambda i: (sizes[i] < 2, sizes[i]))
        return among[0]

    def _by_name(self, role: str) -> int | None:
        names = self.sample.normal_names
        if names.count(role) > 1:
            raise WarmstartError(
                f"{self.sample.path}: the header names the column {role} more than once"
            )
        return names.index(role) if role in names else None

    def _by_alias(self, role: str) -> int | None:
        columns, aliases = self.sample.columns, _ALIASES.get(role, ())
        named = [i for i in self.free if columns[i].name in aliases]
        return named[0] if len(named) == 1 else self._by_content(role, named)

    def _by_content(self, role: str, among: Sequence[int] | None = None) -> int | None:
        columns = self.sample.columns
        among = self.free if among is None else among
        if role == "text":
            texts = sorted((i for i in among if columns[i].is_text), key=self._mean_chars)
            is_clear = len(texts) == 1 or (
                len(texts) > 1
                and self._mean_chars(texts[-1]) >= _TIMES_LONGER * self._mean_chars(texts[-2])
            )
            return texts[-1] if is_clear else None
        if role == "label":
            labels = [i for i in among if columns[i].is_label]
            if (
                self.sample.is_whole
            ):  # else the rows may be sorted by a label that is still the same
                labels = [i for i in labels if len(columns[i].counts) > 1] or labels
            return labels[0] if len(labels) == 1 else None
        return None

    def _mean_chars(self, index: int) -> float:
        return self.sample.columns[index].mean_chars

    def _by_elimination(self, role: str) -> int | None:
        """Take the only column that is left for the only role that is left."""
        if len(self.free) != 1 or len(self.missing) != 1:
            return None
        column = self.sample.columns[self.free[0]]
        is_unlikely = len(column.values) >= ROWS_TO_JUDGE and not column.is_label
        return None if role == "label" and is_unlikely else self.free[0]

    def _has_usual_order(self) -> bool:
        """Tell whether columns without names may be taken in the order of the roles."""
        columns = [self.sample.columns[index] for index in self.free]
        if self.sample.names is not None or len(columns) != len(self.roles):
            return False
        return self.roles[-1] != "label" or len(columns[0].counts) >= len(columns[-1].counts)


def _header_doubt(sample: Sample, roles: Sequence[str]) -> WarmstartError:
    named, bare = (_flag(_Choice(table, roles)) for table in (sample.with_header(), sample))
    header = f"add {named}" if named != bare else "give each of its columns a name of its own"
    return WarmstartError(
        f"{sample.path}: the first row may be a header or data; {show_rows(sample)}; "
        f"if it is a header {header}, if it is data add {bare}"
    )


def _column_doubt(choice: _Choice) -> WarmstartError:
    sample = choice.sample
    if len(sample.columns) < len(choice.roles):
        return WarmstartError(
            f"{sample.path}: one column, but {' and '.join(choice.roles)} are needed; "
            f"{show_rows(sample)}; if another character separates fields, add --delimiter"
        )
    if "label" in choice.missing and not choice.possible_labels:
        return WarmstartError(
            f"{sample.path}: no column can be the label, whose values would occur more than once; "
            f"{show_rows(sample)}; give a file with labels: one without is for `warmstart predict`"
        )
    return WarmstartError(
        f"{sample.path}: which column is the {' and which the '.join(choice.missing)} is not "
        f"clear; {show_rows(sample)}; name them, for example {_flag(choice)}"
    )


def _flag(choice: _Choice) -> str:
    """Return the flag that names the chosen columns, with guesses for those that are missing."""
    for role in choice.missing:
        choice.positions[role] = choice.guess(role)
    sample, names = choice.sample, choice.sample.names
    chosen = {index: role for role, index in choice.positions.items()}
    if names is None or not all(_can_be_named(sample, index) for index in chosen):
        columns = [chosen.get(index, "_") for index in range(len(sample.columns))]
    else:
        columns = [_quote_comma(f"{role}={names[index]}") for index, role in chosen.items()]
    return f"--columns {shlex.quote(','.join(columns))}"


def _can_be_named(sample: Sample, index: int) -> bool:
    name = sample.normal_names[index]
    is_quotable = not {'"', "\n"}.intersection(name)
    return bool(name) and is_quotable and sample.normal_names.count(name) == 1


def _quote_comma(item: str) -> str:
    return f'"{item}"' if "," in item else item


def show_rows(sample: Sample) -> str:
    """Show the first two rows of a table in a message."""
    num_rows = 2 if sample.names is None else 1
    cells = [[row.get(i, "") for i in range(sample.width)] for row in sample.rows[:num_rows]]
    rows = cells if sample.names is None else [sample.names, *cells]
    return "it begins with " + " and ".join(f"[{list_names(row, ' | ')}]" for row in rows)


def list_names(names: Iterable[object], separator: str = ", ") -> str:
    """List the first names of columns, or cells of a row, in a message."""
    shown = [shorten(" ".join(str(name).split())) for name in islice(names, _SHOWN + 1)]
    return separator.join(shown[:_SHOWN] + ["…"] * (len(shown) > _SHOWN))
