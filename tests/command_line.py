"""The product as a user meets it: a small world of files, and its commands run in this process.

Knows nothing about what any test looks for.
"""

import contextlib
import io
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from warmstart.samples.samples import SampleSizes, write_samples

SHAPE = (
    "--preset tiny --width 16 --heads 2 --depth 1 --ffn-width 32 --vocab-size 300 --max-length 16 "
    "--positions sinusoidal"
)
MACHINE = "--threads 1 --precision fp32"
TINY = f"--objective causal {SHAPE} --batch-tokens 64 --steps 6 {MACHINE}"
QUICK = f"--epochs 2 {MACHINE}"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Return the last line on standard error: an error's one sentence."""
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""

    @property
    def json(self) -> Any:
        """Return standard output as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True)
class World:
    """Files of made-up reviews."""

    texts: Path
    train: Path
    valid: Path
    test: Path


def run(command: str, stdin: bytes = b"", **places: object) -> Ran:
    """Run one command line in this process; `{name}` in it stands for a place."""
    from warmstart.cli.main import main

    arguments = shlex.split(command.format(**places))
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        pytest.MonkeyPatch.context() as given,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        given.setattr(sys, "argv", ["warmstart", *arguments])
        given.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


def succeed(command: str, stdin: bytes = b"", **places: object) -> Ran:
    """Run a command that must not fail."""
    ran = run(command, stdin, **places)
    assert ran.code == 0, ran.err
    return ran


def figures(command: str, **places: object) -> Any:
    """Return what a command prints with --json."""
    return succeed(f"{command} --json", **places).json


def refuse(command: str, stdin: bytes = b"", **places: object) -> str:
    """Run a command that must be refused, and return its one sentence."""
    ran = run(command, stdin, **places)
    assert ran.code == 2, ran
    return ran.said


def arguments_of(command: str, **places: object) -> list[str]:
    """Return a command line for a process of its own."""
    return [sys.executable, "-m", "warmstart", *shlex.split(command.format(**places))]


def spawn(command: str, stdin: bytes = b"", **places: object) -> Ran:
    """Run one command in a process of its own."""
    done = subprocess.run(
        arguments_of(command, **places),
        input=stdin,
        capture_output=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Inside the block, no byte can be written to a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@contextlib.contextmanager
def little_memory(spare: int) -> Iterator[None]:
    """Inside the block, this process gets so many bytes at most."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextlib.contextmanager
def before_step(number: int, act: Callable[[], object]) -> Iterator[None]:
    """Inside the block, call `act` just before a training takes its step of this number."""
    from warmstart.training.trainer import Trainer

    take = Trainer.take_step

    def stepping(trainer: Trainer, step: int, rate: float) -> Any:
        if step + 1 == number and rate > 0:  # at a rate of 0 a step is only timed
            act()
        return take(trainer, step, rate)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Trainer, "take_step", stepping)
        yield


def stop_at(step: int, command: str, **places: object) -> None:
    """Run a command that gets SIGTERM while it takes a step."""
    with before_step(step, lambda: signal.raise_signal(signal.SIGTERM)):
        ran = run(command, **places)
    assert ran.code == 143, ran
    assert f"step {step}" in ran.said
    assert "--resume" in ran.said


def weights_of(run_folder: Path) -> bytes:
    """Return the bytes of a run's weights."""
    return (run_folder / "model.safetensors").read_bytes()


def read(path: Path) -> Any:
    """Return a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_labelled(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Write (label, text) rows with a header."""
    lines = [f"{label}\t{text}\n" for label, text in [("label", "text"), *rows]]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def read_labelled_rows(path: Path) -> list[tuple[str, str]]:
    """Return the (label, text) rows of a file with a header."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    return [(line.split("\t")[0], line.split("\t")[1]) for line in lines]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    sizes = SampleSizes(
        unlabelled=200, train=48, valid=24, test=24, train_pairs=1, valid_pairs=1, test_pairs=1
    )
    files = write_samples(folder, sizes=sizes)
    return World(files.unlabelled, files.train, files.valid, files.test)


@pytest.fixture(scope="session")
def base(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "base"
    succeed(f"pretrain {{texts}} -o {{out}} {TINY}", texts=world.texts, out=folder)
    return folder


@pytest.fixture(scope="session")
def masked(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "masked"
    settings = f"--objective masked {SHAPE} --batch-tokens 64 --steps 6 {MACHINE}"
    succeed(f"pretrain {{texts}} -o {{out}} {settings}", texts=world.texts, out=folder)
    return folder


@pytest.fixture(scope="session")
def warm(world: World, base: Path) -> Path:
    folder = base.parent / "warm"
    command = f"finetune --from {{base}} --train {{train}} --valid {{valid}} -o {{out}} {QUICK}"
    succeed(command, base=base, train=world.train, valid=world.valid, out=folder)
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """Stand in an empty folder."""
    with contextlib.chdir(tmp_path):
        yield tmp_path
