"""Tokenize shards as tasks of a Ray cluster, which starts lost ones again.

The text of a shard is sent to a worker and its files are sent back, so the machines need to share
no folder, and what a lost one has begun is nowhere to be seen.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from warmstart.data.shard_workers import ShardWorkers
from warmstart.data.shards import Shard, ShardWriter
from warmstart.errors import LostProcessError, WarmstartError
from warmstart.files import write_whole
from warmstart.ray_cluster import RETRIES, RayCluster, refuse_other_code
from warmstart.version import code_digest


class RayWorkers(ShardWorkers):
    """One worker for each CPU of a cluster."""

    def __init__(self, cluster: RayCluster, writer: ShardWriter, folder: Path) -> None:
        if not cluster.has_room(CPU=1):
            raise WarmstartError("no machine of the Ray cluster has a CPU to tokenize with")
        super().__init__(writer, folder, int(cluster.total("CPU")))
        self._cluster = cluster
        self._files_of = cluster.task(files_of)
        self._shared = cluster.put(replace(writer))  # without what it has cached

    def write(self, shard: Shard, folder: Path) -> None:
        try:
            files = self._files_of(code_digest(), self._shared, shard).result()
        except self._cluster.losses as fault:
            raise LostProcessError(
                f"a part of the text was sent to {RETRIES + 1} workers of the Ray cluster, and all "
                f"were lost ({type(fault).__name__}), perhaps for lack of memory"
            ) from None
        for name, content in files.items():
            write_whole(folder / name, content)

    def stop(self) -> None:
        self._cluster.cancel()


def files_of(code: bytes, writer: ShardWriter, shard: Shard) -> dict[str, bytes]:
    """Return the files of a shard by name."""
    refuse_other_code(code)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is a worker for each CPU
    with tempfile.TemporaryDirectory(prefix="warmstart-shard-") as folder:
        writer.write(shard, Path(folder))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}
