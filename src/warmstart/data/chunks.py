"""Group a stream of items into lists of bounded size."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def chunked(
    items: Iterable[T], limit: int, size_of: Callable[[Any], int] = lambda _: 1
) -> Iterator[list[T]]:
    """Yield items in order, in lists that end when their total size reaches `limit`."""
    chunk: list[T] = []
    size = 0
    for item in items:
        chunk.append(item)
        size += size_of(item)
        if size >= limit:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
