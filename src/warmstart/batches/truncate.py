"""Cut texts that are longer than the model reads, by a stated rule.

Knows nothing about special tokens.
"""

from collections.abc import Sequence

from warmstart.config.jobs import Truncate


def truncate(ids: Sequence[int], limit: int, rule: Truncate) -> list[int]:
    """Keep the beginning (`head`), the end (`tail`), or both with the `middle` cut out."""
    if len(ids) <= limit:
        return list(ids)
    if rule == "tail":
        return list(ids[len(ids) - limit :])
    front = limit if rule == "head" else (limit + 1) // 2
    return [*ids[:front], *ids[len(ids) - (limit - front) :]]
