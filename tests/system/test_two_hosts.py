"""Two hosts, each a network namespace of its own: `torchrun` over both, one lost and replaced.

`tests/recipes/test_together.py` does the same with two processes of this machine, in seconds.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import ENVIRONMENT, MACHINE, SHAPE, World, succeed
from warmstart.runs.checkpoint import list_checkpoints
from warmstart.runs.folder import RunFolder

ADDRESSES = ("10.213.77.1", "10.213.77.2")
PRETRAIN = (
    f"pretrain {{texts}} {SHAPE} --dropout 0 --batch-tokens 96 --steps 150 --eval-every 150 "
    f"--log-every 1 --optimizer adamw --save-every 20 {MACHINE} -o {{out}} --resume"
)
# Without it, a launcher that is new in a later round is not told the address of the first one.
VARIABLES = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
_numbers = itertools.count()


class Hosts:
    """Two network namespaces with a cable between them."""

    def __init__(self) -> None:
        number = f"{os.getpid()}-{next(_numbers)}"
        self.names = [f"warmstart-{number}-{side}" for side in "ab"]
        self.links = [f"ws{number}{side}" for side in "ab"]

    def create(self) -> None:
        for name in self.names:
            _ip(f"netns add {name}")
        (a, b), (first, second) = self.names, self.links
        _ip(f"link add {first} netns {a} type veth peer name {second} netns {b}")
        for name, link, address in zip(self.names, self.links, ADDRESSES, strict=True):
            _ip(f"-n {name} addr add {address}/24 dev {link}")
            _ip(f"-n {name} link set {link} up")
            _ip(f"-n {name} link set lo up")

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def launch(self, number: int, command: list[str], log: Path) -> "subprocess.Popen[bytes]":
        """Start torchrun on a host, in a process group of its own."""
        launcher = (
            "-m torch.distributed.run --nnodes 2 --nproc-per-node 1 --max-restarts 3 --rdzv-id job "
            f"--rdzv-backend c10d --rdzv-endpoint {ADDRESSES[0]}:29400 "
            f"--rdzv-conf is_host={number == 0} --local-addr {ADDRESSES[number]} -m warmstart"
        )
        words = ["ip", "netns", "exec", self.names[number], sys.executable, *launcher.split()]
        with log.open("ab") as file:
            return subprocess.Popen(
                [*words, *command],
                stdout=file,
                stderr=file,
                start_new_session=True,
                env={**ENVIRONMENT, **VARIABLES, "GLOO_SOCKET_IFNAME": self.links[number]},
            )


def _ip(command: str) -> None:
    done = subprocess.run(["ip", *command.split()], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine allows no network namespaces: {done.stderr.strip()}")


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    if shutil.which("ip") is None:
        pytest.skip("the program ip is not installed")
    made = Hosts()
    try:
        made.create()
        yield made
    finally:
        made.remove()


def _losses(run: RunFolder) -> dict[int, float]:
    lines = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    return {line["step"]: line["train_loss"] for line in lines if "train_loss" in line}


@pytest.mark.docs
def test_a_host_that_is_lost_and_replaced_changes_nothing(
    hosts: Hosts, world: World, tmp_path: Path
) -> None:
    alone, together = RunFolder(tmp_path / "alone"), RunFolder(tmp_path / "together")
    places = {"texts": str(world.texts), "out": str(together.path)}
    command, logs = PRETRAIN.format(**places).split(), [tmp_path / "a.log", tmp_path / "b.log"]
    first, second = (hosts.launch(number, command, logs[number]) for number in (0, 1))
    try:
        while first.poll() is None and not list_checkpoints(together):
            time.sleep(0.02)
        os.killpg(second.pid, signal.SIGKILL)  # the launcher and its process
        second.wait()
        assert not together.is_finished, "it was over before the kill"
        second = hosts.launch(1, command, logs[1])
        codes = [process.wait(timeout=240) for process in (first, second)]
    finally:
        for process in (first, second):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    told = "\n".join(log.read_text() for log in logs)
    assert codes == [0, 0], told
    assert "continuing from step" in told
    succeed(PRETRAIN, texts=world.texts, out=alone.path)
    assert _losses(together) == pytest.approx(_losses(alone), rel=1e-3)
