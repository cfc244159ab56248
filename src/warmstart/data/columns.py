"""Parse `--columns`, and find the columns of a table that it names.

`--columns` lists roles in file order (`_` skips a field), names columns as `role=name`, or names
columns alone. What it leaves open is found by `detection`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warmstart.data.detection import (
    Sample,
    choose_columns,
    is_surely_header,
    list_names,
    normal,
    show_rows,
)
from warmstart.errors import WarmstartError
from warmstart.formats import quantity

ROLES = (
    *("text", "text2", "label", "source", "target", "tokens", "tags", "spans"),
    *("question", "context", "answer", "answer_start", "answers"),
)
SKIP = "_"


@dataclass(frozen=True)
class Column:
    """One entry of `--columns`."""

    role: str | None  # None: to be found, among the columns that are named without one
    name: str
    is_position: bool  # a role or `_` without a name, so it also stands for a position


@dataclass(frozen=True)
class Wanted:
    """The roles that a reader needs, and what `--columns` says about them."""

    roles: tuple[str, ...]
    optional: tuple[str, ...]  # taken where a column has this very name
    columns: tuple[Column, ...]

    @property
    def named(self) -> list[Column]:
        """Return the columns to look for by name."""
        roles = (None, *self.roles, *self.optional)
        return [column for column in self.columns if column.role in roles]

    @property
    def is_by_position(self) -> bool:
        return all(column.is_position for column in self.columns)


@dataclass(frozen=True)
class ColumnLayout:
    """Where the roles are in a table."""

    names: tuple[str, ...]  # of all columns; without a header, "column 1" and so on
    positions: dict[str, int]  # of each role among them
    has_header: bool

    def describe(self) -> str:
        """Say which columns were taken."""
        shown = [repr(name) if self.has_header else name for name in self.names]
        return ", ".join(f"{role} from {shown[i]}" for role, i in self.positions.items())


def parse_columns(
    columns: Sequence[str], roles: Sequence[str], optional: Sequence[str] = ()
) -> Wanted:
    """Parse `--columns`; it must name the required roles, or columns in which to find them."""
    parsed = tuple(map(_parse_column, columns))
    given = [column.role for column in parsed]
    flag = f"--columns {','.join(columns)}"
    for role in ROLES:
        if given.count(role) > 1:
            raise WarmstartError(f"{flag}: {role} occurs more than once")
    missing = [role for role in roles if role not in given]
    if parsed and given.count(None) < len(missing):
        raise WarmstartError(f"{flag}: {' and '.join(missing)} must be among them")
    return Wanted(tuple(roles), tuple(optional), parsed)


def label_name(columns: Sequence[str]) -> str:
    """Return the column that `--columns label=NAME` names; without it, 'label'."""
    return next((c.name for c in map(_parse_column, columns) if c.role == "label"), "label")


def _parse_column(column: str) -> Column:
    first, equals, name = (part.strip() for part in column.partition("="))
    if not first or (equals and (not name or first not in ROLES)):
        raise WarmstartError(
            f"--columns: {column!r} is neither one of {' '.join(ROLES)} nor _ (skip) nor the name "
            "of a column; write ROLE=NAME for a column with another name"
        )
    is_role = first in (*ROLES, SKIP)
    return Column(first if is_role else None, name or first, is_role and not equals)


def find_layout(sample: Sample, wanted: Wanted) -> ColumnLayout:
    """Return where the wanted roles are, and whether the first row is a header."""
    if not wanted.columns:
        return _detect_layout(sample, wanted)
    if sample.names is not None:
        return _by_name(sample, wanted)
    with_header = sample.with_header()
    if _has_names(with_header, wanted):
        return _by_name(with_header, wanted)
    if wanted.is_by_position:
        return _by_position(sample, wanted)
    raise _missing_column(with_header, wanted.named)


def _detect_layout(sample: Sample, wanted: Wanted) -> ColumnLayout:
    chosen, positions = choose_columns(sample, wanted.roles)
    for role in wanted.optional:
        if chosen.names and role in chosen.normal_names:
            positions[role] = chosen.normal_names.index(role)
    return _layout(chosen, positions)


def _has_names(sample: Sample, wanted: Wanted) -> bool:
    return {normal(column.name) for column in wanted.named} <= set(sample.normal_names)


def _by_name(sample: Sample, wanted: Wanted) -> ColumnLayout:
    if not _has_names(sample, wanted):
        raise _missing_column(sample, wanted.named)
    positions, unassigned = {}, []
    for column in wanted.named:
        index = _index_of(sample, column.name)
        if column.role is None:
            unassigned.append(index)
        else:
            positions[column.role] = index
    missing = [role for role in wanted.roles if role not in positions]
    if missing:
        part = sample.part(unassigned)
        _, indices = choose_columns(part, missing)
        positions |= {role: unassigned[index] for role, index in indices.items()}
    return _layout(sample, positions)


def _index_of(sample: Sample, name: str) -> int:
    names = sample.normal_names
    if names.count(normal(name)) > 1:
        raise WarmstartError(f"{sample.path}: the header names the column {name} more than once")
    return names.index(normal(name))


def _by_position(sample: Sample, wanted: Wanted) -> ColumnLayout:
    """Take roles in file order; a first row that is surely a header is not read as data."""
    width, num_named = sample.width, len(wanted.columns)
    if width != num_named:
        names = ", ".join(column.name for column in wanted.columns)
        raise WarmstartError(
            f"{sample.path}: {quantity(width, 'field')} in the first row, but {num_named} named "
            f"({names}); {show_rows(sample)}: name all of them in order, with _ for those to skip"
        )
    roles = [*wanted.roles, *wanted.optional]
    positions = {c.role: i for i, c in enumerate(wanted.columns) if c.role and c.role in roles}
    return _layout(sample.with_header() if is_surely_header(sample) else sample, positions)


def _missing_column(sample: Sample, columns: Iterable[Column]) -> WarmstartError:
    absent = next(c.name for c in columns if normal(c.name) not in sample.normal_names)
    listed = list_names(sample.names or ()) or "none"
    return WarmstartError(
        f"{sample.path}: no column {absent} (there: {listed}); "
        "use --columns ROLE=NAME with a name that is there"
    )


def _layout(sample: Sample, positions: dict[str, int]) -> ColumnLayout:
    has_header = sample.names is not None
    names = sample.names or ("",) * sample.width
    first = {name: index for index, name in reversed(list(enumerate(names)))}
    distinct = (
        name if name and first[name] == index else f"{name or 'column'} {index + 1}"
        for index, name in enumerate(names)
    )
    return ColumnLayout(tuple(distinct), positions, has_header)
