from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import Muon
from torch.utils.flop_counter import FlopCounterMode

from warmstart.planning.memory import optimizer_flops, row_flops
from warmstart.settings.model import PRESETS, ModelConfig
from warmstart.tasks.registry import task_named
from warmstart.tasks.task import TrainingJob
from warmstart.training.optimizers import OptimizerSettings, build_optimizers

SMALL = ModelConfig(
    vocab_size=60, width=16, depth=2, heads=2, ffn_width=24, max_length=20, dropout=0.0
)
KINDS = {
    "causal": SMALL,
    "causal swiglu rope": replace(SMALL, activation="swiglu", positions="rope", tied=True),
    "masked": replace(SMALL, attention="bidirectional", transform=True),
    "masked pairs": replace(SMALL, attention="bidirectional", segments=2, pooler=True),
    "classify": replace(SMALL, attention="bidirectional"),
    "translate": replace(SMALL, decoder_depth=3, biases=False),
    "translate consistency": replace(SMALL, decoder_depth=3, biases=False),
}
MORE: dict[str, dict[str, Any]] = {
    "masked": {"mask_rate": 0.15},
    "masked pairs": {"mask_rate": 0.3, "has_segments": True},
    "classify": {"labels": 3},
    "translate": {"sides": 2},
    "translate consistency": {"sides": 2, "consistency": 5.0},
}


def job_of(kind: str, model: ModelConfig, **changes: Any) -> TrainingJob:
    sizes = {"length": 20, "rows": 3, "micro_rows": 3, "optimizer": "adamw"}
    more = {**sizes, **MORE.get(kind, {}), **changes}
    return TrainingJob(task=kind.split()[0], model=model, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_closed_form_equals_the_counter_of_torch(kind: str) -> None:
    job = job_of(kind, replace(KINDS[kind], biases=False))
    task = task_named(job.task)
    model, objective = task.planned_model(job), task.planned_objective(job, torch.device("cpu"))
    batch = task.random_batch(job, job.rows, torch.Generator().manual_seed(0))
    if hasattr(batch, "targets"):  # a document's last token predicts nothing: here all count
        batch = replace(batch, targets=batch.targets.clamp(min=0))
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        sum(objective(model, batch).values()).backward()  # type: ignore[union-attr]
    assert counter.get_total_flops() == job.rows * sum(part.both for part in row_flops(job))


def test_a_frozen_backbone_only_reads() -> None:
    job = job_of("classify", replace(KINDS["classify"], biases=False), is_frozen=True)
    task = task_named(job.task)
    model, objective = task.planned_model(job), task.planned_objective(job, torch.device("cpu"))
    batch = task.random_batch(job, job.rows, torch.Generator().manual_seed(0))
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        objective(model, batch)
    *backbone, head = row_flops(job)
    assert counter.get_total_flops() == job.rows * (sum(p.both for p in backbone) + head.forward)


def test_the_head_and_the_lengths_square_stand_apart() -> None:
    parts = {part.name: part for part in row_flops(job_of("causal", SMALL))}
    longer = {part.name: part for part in row_flops(job_of("causal", SMALL, length=40))}
    assert parts["vocabulary head"].forward == 20 * 2 * 16 * 60
    assert longer["attention"].forward == 4 * parts["attention"].forward
    assert longer["feed-forward"].forward == 2 * parts["feed-forward"].forward


def test_only_masked_tokens_pay_for_the_vocabulary() -> None:
    whole = row_flops(job_of("masked", SMALL, mask_rate=1.0))[-1].forward
    share = row_flops(job_of("masked", SMALL, mask_rate=0.15))[-1].forward
    assert share == 3 / 20 * whole


def test_muon_pays_for_its_own_products() -> None:
    job = job_of("causal", SMALL, optimizer="muon")
    model = task_named(job.task).planned_model(job)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizers = build_optimizers(model, OptimizerSettings("muon", 1e-3, 0.0))
    muon = next(one for one in optimizers.values() if isinstance(one, Muon))
    with FlopCounterMode(display=False) as counter:
        muon.step()
    assert counter.get_total_flops() == optimizer_flops(job) > 0
    assert optimizer_flops(job_of("causal", SMALL)) == 0


def test_the_anchor_of_the_lab_is_met() -> None:
    lab = job_of("causal", PRESETS["lab"], length=256, rows=64, micro_rows=64)
    per_token = sum(part.both for part in row_flops(lab)) / lab.row_tokens
    assert per_token == pytest.approx(67.3e6, rel=0.02)
