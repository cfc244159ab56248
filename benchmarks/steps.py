"""Training steps on a GPU, of frozen shapes: warmstart against `transformers` and `torch.nn`.

Each step has a process of its own. Those of a contender compile at the same time; then they are
timed one after another, on an idle card. Prints tokens per second, milliseconds and
peak memory, and writes JSON with --json; --profile FILE adds where the time of our steps goes.

    python benchmarks/steps.py
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from measuring import machine
from torch import Tensor, nn

from warmstart.batching.batches import move
from warmstart.model.models import Translator
from warmstart.runtime import Runtime, choose_runtime
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.tasks.registry import task_named
from warmstart.tasks.task import TrainingJob
from warmstart.training.defaults import compile_backbone, compile_translator
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.step import RecordedObjective, add_gradients, update_weights

Step = Callable[[], object]
RATE = 1e-4
WARM_UP = 5


@dataclass(frozen=True)
class Work:
    """A step to measure: a model and the shape of its batch."""

    name: str
    job: TrainingJob

    @property
    def model(self) -> ModelConfig:
        return self.job.model

    @property
    def rows(self) -> int:
        return self.job.rows

    @property
    def length(self) -> int:
        return self.job.length

    @property
    def tokens(self) -> int:
        """Return the tokens of a step, those of both sides of a translator."""
        return self.job.step_tokens

    def smaller(self) -> "Work":
        """Return the same work in a size that a CPU can take, to see whether it runs."""
        model = replace(self.model, vocab_size=100, depth=1, width=8, heads=2, ffn_width=8)
        model = replace(model, decoder_depth=min(1, model.decoder_depth))
        return replace(self, job=replace(self.job, model=model, rows=2, micro_rows=2, length=8))


def work(name: str, task: str, model: ModelConfig, rows: int, length: int, **more: Any) -> Work:
    """Return a step of a task; pretraining compiles the backbone."""
    sizes = {"rows": rows, "micro_rows": rows, "length": length}
    return Work(name, TrainingJob(task=task, model=model, **{"optimizer": "muon", **sizes, **more}))


MODERN = replace(PRESETS["modern-small"], vocab_size=16_000)
LARGER = replace(MODERN, vocab_size=32_000, attention="bidirectional")  # 26 million parameters
SMOOTHED = {"label_smoothing": 0.1}
BOTH_WAYS = replace(MODERN, attention="bidirectional")
WORKS = (
    work("lab", "causal", PRESETS["lab"], 256, 256, optimizer="adamw", is_compiled=True),
    work("modern-small, causal", "causal", MODERN, 256, 256, is_compiled=True),
    work("modern-small, masked", "masked", BOTH_WAYS, 256, 256, mask_rate=0.3, is_compiled=True),
    work("vaswani-base", "translate", PRESETS["vaswani-base"], 400, 64, sides=2, **SMOOTHED),
    work("fine-tuning", "classify", LARGER, 16, 320, labels=2, optimizer="adamw"),
)


def our_step(
    work: Work,
    runtime: Runtime,
    is_fast: bool = True,
    has_bounds: bool = True,
    residual: torch.dtype | None = None,
) -> Step:
    """Return a function that takes one step: compiled and recorded, or plainly.

    Without bounds, masks keep documents apart. `residual` is the type of what norms return.
    """
    job, task = work.job, task_named(work.job.task)
    model = task.planned_model(job).to(runtime.device).train()
    for norm in model.modules() if residual else ():
        if isinstance(norm, nn.LayerNorm):
            norm.register_forward_hook(lambda _, __, x: x.to(residual))
    objective = task.planned_objective(job, runtime.device)
    optimizers = build_optimizers(model, OptimizerSettings(job.optimizer, RATE, 0.1))
    generator = torch.Generator().manual_seed(0)
    group = [task.random_batch(job, work.rows, generator)]
    counts = objective.count(group)
    if not has_bounds and hasattr(group[0], "bounds"):
        group = [replace(batch, bounds=None) for batch in group]
    group = [move(batch, runtime.device) for batch in group]
    if is_fast and job.is_compiled:
        compile_backbone(model.get_submodule("backbone"))
    elif is_fast and job.has_decoder:
        compile_translator(cast(Translator, model))
    recorded = RecordedObjective(model, objective, runtime) if is_fast else None

    def step() -> None:
        if recorded:
            recorded.add_gradients(group, counts)
        else:
            add_gradients(model, objective, group, runtime, counts)
        update_weights(model, optimizers, 1.0)

    return step


def plain_step(work: Work, runtime: Runtime) -> Step:
    """Return our step with `--no-compile`."""
    return our_step(work, runtime, is_fast=False)


def step_with_masks(work: Work, runtime: Runtime) -> Step:
    """Return our step with masks of (B, 1, T, T) instead of attention document by document."""
    return our_step(work, runtime, has_bounds=False)


def step_with_half_residual(work: Work, runtime: Runtime) -> Step:
    """Return our step with layer norms that return bf16: an experiment, which changes losses."""
    return our_step(work, runtime, residual=torch.bfloat16)


def their_step(work: Work, runtime: Runtime) -> Step:
    """Return a compiled step of the peer: bf16, AdamW, all logits in memory."""
    loss_of, model = PEERS[work.job.task](work)
    model.to(runtime.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)
    ids = work.job.random_ids(work.rows, work.length + 1, torch.Generator().manual_seed(0))
    ids = ids.to(runtime.device)
    compiled = torch.compile(loss_of)

    def step() -> None:
        with torch.autocast(runtime.device.type, torch.bfloat16):
            loss = compiled(ids)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def bert_settings(model: ModelConfig) -> dict[str, Any]:
    """Return the shape of a model as `transformers` names it."""
    return {
        "vocab_size": model.vocab_size,
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.heads,
        "intermediate_size": model.ffn_width * (2 if model.activation == "swiglu" else 1),
        "max_position_embeddings": 512,
    }


def gpt2(work: Work) -> tuple[Callable[[Tensor], Tensor], nn.Module]:
    """Return the loss and the model of a causal peer."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = work.model
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=shape.vocab_size,
            n_embd=shape.width,
            n_layer=shape.depth,
            n_head=shape.heads,
            n_inner=shape.ffn_width,
        )
    )

    def loss_of(ids: Tensor) -> Tensor:
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    return loss_of, model


def masked_bert(work: Work) -> tuple[Callable[[Tensor], Tensor], nn.Module]:
    """Return the loss and the model of a masked peer, which computes the logits of every token."""
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig(**bert_settings(work.model)))

    def loss_of(ids: Tensor) -> Tensor:
        logits = model(input_ids=ids[:, 1:]).logits
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    return loss_of, model


def bert_classifier(work: Work) -> tuple[Callable[[Tensor], Tensor], nn.Module]:
    """Return the loss and the model of a peer that is fine-tuned."""
    from transformers import BertConfig, BertForSequenceClassification

    model = BertForSequenceClassification(BertConfig(**bert_settings(work.model)))

    def loss_of(ids: Tensor) -> Tensor:
        return F.cross_entropy(model(input_ids=ids[:, 1:]).logits, ids[:, 0] % 2)

    return loss_of, model


class TorchTranslator(nn.Module):
    """`nn.Transformer` with shared embeddings."""

    def __init__(self, shape: ModelConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(shape.vocab_size, shape.width)
        self.transformer = nn.Transformer(
            shape.width,
            shape.heads,
            shape.depth,
            shape.decoder_depth,
            shape.ffn_width,
            shape.dropout,
            batch_first=True,
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return all logits."""
        T = target.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(T, device=target.device)
        hidden = self.transformer(
            self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True
        )
        return hidden @ self.embed.weight.T


def torch_translator(work: Work) -> tuple[Callable[[Tensor], Tensor], nn.Module]:
    """Return the loss and the model of an encoder-decoder peer."""
    model = TorchTranslator(work.model)

    def loss_of(ids: Tensor) -> Tensor:
        logits = model(ids[:, 1:], ids[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=0.1)

    return loss_of, model


PEERS: dict[str, Any] = {
    "causal": gpt2,
    "masked": masked_bert,
    "translate": torch_translator,
    "classify": bert_classifier,
}
CONTENDERS: dict[str, Callable[[Work, Runtime], Step]] = {
    "warmstart, compiled": our_step,
    "warmstart, with masks": step_with_masks,
    "warmstart, bf16 residual": step_with_half_residual,
    "warmstart, not compiled": plain_step,
    "peer, compiled": their_step,
}


@dataclass(frozen=True)
class Timing:
    """What one contender needs for one step."""

    work: str
    contender: str
    milliseconds: float
    tokens_per_s: float
    peak_gib: float
    first_step_s: float  # with all others compiling beside it


def wait(runtime: Runtime) -> None:
    """Wait until the device is done."""
    if runtime.device.type == "cuda":
        torch.cuda.synchronize()


def measure(work: Work, contender: str, steps: int, device: str, profile: bool) -> None:
    """Compile, wait for a line from standard input, time the steps, and print JSON."""
    runtime = choose_runtime(device)
    torch.manual_seed(0)
    step = CONTENDERS[contender](work, runtime)
    began = time.perf_counter()
    step()
    wait(runtime)
    first_step_s = time.perf_counter() - began
    for _ in range(WARM_UP):
        step()
    wait(runtime)
    print("ready", flush=True)
    sys.stdin.readline()
    times = [timed(step, runtime) for _ in range(steps)]
    seconds = statistics.median(times)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    timing = Timing(
        work.name, contender, 1e3 * seconds, work.tokens / seconds, peak / 2**30, first_step_s
    )
    print(json.dumps(asdict(timing)), flush=True)
    print(json.dumps(profile_of(step, runtime) if profile else ""), flush=True)


def timed(step: Step, runtime: Runtime, num: int = 5) -> float:
    """Return the seconds of a step, in a burst of several."""
    began = time.perf_counter()
    for _ in range(num):
        step()
    wait(runtime)
    return (time.perf_counter() - began) / num


def profile_of(step: Step, runtime: Runtime) -> str:
    """Return where the time of three steps goes, kernel by kernel."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    with profiler(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(3):
            step()
        wait(runtime)
    table = found.key_averages()
    return str(table.table(sort_by="cuda_time_total", row_limit=25, max_name_column_width=90))


def start(work: Work, contender: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    """Start a process that compiles and then waits."""
    command = [sys.executable, __file__, "--only", work.name, "--contender", contender]
    command += ["--steps", str(options.steps), "--device", options.device]
    if options.profile and contender == "warmstart, compiled":
        command += ["--profile", str(options.profile)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def compile_all(
    works: list[Work], name: str, options: argparse.Namespace
) -> Iterator[tuple[Work, tuple[Timing, str] | str]]:
    """Compile every work of a contender at the same time, then yield its timings one by one."""
    processes = [start(work, name, options) for work in works]
    for process in processes:
        assert process.stdout is not None
        while process.stdout.readline().strip() not in ("ready", ""):
            pass
    for work, process in zip(works, processes, strict=True):
        yield work, finish(process)


def finish(process: subprocess.Popen[str]) -> tuple[Timing, str] | str:
    """Let a process that is ready time its steps; return its error if it has one."""
    out, errors = process.communicate("go\n")
    lines = out.splitlines()
    if process.returncode or len(lines) < 2:
        return (errors.strip().splitlines() or ["no output"])[-1]
    return Timing(**json.loads(lines[-2])), json.loads(lines[-1])


def line(timing: Timing) -> str:
    """Return a timing as a line of the table."""
    return (
        f"| {timing.work} | {timing.contender} | {timing.milliseconds:.2f} | "
        f"{timing.tokens_per_s / 1e6:.2f}M | {timing.peak_gib:.1f} | {timing.first_step_s:.1f} s |"
    )


def main() -> None:
    """Start all contenders, time them in turn, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="bursts of five steps")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", choices=[work.name for work in WORKS])
    parser.add_argument("--contender", choices=CONTENDERS)
    parser.add_argument("--profile", type=Path, help="text file for profiles of our steps")
    parser.add_argument("--json", type=Path, help="file for the timings")
    options = parser.parse_args()
    works = [work for work in WORKS if options.only in (None, work.name)]
    if options.only and options.contender:
        work = works[0] if options.device == "cuda" else works[0].smaller()
        wants_profile = options.profile is not None and options.device == "cuda"
        measure(work, options.contender, options.steps, options.device, wants_profile)
        return
    print("| work | contender | ms | tokens/s | GiB | first step |\n|---|---|---|---|---|---|")
    timings, profiles = [], []
    for name in [options.contender] if options.contender else list(CONTENDERS):
        for work, found in compile_all(works, name, options):
            if isinstance(found, str):
                print(f"{work.name}, {name}: {found}", file=sys.stderr)
                continue
            timings.append(found[0])
            print(line(found[0]), flush=True)
            profiles.append(f"## {work.name}, {name}\n{found[1]}\n" if found[1] else "")
    if options.profile:
        options.profile.write_text("\n".join(filter(None, profiles)), encoding="utf-8")
    if options.json:
        content = {"machine": machine(), "timings": [asdict(timing) for timing in timings]}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
