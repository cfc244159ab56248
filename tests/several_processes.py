"""Processes that work together: on a toy model of each kind of training, or on a command.

Knows nothing about what any test looks for.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from command_line import Ran, before_step, run
from faulty_training import Fault, put_faults
from forked_commands import CONTEXT, importable
from warmstart.batching.batches import EncodedPairs, LabelledStream, PairStream, TokenLists
from warmstart.batching.masking import Corruption, MaskedStream
from warmstart.batching.packing import PackedStream, RunningText
from warmstart.errors import WarmstartError
from warmstart.model.backbone import recompute_activations
from warmstart.model.models import Classifier, LanguageModel, Translator
from warmstart.processes import join_processes, launched_rank, num_launched
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.tasks.causal import CausalObjective
from warmstart.tasks.classify import ClassifyObjective
from warmstart.tasks.masked import DocumentLoss, MaskedObjective, rarities
from warmstart.tasks.translate import TranslateObjective
from warmstart.training.loss_scale import LossScale
from warmstart.training.optimizers import OptimizerSettings, build_optimizers, warmup_cosine
from warmstart.training.step import Evaluation, LoopSettings, Objective, Stream
from warmstart.training.trainer import Trainer

SHAPE = ModelConfig(
    vocab_size=23, width=16, depth=2, heads=2, ffn_width=24, max_length=32, dropout=0.0
)
LOOP = LoopSettings(
    steps=20, clip=1.0, seed=0, eval_every=7, log_every=1, save_every=6, save_s=1e9, keep=9
)
Parts = tuple[nn.Module, Objective, Stream]
Build = Callable[[str, Runtime, RunFolder | None], Trainer]


def _numbers() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(3))


def _packed() -> PackedStream:
    ids = _numbers().integers(1, 22, 400).astype(np.uint16)
    return PackedStream(RunningText(ids, 8, 1, 2), rows_per_step=5, rows_per_batch=2, seed=0)


def _texts() -> list[list[int]]:
    numbers = _numbers()
    return [numbers.integers(1, 23, size).tolist() for size in range(2, 16)]


def _causal() -> Parts:
    return LanguageModel(SHAPE), CausalObjective(), _packed()


def _masked() -> Parts:
    packed = _packed()
    stream = MaskedStream(packed, Corruption(23, (0, 1, 2), 22, 0.3, 0), 5, 2)
    objective = MaskedObjective(DocumentLoss(1.0, rarities(packed.text.ids, 23)))
    return LanguageModel(replace(SHAPE, attention="bidirectional")), objective, stream


def _classify() -> Parts:
    texts = _texts()
    stream = LabelledStream(texts, [len(text) % 2 for text in texts], 5, 30, pad=0, seed=0)
    return Classifier(SHAPE, 2, "mean", 0.0), ClassifyObjective(torch.tensor([1.0, 2.5])), stream


def _translate() -> Parts:
    pairs = EncodedPairs(TokenLists(_texts()), TokenLists(_texts()[::-1]))
    shape = replace(SHAPE, decoder_depth=2, tied=True)
    return Translator(shape), TranslateObjective(0.1), PairStream(pairs, 150, 60, 0, 0, seed=0)


PARTS: dict[str, Callable[[], Parts]] = {
    "causal": _causal,
    "masked": _masked,
    "classify": _classify,
    "translate": _translate,
}


def build_trainer(task: str, runtime: Runtime, run: RunFolder | None, **loop: Any) -> Trainer:
    """Return a trainer of a toy model in double precision."""
    torch.manual_seed(5)
    model, objective, stream = PARTS[task]()
    model.double()

    def evaluate() -> Evaluation:
        with torch.no_grad():
            batch = stream.group(0)[0]
            loss = float(sum(objective(model, batch).values()))
        return Evaluation(-loss, {"valid_loss": loss}, "")

    optimizers = build_optimizers(model, OptimizerSettings("adamw", 1e-2, 0.1))
    schedule, settings = partial(warmup_cosine, warmup=0.2), replace(LOOP, **loop)
    return Trainer(model, objective, stream, optimizers, schedule, evaluate, settings, runtime, run)


def build_muon(task: str, runtime: Runtime, run: RunFolder | None) -> Trainer:
    """Return a trainer of the preset tiny in single precision, with Muon, of 40 steps."""
    trainer = build_trainer(task, runtime, run, steps=40)
    torch.manual_seed(5)
    trainer.model = LanguageModel(
        replace(PRESETS["tiny"], vocab_size=23, attention="bidirectional")
    )
    trainer.evaluate = lambda: Evaluation(0.0, {}, "")
    settings = OptimizerSettings("muon", 3e-3, 0.1, dtype=torch.float32)
    trainer.optimizers = build_optimizers(trainer.model, settings)
    return trainer


def build_scaled(task: str, runtime: Runtime, run: RunFolder | None) -> Trainer:
    """Return such a trainer whose loss is scaled, as under fp16."""
    trainer = build_trainer(task, runtime, run)
    trainer.loss_scale = LossScale(runtime.device)
    return trainer


def build_scaled_shares(task: str, runtime: Runtime, run: RunFolder | None) -> Trainer:
    """Return such a trainer that keeps a share of everything."""
    trainer = build_scaled(task, runtime, run)
    trainer.shard()
    return trainer


def build_sharded(task: str, runtime: Runtime, run: RunFolder | None) -> Trainer:
    """Return such a trainer that keeps a share of everything, and recomputes activations."""
    trainer = build_trainer(task, runtime, run)
    recompute_activations(trainer.model)
    trainer.restore()
    trainer.shard()
    return trainer


class GradientKeeper(torch.optim.Optimizer):
    """Takes a step by keeping the gradients; those that are missing are zero."""

    def step(self) -> None:  # type: ignore[override]
        parameters = self.param_groups[0]["params"]
        zeros = (torch.zeros_like(p) for p in parameters)
        self.gradients = {
            p: zero if p.grad is None else p.grad.clone()
            for p, zero in zip(parameters, zeros, strict=True)
        }


def gradients_of(trainer: Trainer, step: int) -> dict[str, Tensor]:
    """Return the gradients of a step."""
    trained = trainer.sharded.model if trainer.sharded else trainer.model
    gather = trainer.sharded.gather if trainer.sharded else Tensor.clone
    keeper = GradientKeeper(trained.parameters(), {"peak": 1.0, "start_step": 0})
    trainer.optimizers, trainer.settings = {"keeper": keeper}, replace(trainer.settings, clip=1e9)
    trainer.take_step(step, 1.0)
    return {name: gather(keeper.gradients[p]) for name, p in trained.named_parameters()}


CPU = Runtime(torch.device("cpu"))


def take_gradients(task: str, folder: Path, step: int, build: Build = build_trainer) -> None:
    """Write the gradients that a process has after a step."""
    with join_processes():
        tensors = gradients_of(build(task, CPU, None), step)
    save_file(tensors, folder / f"{launched_rank()}.safetensors")


def train(task: str, folder: Path, build: Build = build_trainer) -> None:
    """Train in `folder`/run from its last checkpoint; write the weights a process ends with."""
    with join_processes():
        trainer = build(task, CPU, RunFolder(folder / "run"))
        trainer.train("training")
    save_file(trainer.model.state_dict(), folder / f"{launched_rank()}.safetensors")


def train_with_fault(task: str, folder: Path, fault: Fault, build: Build = build_trainer) -> None:
    """Train in `folder`/run, with a fault in the last process."""
    with join_processes():
        trainer = build(task, CPU, RunFolder(folder / "run"))
        is_last = launched_rank() == num_launched() - 1
        put_faults(trainer, {9: fault} if is_last else {}).train("training")


def do_each(work: Callable[..., None], folder: Path, **given: Any) -> None:
    """Do something for every kind of training, each in a folder with its name."""
    for task in PARTS:
        (folder / task / "run").mkdir(parents=True, exist_ok=True)
        work(task, folder / task, **given)


def lose_one(task: str, folder: Path, at: int, build: Build = build_trainer) -> None:
    """Train, with a last process that dies in the middle."""
    is_last = launched_rank() == num_launched() - 1
    with before_step(at, lambda: os._exit(9) if is_last else None):
        train(task, folder, build)


def run_command(
    command: str,
    folder: Path,
    at: int = 0,
    number: int = signal.SIGTERM,
    num_restarts: int = 0,
    **places: str,
) -> None:
    """Run a command and write how it ended; the last process gets a signal before a step.

    Only the launcher of the first process counts restarts, after which this process comes late.
    """
    if launched_rank() == 0:
        os.environ["TORCHELASTIC_RESTART_COUNT"] = str(num_restarts)
        time.sleep(num_restarts)
    is_last = launched_rank() == num_launched() - 1
    with before_step(at, lambda: is_last and signal.raise_signal(number)):
        ran = run(command, **places)
    (folder / f"{launched_rank()}.json").write_text(json.dumps(asdict(ran)))
    sys.exit(ran.code)


def run_on_machines(command: str, folder: Path, **places: str) -> None:
    """Run a command in a folder of its own for each process, named by its rank."""
    with contextlib.chdir(folder / f"machine-{launched_rank()}"):
        run_command(command, folder, **places)


def run_with_other_code(command: str, folder: Path, **places: str) -> None:
    """Run a command in processes that each have code of their own."""
    with pytest.MonkeyPatch.context() as patched:
        checksum = bytes([launched_rank()] * 8)
        patched.setattr("warmstart.training.distributed.code_digest", lambda: checksum)
        run_command(command, folder, **places)


def run_together(count: int, work: Callable[..., None], *given: Any, **keywords: Any) -> list[int]:
    """Run `work` in so many processes that meet at a free port; return their exit codes."""
    return run_at(free_port(), {}, count, partial(work, *given, **keywords))


def run_at(
    port: int, environment: Mapping[str, str], count: int, work: Callable[[], None]
) -> list[int]:
    """Run `work` in so many processes that meet at a port; 2 is the code of a WarmstartError."""
    processes: Sequence[BaseProcess] = [
        CONTEXT.Process(
            target=_process,
            args=(work, {**_variables(rank, count, port), **environment}),
        )
        for rank in range(count)
    ]
    with importable():
        for process in processes:
            process.start()
    for process in processes:
        process.join(180)
        process.kill()
    return [process.exitcode or 0 for process in processes]


def start_launcher(count: int, work: Callable[[], None]) -> BaseProcess:
    """Start a process that starts so many others, as `torchrun` does, and waits for them."""
    launcher = CONTEXT.Process(target=_launch, args=(free_port(), count, work))
    with importable():
        launcher.start()
    return launcher


def _launch(port: int, count: int, work: Callable[[], None]) -> None:
    for rank in range(count):
        if os.fork() == 0:
            _process(work, {**_variables(rank, count, port), "TORCHELASTIC_RUN_ID": "any"})
            os._exit(0)
    for _ in range(count):
        os.wait()


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def _variables(rank: int, count: int, port: int) -> dict[str, str]:
    """Return what a launcher tells a process."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {"RANK": str(rank), "WORLD_SIZE": str(count), **address}


def _process(work: Callable[[], None], environment: Mapping[str, str]) -> None:
    torch.set_num_threads(1)
    os.environ |= environment
    try:
        work()
    except WarmstartError as error:
        print(error, flush=True)  # noqa: T201 (shown when a test fails)
        os._exit(2)


def read_ran(folder: Path, count: int) -> list[Ran]:
    """Return how the command ended in each process."""
    return [Ran(**json.loads((folder / f"{rank}.json").read_text())) for rank in range(count)]


def read_tensors(folder: Path, count: int) -> list[dict[str, Tensor]]:
    """Return what each process wrote."""
    return [load_file(folder / f"{rank}.safetensors") for rank in range(count)]
