"""Connections: how long a client may keep one without a whole request, and how many of them.

uvicorn limits the time between two requests, and the number of all connections. It waits forever
for the head of a request, reads heads of any size, and keeps an answer that nobody fetches.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MOST_CONNECTIONS = 2048
RESERVED = 32  # further connections, for /health alone
OTHER_FILES = 256  # that the process may have open
SILENT_S = 10.0  # for the head of a request, counted from the connection or the last answer
MOST_HEAD_BYTES = 65_536


class SilentConnections:
    """The connections without a whole request, by client address, the oldest of each first."""

    def __init__(self, most_per_address: int) -> None:
        self.most_per_address = most_per_address  # 0: any number
        self.by_address: dict[str, dict[Connection, None]] = {}

    def add(self, connection: "Connection") -> None:
        """Add a connection; close the oldest of its address if it has too many."""
        group = self.by_address.setdefault(connection.address, {})
        group[connection] = None
        if 0 < self.most_per_address < len(group):
            next(iter(group)).leave()

    def remove(self, connection: "Connection") -> None:
        """Remove a connection, if it is there."""
        group = self.by_address.get(connection.address, {})
        group.pop(connection, None)
        if not group:
            self.by_address.pop(connection.address, None)

    def __contains__(self, connection: "Connection") -> bool:
        return connection in self.by_address.get(connection.address, {})

    def close_oldest(self) -> None:
        """Close the oldest connection of the address that has most of them, if there is any."""
        if self.by_address:
            largest = max(self.by_address.values(), key=len)
            next(iter(largest)).leave()


class Connection(HttpToolsProtocol):
    """A connection that ends when its client keeps it waiting."""

    def __init__(
        self, *, silent: SilentConnections, most: int, timeout_s: float, **values: Any
    ) -> None:
        super().__init__(**values)
        self.silent, self.most, self.timeout_s = silent, most, timeout_s
        self.address = ""
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._num_head_bytes: int | None = None  # of a head that is not complete
        self._unanswered: dict[RequestResponseCycle, None] = {}  # requests, the oldest first

    def leave(self) -> None:
        """Close the connection; it no longer counts."""
        self.silent.remove(self)
        self.connections.discard(self)
        self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if len(self.connections) > self.most:
            self.silent.close_oldest()
        if len(self.connections) > self.most + RESERVED:
            self.leave()
        else:
            self._await_request()

    def _await_request(self) -> None:
        """Count as silent until a whole request has arrived."""
        self.silent.add(self)
        self._restart_head_timer()

    def _restart_head_timer(self) -> None:
        self._cancel(self._head_timer)
        seconds = min(SILENT_S, self.timeout_s)
        self._head_timer = self.loop.call_later(seconds, self._end_silence)

    def _end_silence(self) -> None:
        if self.flow.write_paused:  # the client still fetches the last answer
            self._restart_head_timer()
        else:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._num_head_bytes = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._num_head_bytes is not None:
            self._num_head_bytes += len(data)
            if self._num_head_bytes > MOST_HEAD_BYTES:
                self.transport.abort()

    def on_headers_complete(self) -> None:
        self._num_head_bytes = None
        self._cancel(self._head_timer)
        is_health = self.url.partition(b"?")[0] == b"/health"
        self.limit_concurrency = None if is_health else self.most + 1  # uvicorn answers 503 at it
        super().on_headers_complete()
        if self.cycle is not None:  # else the request asks for another protocol
            self._unanswered[self.cycle] = None

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if not self.cycle.response_complete:  # else the rest of a request that was refused
            self.silent.remove(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        for cycle in [cycle for cycle in self._unanswered if cycle.response_complete]:
            del self._unanswered[cycle]
        if self.cycle.response_complete:  # no other request is waiting
            self._await_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel(self._write_timer)

    def shutdown(self) -> None:
        """Answer the request that was read; wait for no other."""
        if self in self.silent:
            self.transport.close()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._drop_unanswered()
        self.silent.remove(self)
        self._cancel(self._head_timer)
        self._cancel(self._write_timer)

    def _drop_unanswered(self) -> None:
        """Tell every request that its client is gone; uvicorn tells only the last one."""
        self.pipeline.clear()
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        self._unanswered.clear()

    @staticmethod
    def _cancel(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def connection_limit() -> int:
    """Return how many connections the system allows; let it allow as many as are wanted."""
    try:
        import resource
    except ImportError:  # Windows counts no files
        return MOST_CONNECTIONS
    files = MOST_CONNECTIONS + RESERVED + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(RESERVED, min(MOST_CONNECTIONS, allowed - RESERVED - OTHER_FILES))
