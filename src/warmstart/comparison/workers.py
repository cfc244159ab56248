"""Workers train the cells of a comparison: in this process, in others here, or by Ray."""

import functools
import multiprocessing
import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Protocol, Self

import torch

from warmstart import progress
from warmstart.comparison.budget import apply_limit, is_beside, num_at_once
from warmstart.comparison.cells import CellGroup, Result, Step, cell_groups
from warmstart.comparison.commands import CompareConfig
from warmstart.comparison.plan import plan_experiment
from warmstart.comparison.texts import subset_sizes
from warmstart.errors import StoppedError, WarmstartError
from warmstart.jsonfiles import from_json
from warmstart.locks import inode_of, watch
from warmstart.pool import ProcessPool, give_way, hide_script
from warmstart.ray_cluster import RayCluster, refuse_other_code
from warmstart.runs.facts import ConfigFile
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import check_unchanged
from warmstart.version import code_digest


@dataclass(frozen=True)
class Outcome:
    """How a job ended, and the messages that it wrote."""

    lines: tuple[str, ...] = ()
    error: str | None = None
    result: Result | None = None

    def report(self) -> Result:
        """Show the job's messages here; return its result, or raise its error."""
        for line in self.lines:
            progress.say(line)
        if self.error is not None:
            raise WarmstartError(self.error)
        assert self.result is not None
        return self.result


@dataclass(frozen=True)
class CellOrder:
    """One step of a group, for a worker to run: a tuning or a cell."""

    config: CompareConfig
    folder: str  # the current folder of the command
    inode: int  # of the folder that the command holds
    code: bytes  # checksum of the code
    group: str
    step: Step
    tuned: Result | None = None

    @classmethod
    def of(cls, config: CompareConfig, group: CellGroup, step: Step, tuned: Result | None) -> Self:
        """Return the order for a step of a group."""
        inode = inode_of(Path(config.out))
        return cls(config, os.getcwd(), inode, code_digest(), group.stem.name, step, tuned)

    def run(self) -> Outcome:
        """Run the step in this process, which does nothing else."""
        display = _WorkerLines([])
        try:
            with progress.show_on(display):
                result = self._train()
        except StoppedError:  # the process was told to end
            os._exit(1)
        except WarmstartError as error:
            return Outcome(tuple(display.lines), str(error))
        return Outcome(tuple(display.lines), result=result)

    def _train(self) -> Result:
        refuse_other_code(self.code)
        if not Path(self.folder, self.config.out).is_dir():
            raise WarmstartError(
                f"{Path(self.folder, self.config.out)} is not visible on "
                f"{socket.gethostname()}: -o and the current folder must be on a file "
                "system that all machines share"
            )
        os.chdir(self.folder)
        with watch(Path(self.config.out), self.inode):
            with progress.silence():  # the command has shown these messages
                group = _groups(self.config)[self.group]
            return group.run(self.step, self.tuned)


@functools.lru_cache(maxsize=1)
def _groups(config: CompareConfig) -> dict[str, CellGroup]:
    """Plan a comparison again from its files, and return its groups by name."""
    run = RunFolder(config.out)
    check_unchanged(run)
    plan = plan_experiment(config)
    limit = from_json(ConfigFile, run.config(), run.config_file).within_minutes
    assert limit is not None, "it is decided before the first cell"
    config, plan = apply_limit(config, plan, limit)
    subsets = subset_sizes(config, plan.texts)
    return {group.stem.name: group for group in cell_groups(config, run, plan, subsets)}


@dataclass(frozen=True)
class _WorkerLines:
    """A display that keeps the messages of a job."""

    lines: list[str]

    def say(self, line: str) -> None:
        self.lines.append(line)

    def advance(self, amount: float, note: str = "") -> None: ...

    def bar(
        self, title: str, total: float | None, unit: str, done: float
    ) -> Iterator[progress.Bar]:
        yield self


def open_workers(config: CompareConfig) -> AbstractContextManager["Workers"]:
    """Return the workers that train the cells; they end with the `with` block."""
    if config.ray is not None:
        return closing(RayTasks(config))
    if num_at_once(config) > 1:
        return closing(LocalProcesses(config, num_at_once(config)))
    if is_beside(config):
        return closing(BesideTheDevice(config))
    return nullcontext(ThisProcess())


class Workers(Protocol):
    """Something that trains cells."""

    @property
    def losses(self) -> tuple[type[Exception], ...]:
        """Return the errors which mean that a worker was lost, not that its job is at fault."""

    def has_room(self, group: CellGroup, pending: Sequence[CellGroup]) -> bool:
        """Tell whether to submit a job of a group, given the groups of jobs not yet reported."""

    def submit(self, group: CellGroup, step: Step, tuned: Result | None) -> "Future[Outcome]":
        """Start to tune an arm, or to train a cell with the tuned settings."""


class ThisProcess:
    """Trains one cell after the other."""

    losses: tuple[type[Exception], ...] = ()

    def has_room(self, group: CellGroup, pending: Sequence[CellGroup]) -> bool:
        return not pending

    def submit(self, group: CellGroup, step: Step, tuned: Result | None) -> "Future[Outcome]":
        finished: Future[Outcome] = Future()
        finished.set_result(Outcome(result=group.run(step, tuned)))
        return finished


class LocalProcesses:
    """Trains cells in several processes of this machine, which end with this one."""

    losses = (BrokenExecutor,)

    def __init__(self, config: CompareConfig, num: int, takes_gpus: bool = True) -> None:
        self.config, self._num, self._takes_gpus = config, num, takes_gpus
        self._pool = self._new_pool()

    def has_room(self, group: CellGroup, pending: Sequence[CellGroup]) -> bool:
        return len(pending) < self._num

    def submit(self, group: CellGroup, step: Step, tuned: Result | None) -> "Future[Outcome]":
        order = CellOrder.of(self.config, group, step, tuned)
        with hide_script():
            try:
                return self._pool.submit(order.run)
            except BrokenExecutor:  # a process was lost: the others are replaced, too
                self._pool.close()
                self._pool = self._new_pool()
                return self._pool.submit(order.run)

    def close(self) -> None:
        """End all processes at once."""
        self._pool.close()

    def _new_pool(self) -> ProcessPool:
        number = multiprocessing.get_context("spawn").Value("i", 0) if self._takes_gpus else None
        return ProcessPool(self._num, _choose_device, number)


class BesideTheDevice:
    """Trains arms on the device in this process, and the other arms in a process beside it."""

    def __init__(self, config: CompareConfig) -> None:
        self._here, self._beside = ThisProcess(), LocalProcesses(config, 1, takes_gpus=False)
        self.losses = self._beside.losses

    def has_room(self, group: CellGroup, pending: Sequence[CellGroup]) -> bool:
        """Allow one job on the device at a time; other jobs wait in the queue of their process."""
        if not group.arm.uses_device:
            return True
        return self._here.has_room(group, [g for g in pending if g.arm.uses_device])

    def submit(self, group: CellGroup, step: Step, tuned: Result | None) -> "Future[Outcome]":
        workers = self._here if group.arm.uses_device else self._beside
        return workers.submit(group, step, tuned)

    def close(self) -> None:
        """End the process beside this one."""
        self._beside.close()


def _choose_device(number: "Synchronized[int] | None") -> None:
    """Take the GPU with the next number; without numbers, take none.

    A process without a GPU gives way to the process that keeps the GPU busy.
    """
    if number is None:
        give_way()
    elif torch.cuda.is_available():
        with number.get_lock():
            torch.cuda.set_device(number.value % torch.cuda.device_count())
            number.value += 1


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
        return True  # the cluster queues the jobs

    def submit(self, group: CellGroup, step: Step, tuned: Result | None) -> "Future[Outcome]":
        return self._train(CellOrder.of(self.config, group, step, tuned))

    def close(self) -> None:
        """End the tasks that still run, and leave the cluster."""
        self._cluster.close()

    def _num_gpus(self) -> float:
        """Return the GPUs for each model: --ray-gpus, else one if the cluster has any to use."""
        if self.config.ray_gpus is not None:
            return self.config.ray_gpus
        return float(self._cluster.total("GPU") > 0 and self.config.device != "cpu")
