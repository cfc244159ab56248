from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from warmstart.model.backbone import Backbone, Layout
from warmstart.planning.memory import ComputeTarget, backbone_pass, largest_rows, step_memory
from warmstart.runtime import Runtime
from warmstart.settings.model import ModelConfig
from warmstart.tasks.registry import task_named
from warmstart.tasks.task import TrainingJob
from warmstart.training.optimizers import OptimizerSettings, build_optimizers
from warmstart.training.step import train_step

SMALL = ModelConfig(
    vocab_size=50, width=32, depth=3, heads=2, ffn_width=80, max_length=32, dropout=0.0
)
CPU, CPU_BF16 = ComputeTarget("cpu", "fp32"), ComputeTarget("cpu", "bf16")
WORDS = [
    {"norm": norm, "norm_position": norm_position, "positions": positions, "activation": activation}
    for (norm, norm_position), positions, activation in product(
        [("layer", "post"), ("rms", "pre")], ["learned", "rope"], ["relu", "gelu", "swiglu"]
    )
]
DROPPED: list[dict[str, Any]] = [
    {"dropout": 0.1},
    {"dropout": 0.1, "activation": "gelu"},
    {"dropout": 0.1, "activation": "swiglu", "inner_dropout": False},
]


def job_of(model: ModelConfig, **changes: Any) -> TrainingJob:
    sizes = {"length": 32, "rows": 4, "micro_rows": 4, "task": "causal", "optimizer": "adamw"}
    return TrainingJob(model=model, **{**sizes, **changes})


def bytes_saved(backbone: Backbone, rows: int, length: int, is_bf16: bool) -> int:
    """Return the bytes of what autograd keeps, weights and their copies left out."""
    weights = {p.untyped_storage().data_ptr() for p in backbone.parameters()}
    sizes = {p.numel() for p in backbone.parameters()}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        where = tensor.untyped_storage().data_ptr()
        if where not in weights and not (is_bf16 and tensor.numel() in sizes):
            kept[where] = tensor
        return tensor

    index = torch.arange(length).expand(rows, -1)
    layout = Layout(documents=(index > length // 2).long(), positions=index)
    ids = torch.randint(0, 50, (rows, length))
    cast = torch.autocast("cpu", torch.bfloat16, enabled=is_bf16)
    with saved_tensors_hooks(pack, lambda tensor: tensor), cast:
        out = backbone(ids, layout)
    kept[out.untyped_storage().data_ptr()] = out
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("target", [CPU, CPU_BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(
    "words", [*WORDS, *DROPPED], ids=lambda words: "-".join(map(str, words.values()))
)
def test_activations_are_what_autograd_keeps(words: dict[str, Any], target: ComputeTarget) -> None:
    job = job_of(replace(SMALL, **words))
    said = backbone_pass(job, target, job.model, rows=4).saved_bytes()
    assert said == pytest.approx(bytes_saved(Backbone(job.model), 4, 32, target.is_half), rel=0.05)


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "causal", "optimizer": "adamw"},
        {"task": "causal", "optimizer": "muon"},
        {"task": "masked", "mask_rate": 0.3, "document_loss": 1.0},
        {"task": "classify", "labels": 2},
        {"task": "translate", "sides": 2, "optimizer": "muon"},
        {"task": "translate", "sides": 2, "consistency": 5.0},
    ],
    ids=str,
)
def test_weights_gradients_and_moments_are_the_real_tensors(
    changes: dict[str, Any], cpu: Runtime
) -> None:
    attention = "causal" if changes["task"] == "causal" else "bidirectional"
    model = replace(SMALL, attention=attention, decoder_depth=2 * ("sides" in changes))
    job = job_of(model, **changes)
    task = task_named(job.task)
    model = task.planned_model(job).train()
    optimizers = build_optimizers(model, OptimizerSettings(job.optimizer, 1e-3, 0.0))
    batch = task.random_batch(job, job.rows, torch.Generator().manual_seed(0))
    for one in optimizers.values():  # keep the gradients
        one.zero_grad = lambda: None  # type: ignore[assignment]
    objective = task.planned_objective(job, torch.device("cpu"))
    train_step(model, objective, [batch], optimizers, 1.0, cpu)
    said = step_memory(job, CPU)
    buffers = sum(b.nbytes for b in model.buffers())
    assert said.weights == sum(p.nbytes for p in model.parameters()) + buffers
    assert said.gradients == sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
    states = [s for one in optimizers.values() for s in one.state.values()]
    moments = [v for state in states for v in state.values() if torch.is_tensor(v) and v.ndim]
    assert said.optimizer == sum(moment.nbytes for moment in moments)


def test_the_largest_batch_is_the_last_that_fits() -> None:
    job = job_of(SMALL, rows=1000, micro_rows=10)
    room = step_memory(job, CPU, 37).peak
    assert largest_rows(job, CPU, room) == 37
    assert largest_rows(job, CPU, room - 1) == 36
    assert largest_rows(job, CPU, 1000) == 0


def test_less_precision_and_fewer_rows_need_less() -> None:
    job = job_of(replace(SMALL, width=256, ffn_width=1024, vocab_size=9000), length=512)
    for device in ("cpu", "cuda"):
        full, half = (step_memory(job, ComputeTarget(device, name)) for name in ("fp32", "bf16"))  # type: ignore[arg-type]
        assert half.activations < full.activations
        assert step_memory(job, ComputeTarget(device, "bf16"), 2).peak < half.peak  # type: ignore[arg-type]
