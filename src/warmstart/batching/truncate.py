"""Truncate texts that are longer than the model's maximum length."""

from collections.abc import Sequence

from warmstart.settings.choices import Truncate

REMAINDER: dict[Truncate, str] = {"head": "beginning", "tail": "end", "middle": "beginning and end"}


def truncate(ids: Sequence[int], limit: int, rule: Truncate) -> list[int]:
    """Keep the beginning (`head`), the end (`tail`), or both with the `middle` cut out."""
    if len(ids) <= limit:
        return list(ids)
    if rule == "tail":
        return list(ids[len(ids) - limit :])
    front = limit if rule == "head" else (limit + 1) // 2
    return [*ids[:front], *ids[len(ids) - (limit - front) :]]


def truncate_pair(
    first: Sequence[int], second: Sequence[int], limit: int, rule: Truncate
) -> tuple[list[int], list[int]]:
    """Truncate the longer text to the length of the other, then both equally, until they fit."""
    half = limit // 2
    longest_second = max(half, limit - len(first))
    longest_first = max(limit - half, limit - len(second))
    return truncate(first, longest_first, rule), truncate(second, longest_second, rule)
