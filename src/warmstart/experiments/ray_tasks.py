"""Train the cells of a comparison as tasks of a Ray cluster, which starts lost ones again."""

import os
import socket
from collections.abc import Sequence
from concurrent.futures import Future
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from warmstart.errors import WarmstartError
from warmstart.experiments.cells import CellGroup
from warmstart.experiments.workers import CellOrder, Outcome
from warmstart.settings.finetuning import CompareConfig
from warmstart.training.interrupt import signals_restored

CONNECT_S = 10.0
RETRIES = 10  # of a task whose worker or machine is lost


class RayTasks:
    """Trains cells wherever a cluster has room for them."""

    def __init__(self, config: CompareConfig) -> None:
        self.config, self._ray = config, _import_ray()
        self._is_guest = self._ray.is_initialized()  # of a cluster that the caller has joined
        if not self._is_guest:
            _join(self._ray, config.ray or "auto")
        exceptions = self._ray.exceptions
        self.losses: tuple[type[Exception], ...] = (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
        )
        resources = self._resources()
        _check_room(self._ray, resources)
        self._task = self._ray.remote(CellOrder.run).options(
            num_cpus=resources["CPU"], num_gpus=resources["GPU"], max_retries=RETRIES
        )
        self._running: list[Any] = []

    def has_room(self, group: CellGroup, pending: Sequence[CellGroup]) -> bool:
        return True  # the cluster queues them

    def submit(self, group: CellGroup, seed: int | None) -> "Future[Outcome]":
        order = CellOrder.of(self.config, group, seed)
        self._running.append(self._task.remote(order))
        future: Future[Outcome] = self._running[-1].future()
        return future

    def close(self) -> None:
        """End what is still running, and leave the cluster."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        if not self._is_guest:
            self._ray.shutdown()

    def _resources(self) -> dict[str, float]:
        """Return what each task needs: a GPU wherever there are any, unless told otherwise."""
        gpus = self.config.ray_gpus
        if gpus is None:
            has_gpus = self._ray.cluster_resources().get("GPU", 0) > 0
            gpus = float(has_gpus and self.config.device != "cpu")
        return {"CPU": float(self.config.threads or 1), "GPU": gpus}


def _import_ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise WarmstartError(
            "--ray needs the package ray, which is not installed: pip install 'warmstart[ray]'"
        ) from None
    return ray


def _join(ray: ModuleType, address: str) -> None:
    """Join the cluster at an address; auto: the one that is found, or a new one here."""
    given = None if address == "auto" else address
    try:
        if given is not None:
            _reach(given)
        with signals_restored():
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


def _check_room(ray: ModuleType, resources: dict[str, float]) -> None:
    """Refuse tasks that would wait forever, because no machine has what one of them needs."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(m.get(k, 0) >= need for k, need in resources.items()) for m in machines):
        raise WarmstartError(
            f"no machine of the Ray cluster has {resources['CPU']:g} CPUs and "
            f"{resources['GPU']:g} GPUs for a model: lower --threads or --ray-gpus"
        )
