"""The processes that share one training: who they are, and how they agree.

`torchrun`, or any launcher that sets the same variables, starts them; `torch.distributed` connects
them. Tensors on a GPU travel by NCCL, everything else by gloo, and no message is a pickle.
"""

import functools
import itertools
import json
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from warmstart.errors import LostProcessError, WarmstartError
from warmstart.jsonfiles import to_json
from warmstart.signals import wake_main_thread

T = TypeVar("T")

LONGEST_WAIT = timedelta(hours=2)  # for another process: it may be validating
CONNECT = timedelta(seconds=60)  # to reach the process that all others connect to
CONNECT_S = 5.0  # for one try
POLL_S = 0.05
LAUNCHER_POLL_S = 1.0
LAUNCHER = "WARMSTART_LAUNCHER"  # variable with the id of the process that launches others
_listening: list[socket.socket] = []  # for the other processes of this attempt
_joins = itertools.count()  # several trainings of one process must not share keys


@dataclass(frozen=True)
class Processes:
    """The processes of one training, of which this is number `rank`; 0 leads, and writes files."""

    rank: int = 0
    count: int = 1
    store: Store | None = None  # keys that all processes see; None: there is no other process

    @property
    def is_lead(self) -> bool:
        return self.rank == 0

    @property
    def is_shared(self) -> bool:
        """Tell whether other processes take part."""
        return self.count > 1

    @property
    def share(self) -> slice:
        """Return which rows of a step this process computes."""
        return slice(self.rank, None, self.count)

    @property
    def seed_parts(self) -> tuple[int, ...]:
        """Return the parts of a seed that set this process apart from the lead process."""
        return () if self.is_lead else (self.rank,)

    def add_up(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes."""
        if self.is_shared:
            _exchange(dist.all_reduce, tensor)

    def largest(self, *numbers: int) -> list[int]:
        """Return the largest value that any process has for each number."""
        if not self.is_shared:
            return list(numbers)
        tensor = torch.tensor(numbers)
        _exchange(dist.all_reduce, tensor, dist.ReduceOp.MAX)
        return [int(number) for number in tensor]

    def from_lead(self, value: T) -> T:
        """Return the JSON value that the lead process has."""
        if not self.is_shared:
            return value
        content = torch.tensor(list(to_json(value).encode() if self.is_lead else b""))
        content = content.to(torch.uint8)
        size = torch.tensor([len(content)])
        _exchange(dist.broadcast, size, 0)
        if not self.is_lead:
            content = torch.empty(int(size), dtype=torch.uint8)
        _exchange(dist.broadcast, content, 0)
        received: T = json.loads(bytes(content.tolist()))
        return received

    def copy_from_lead(self, tensors: Iterator[Tensor]) -> None:
        """Replace tensors by those of the lead process."""
        for tensor in tensors if self.is_shared else ():
            _exchange(dist.broadcast, tensor, 0)

    def check_same(self, what: str, digest: bytes) -> None:
        """Refuse to continue unless every process has the same content."""
        if not self.is_shared:
            return
        own = torch.tensor([int.from_bytes(digest[:7], "little")])
        of_all = [torch.zeros_like(own) for _ in range(self.count)]
        _exchange(dist.all_gather, of_all, own)
        for rank, other in enumerate(of_all):
            if not torch.equal(other, of_all[0]):
                raise WarmstartError(
                    f"process {rank} of {self.count} has other {what} than process 0: give every "
                    "machine the same"
                )

    def gate(self, name: str) -> None:
        """Let every process pass once the lead process has come here, however long that takes."""
        if self.store is None:
            return
        if self.is_lead:
            _exchange(self.store.set, name, "open")
        while not _exchange(self.store.check, [name]):
            time.sleep(POLL_S)  # signals are heard meanwhile


ALONE = Processes()
_current: ContextVar[Processes] = ContextVar("processes", default=ALONE)


def current() -> Processes:
    """Return the processes that share the open training; this process alone if none is open."""
    return _current.get()


@contextmanager
def share_training(processes: Processes) -> Iterator[None]:
    """Let these processes share what is trained in the block."""
    token = _current.set(processes)
    try:
        yield
    finally:
        _current.reset(token)


def _exchange(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function that needs the other processes; raise LostProcessError if one has ended."""
    try:
        return function(*arguments)
    except RuntimeError as fault:
        raise _lost_process() from fault


@contextmanager
def watch_connection() -> Iterator[None]:
    """Turn errors of the connection inside the block into LostProcessError."""
    try:
        yield
    except RuntimeError as fault:
        if not isinstance(fault, dist.DistError) and "gloo" not in str(fault):
            raise
        raise _lost_process() from fault


def _lost_process() -> LostProcessError:
    return LostProcessError(
        "another process of this training has ended or cannot be reached any more"
    )


def num_launched() -> int:
    """Return how many processes a launcher started for this job; 1 without a launcher."""
    return _variable("WORLD_SIZE", 1)


def launched_rank() -> int:
    """Return the number that a launcher gave this process, from 0."""
    return _variable("RANK", 0)


def local_rank() -> int:
    """Return the number of this process among those on its machine."""
    return _variable("LOCAL_RANK", 0)


def num_local() -> int:
    """Return how many processes of this job run on this machine."""
    return _variable("LOCAL_WORLD_SIZE", 1)


def is_restarted() -> bool:
    """Tell whether `torchrun --max-restarts` started this job again after a failure."""
    return _variable("TORCHELASTIC_RESTART_COUNT", 0) > 0


def _variable(name: str, default: int) -> int:
    value = os.environ.get(name, "")
    if value and not value.isdecimal():
        raise WarmstartError(f"the variable {name} is {value!r}; a launcher sets it to a number")
    return int(value) if value else default


@contextmanager
def join_processes() -> Iterator[Processes]:
    """Connect the processes that a launcher started; without one, yield ALONE."""
    rank, count = launched_rank(), num_launched()
    if count == 1:
        yield ALONE
        return
    if "TORCHELASTIC_RUN_ID" in os.environ:
        launcher = _variable(LAUNCHER, os.getppid())
        Thread(target=_stop_without, args=(launcher,), daemon=True).start()
    store = PrefixStore(f"training-{next(_joins)}", _store())
    _exchange(
        functools.partial(
            dist.init_process_group,
            _backend(),
            store=store,
            rank=rank,
            world_size=count,
            timeout=LONGEST_WAIT,
        )
    )
    processes = Processes(rank, count, store)
    with share_training(processes):
        yield processes
    _exchange(dist.barrier)  # the lead process may hold the store that the others still read
    dist.destroy_process_group()  # not after an error: the others may be waiting for this process


def _stop_without(launcher: int) -> None:
    """Ask this process to save and end once its launcher is gone: nobody else would stop it."""
    while os.getppid() == launcher:
        time.sleep(LAUNCHER_POLL_S)
    wake_main_thread(signal.SIGTERM)


def _backend() -> str:
    """Return the backends: gloo, and NCCL for tensors on a GPU unless processes share one."""
    has_own_gpu = 0 < num_local() <= torch.cuda.device_count()
    return "cpu:gloo,cuda:nccl" if has_own_gpu and dist.is_nccl_available() else "gloo"


@functools.cache
def _store() -> Store:
    """Return the store of keys that all processes of a launch see."""
    address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    try:
        store, _, _ = next(rendezvous("env://", timeout=CONNECT))
        return PrefixStore(_attempt(store), store)  # sees no keys of an earlier attempt
    except (ValueError, RuntimeError, OSError) as fault:
        reason = str(fault).splitlines()[0]
        raise WarmstartError(
            f"{socket.gethostname()} cannot meet the other processes at {address} (MASTER_ADDR and "
            f"MASTER_PORT): {reason}; check the address, and that the port is free and reachable"
        ) from None


def _attempt(store: Store) -> str:
    """Return a name that the processes of this attempt share, and no earlier attempt had.

    Launchers count their own restarts, so a machine that was replaced has another number than the
    others. The lead process listens while it lives: a name that nobody listens for is old.
    """
    if launched_rank() == 0:
        name = secrets.token_hex(8)
        _listening.append(_new_listener())
        store.set("attempt", f"{_listening[-1].getsockname()[1]} {name}")
        return name
    until = time.monotonic() + CONNECT.total_seconds()
    while True:
        port, name = store.get("attempt").decode().split()
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], int(port)), CONNECT_S).close()
            return name
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(POLL_S)


def _new_listener() -> socket.socket:
    has_both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if has_both else socket.AF_INET
    return socket.create_server(
        ("", 0), family=family, backlog=socket.SOMAXCONN, dualstack_ipv6=has_both
    )


def is_first_to_report() -> bool:
    """Tell whether no other process of this launch has reported an error yet."""
    try:
        if num_launched() == 1 or not _store.cache_info().currsize:  # or the processes never met
            return True
        return _store().add("reported", 1) == 1
    except (WarmstartError, RuntimeError):  # no store to ask: better report twice than never
        return True
