"""Train the cells of a comparison as tasks of a Ray cluster, which starts lost ones again."""

from collections.abc import Sequence
from concurrent.futures import Future

from warmstart.errors import WarmstartError
from warmstart.experiments.cells import CellGroup
from warmstart.experiments.workers import CellOrder, Outcome
from warmstart.ray_cluster import RayCluster
from warmstart.settings.finetuning import CompareConfig


class RayTasks:
    """Trains cells wherever a cluster has room for them."""

    def __init__(self, config: CompareConfig) -> None:
        self.config, self._cluster = config, RayCluster(config.ray or "auto")
        self.losses = self._cluster.losses
        num_cpus, num_gpus = float(config.threads or 1), self._num_gpus()
        if not self._cluster.has_room(CPU=num_cpus, GPU=num_gpus):
            self._cluster.close()
            raise WarmstartError(
                f"no machine of the Ray cluster has {num_cpus:g} CPUs and {num_gpus:g} GPUs for a "
                "model: lower --threads or --ray-gpus"
            )
        self._train = self._cluster.task(CellOrder.run, num_cpus, num_gpus)

    def has_room(self, group: CellGroup, pending: Sequence[CellGroup]) -> bool:
        return True  # the cluster queues them

    def submit(self, group: CellGroup, seed: int | None) -> "Future[Outcome]":
        return self._train(CellOrder.of(self.config, group, seed))

    def close(self) -> None:
        """End what is still running, and leave the cluster."""
        self._cluster.close()

    def _num_gpus(self) -> float:
        """Return what each model needs: a GPU wherever there are any, unless told otherwise."""
        if self.config.ray_gpus is not None:
            return self.config.ray_gpus
        return float(self._cluster.total("GPU") > 0 and self.config.device != "cpu")
