"""Where the cells of a comparison are trained: in this process, in others here, or by Ray."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from threading import Thread
from typing import Protocol

import torch

from warmstart.experiments.budget import num_at_once
from warmstart.experiments.cells import CellGroup
from warmstart.experiments.ray_tasks import RayTasks
from warmstart.experiments.workers import CellOrder, Outcome
from warmstart.settings.finetuning import CompareConfig


def open_workers(config: CompareConfig) -> AbstractContextManager["Workers"]:
    """Return what trains the cells; it ends with its block."""
    if config.ray is not None:
        return closing(RayTasks(config))
    if num_at_once(config) > 1:
        return closing(LocalProcesses(config))
    return nullcontext(ThisProcess())


class Workers(Protocol):
    """Something that trains cells."""

    @property
    def most_jobs(self) -> int:
        """Return how many jobs to submit at a time."""

    @property
    def losses(self) -> tuple[type[Exception], ...]:
        """Return the errors which mean that a worker was lost, not that its job is at fault."""

    def submit(self, group: CellGroup, seed: int | None) -> "Future[Outcome]":
        """Train a cell, or tune an arm."""


class ThisProcess:
    """Trains one cell after the other."""

    most_jobs = 1
    losses: tuple[type[Exception], ...] = ()

    def submit(self, group: CellGroup, seed: int | None) -> "Future[Outcome]":
        group.train(seed)
        finished: Future[Outcome] = Future()
        finished.set_result(Outcome())
        return finished


class LocalProcesses:
    """Trains cells in several processes of this machine, which end with this one."""

    losses = (BrokenExecutor,)

    def __init__(self, config: CompareConfig) -> None:
        self.config, self.most_jobs = config, num_at_once(config)
        self._context = multiprocessing.get_context("spawn")
        # Nobody writes to it: a worker ends when this end is closed, also by a kill.
        self._life, self._watched = self._context.Pipe(duplex=False)
        self._pool = self._started()

    def submit(self, group: CellGroup, seed: int | None) -> "Future[Outcome]":
        order = CellOrder.of(self.config, group, seed)
        with _ctrl_c_blocked():  # a new process inherits this: only the first one obeys Ctrl-C
            try:
                return self._pool.submit(order.run)
            except BrokenExecutor:  # a process was lost: the others are replaced, too
                self._pool.shutdown()
                self._pool = self._started()
                return self._pool.submit(order.run)

    def close(self) -> None:
        """End all processes at once."""
        self._watched.close()
        self._pool.shutdown(cancel_futures=True)
        self._life.close()

    def _started(self) -> ProcessPoolExecutor:
        number = self._context.Value("i", 0)
        return ProcessPoolExecutor(
            self.most_jobs, self._context, _prepare_process, (self._life, number)
        )


def _prepare_process(life: Connection, number: "Synchronized[int]") -> None:
    """Take the next GPU, if there are any, and end when the first process does."""
    Thread(target=_end_with, args=(life,), daemon=True).start()
    if torch.cuda.is_available():
        with number.get_lock():
            torch.cuda.set_device(number.value % torch.cuda.device_count())
            number.value += 1


def _end_with(life: Connection) -> None:
    life.poll(None)
    os._exit(1)


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
