"""Which column of a table plays which role: `label,text`, `_` to skip, `role=name` to rename.

Knows nothing about files.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from warmstart.errors import WarmstartError

ROLES = ("text", "text2", "label", "source", "target")
SKIP = "_"


@dataclass(frozen=True)
class Columns:
    """The columns of a table in file order, and how its header would call them."""

    roles: tuple[str, ...]  # "_" for a field nobody needs
    names: tuple[str, ...]  # the same length

    def named(self) -> dict[str, str]:
        """Return the name of every role that is wanted."""
        pairs = zip(self.roles, self.names, strict=True)
        return {role: name for role, name in pairs if role != SKIP}


def parse_columns(columns: Sequence[str], needed: Sequence[str]) -> Columns:
    """Read a column specification, which must give every role in `needed`."""
    split = [_parse_one(column) for column in columns]
    roles = tuple(role for role, _ in split)
    given = ",".join(columns)
    for role in ROLES:
        if roles.count(role) > 1:
            raise WarmstartError(f"--columns {given}: {role} is given more than once")
    missing = [role for role in needed if role not in roles]
    if missing:
        raise WarmstartError(f"--columns {given}: {' and '.join(missing)} must be among them")
    return Columns(roles, tuple(name for _, name in split))


def _parse_one(column: str) -> tuple[str, str]:
    role, equals, name = (part.strip() for part in column.partition("="))
    if role not in (*ROLES, SKIP) or (equals and not name):
        raise WarmstartError(
            f"--columns: {column!r} is neither one of {' '.join(ROLES)} nor _ (skip); "
            "write ROLE=NAME for a column with a name of its own"
        )
    return role, name or role
