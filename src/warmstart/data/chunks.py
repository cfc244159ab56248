"""Group a stream of items into lists of bounded size, and work on them ahead of their reader."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


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


def made_ahead(
    items: Iterable[T], make: Callable[[T], R], num_ahead: int = 2
) -> Iterator[tuple[T, R]]:
    """Yield every item with what is made of it, in order; the next ones are made meanwhile."""
    with ThreadPoolExecutor(1) as pool:
        yield from submitted_ahead(items, lambda item: pool.submit(make, item), num_ahead)


def submitted_ahead(
    items: Iterable[T], submit: Callable[[T], "Future[R]"], num_ahead: int
) -> Iterator[tuple[T, R]]:
    """Yield every item with its result, in order; so many more are submitted meanwhile."""
    waiting: deque[tuple[T, Future[R]]] = deque()
    for item in items:
        waiting.append((item, submit(item)))
        if len(waiting) > num_ahead:
            first, made = waiting.popleft()
            yield first, made.result()
    for last, made in waiting:
        yield last, made.result()
