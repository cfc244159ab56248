"""Parse `--columns`: roles in file order, `_` to skip a field, `role=name` to rename a column."""

from collections.abc import Sequence
from dataclasses import dataclass

from warmstart.errors import WarmstartError

ROLES = ("text", "text2", "label", "source", "target")
SKIP = "_"


@dataclass(frozen=True)
class Columns:
    """The columns of a table in file order, with their names in a header."""

    roles: tuple[str, ...]  # "_" for a field that is skipped
    names: tuple[str, ...]  # the same length

    def named(self) -> dict[str, str]:
        """Return the column name of every role."""
        pairs = zip(self.roles, self.names, strict=True)
        return {role: name for role, name in pairs if role != SKIP}


def parse_columns(columns: Sequence[str], required: Sequence[str]) -> Columns:
    """Parse a column specification, which must contain every required role."""
    parsed = [_parse_column(column) for column in columns]
    roles = tuple(role for role, _ in parsed)
    for role in ROLES:
        if roles.count(role) > 1:
            raise WarmstartError(f"--columns {','.join(columns)}: {role} occurs more than once")
    missing = [role for role in required if role not in roles]
    if missing:
        raise WarmstartError(
            f"--columns {','.join(columns)}: {' and '.join(missing)} must be among them"
        )
    return Columns(roles, tuple(name for _, name in parsed))


def _parse_column(column: str) -> tuple[str, str]:
    role, equals, name = (part.strip() for part in column.partition("="))
    if role not in (*ROLES, SKIP) or (equals and not name):
        raise WarmstartError(
            f"--columns: {column!r} is neither one of {' '.join(ROLES)} nor _ (skip); "
            "write ROLE=NAME for a column with another name"
        )
    return role, name or role
