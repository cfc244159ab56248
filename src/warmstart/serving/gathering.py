"""Notice when the event loop has read all requests that have arrived.

Many clients that were answered together ask again together. A model that starts with the first
of their requests takes time from the event loop, which still reads the others, and computes a
small batch. A single request loses only some turns of an event loop that has nothing to do.
"""

import asyncio
from collections.abc import Callable

QUIET_TURNS = 2  # of the event loop: bytes that arrive in one turn are a request in the next
LONGEST_S = 0.02


class Gathering:
    """Calls a function when requests have stopped arriving; used in one event loop."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready
        self._num_arrived = self._num_seen = self._num_quiet = 0
        self._is_open = False

    def arrive(self) -> None:
        """Note a request."""
        self._num_arrived += 1
        if not self._is_open:
            self._is_open = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self._look, loop, loop.time() + LONGEST_S)

    def _look(self, loop: asyncio.AbstractEventLoop, until: float) -> None:
        is_quiet = self._num_arrived == self._num_seen
        self._num_quiet = self._num_quiet + 1 if is_quiet else 0
        self._num_seen = self._num_arrived
        if self._num_quiet < QUIET_TURNS and loop.time() < until:
            loop.call_soon(self._look, loop, until)
        else:
            self._num_quiet = 0
            self._is_open = False
            self._ready()
