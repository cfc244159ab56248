"""A Ray cluster: join it, run functions on its machines, leave it.

Ray queues the calls, and repeats those whose worker or machine is lost.
"""

import os
import socket
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from warmstart.errors import WarmstartError
from warmstart.signals import restore_signals
from warmstart.version import code_digest

CONNECT_S = 10.0
RETRIES = 10  # of a call whose worker or machine is lost


class RayCluster:
    """A cluster that this process has joined; one that the caller joined before is not left."""

    def __init__(self, address: str) -> None:
        self._ray = _import_ray()
        self._is_guest = self._ray.is_initialized()
        if not self._is_guest:
            _join(self._ray, address)
        exceptions = self._ray.exceptions
        self.losses: tuple[type[Exception], ...] = (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
        )
        self._running: set[Any] = set()

    def total(self, resource: str) -> float:
        """Return the number of CPUs or GPUs ("CPU", "GPU") of all machines together."""
        return float(self._ray.cluster_resources().get(resource, 0.0))

    def has_room(self, **needs: float) -> bool:
        """Tell whether a machine has what one call needs: else it would wait forever."""
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return any(all(m.get(k, 0) >= need for k, need in needs.items()) for m in machines)

    def put(self, value: Any) -> Any:
        """Return a reference to a value that many calls take: it is sent once to each machine."""
        return self._ray.put(value)

    def task(
        self, function: Callable[..., Any], num_cpus: float = 1.0, num_gpus: float = 0.0
    ) -> Callable[..., "Future[Any]"]:
        """Return a function that calls `function` on any machine that has room."""
        remote = self._ray.remote(function).options(
            num_cpus=num_cpus, num_gpus=num_gpus, max_retries=RETRIES
        )

        def submit(*arguments: Any) -> "Future[Any]":
            call, future = remote.remote(*arguments), Future[Any]()
            self._running.add(call)
            call.future().add_done_callback(lambda done: self._finish(call, done, future))
            return future

        return submit

    def _finish(self, call: Any, done: "Future[Any]", future: "Future[Any]") -> None:
        """Pass the result or the error of a call on to its future."""
        self._running.discard(call)
        if (fault := done.exception()) is None:
            future.set_result(done.result())
        else:
            future.set_exception(_cause(self._ray.exceptions, fault))

    def cancel(self) -> None:
        """End every call that has not returned."""
        for call in list(self._running):
            self._ray.cancel(call, force=True)

    def close(self) -> None:
        """End every running call; leave the cluster unless the caller had joined it."""
        self.cancel()
        if not self._is_guest:
            self._ray.shutdown()


def _cause(kinds: ModuleType, fault: Any) -> Exception:
    """Return the error that a function raised on another machine."""
    cause: Exception = fault.cause if isinstance(fault, kinds.RayTaskError) else fault
    if not isinstance(cause, kinds.RaySystemError):
        return cause
    reason = str(cause).splitlines()[0].removeprefix("System error: ")
    return WarmstartError(
        f"a machine of the Ray cluster cannot run warmstart ({reason}): install the same version "
        "on all machines"
    )


def refuse_other_code(digest: bytes) -> None:
    """Stop unless this machine has the code of the one that asks, which sends its checksum."""
    if code_digest() != digest:
        raise WarmstartError(
            f"{socket.gethostname()} has other code than the machine that asks: install the same"
        )


def _import_ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise WarmstartError(
            "--ray needs the package ray, which is not installed: pip install 'warmstart[ray]'"
        ) from None
    return ray


def _join(ray: ModuleType, address: str) -> None:
    """Join the cluster at an address; auto: one that Ray finds, or a new one on this machine."""
    given = None if address == "auto" else address
    try:
        if given is not None:
            _reach(given)
        with restore_signals():
            ray.init(address=given, logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, OSError, RuntimeError, ValueError) as fault:
        reason = str(fault).splitlines()[0]
        raise WarmstartError(
            f"--ray {address}: no Ray cluster answers there ({reason}); give the address that "
            "`ray start --head` printed, or auto"
        ) from None


def _reach(address: str) -> None:
    """Fail if nothing listens at an address: Ray itself would end this process after minutes."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    if parts.hostname is None or parts.port is None:
        raise ValueError("it is not HOST:PORT")
    socket.create_connection((parts.hostname, parts.port), CONNECT_S).close()
