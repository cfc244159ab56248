"""Listen, announce, serve until a signal arrives, and finish what was accepted."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from warmstart.errors import WarmstartError

MOST_CONNECTIONS = 2048


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=MOST_CONNECTIONS)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise WarmstartError(
            f"--host {host} --port {port} cannot be listened on ({reason}); choose another"
        ) from None


def url_of(listener: socket.socket) -> str:
    """Return the address of a socket for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_app(app: FastAPI, listener: socket.socket, timeout_s: float) -> None:
    """Serve until SIGINT or SIGTERM; then take no more requests, and answer those accepted."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here depends on the address of a client
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=max(1, round(timeout_s)),
    )
    _Server(config).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that ends normally when a signal asks it to."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
