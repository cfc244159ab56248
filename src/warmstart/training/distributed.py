"""One step shared by several processes: each computes its rows, and the gradients are summed.

A loss is divided by the targets that all processes counted, so the sum of their gradients is the
gradient of the whole step, whatever their number. `DistributedDataParallel` sends gradients while
they are computed, which this training cannot allow: a process may have no row in a step, or compute
its rows again in smaller parts after memory ran out.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from warmstart.processes import Processes
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime
from warmstart.training.state import Evaluation
from warmstart.version import code_digest

BUCKET = 1 << 24  # gradients sent together: fewer wait longer, more need memory


def total_counts(
    counts: Mapping[str, float], runtime: Runtime
) -> Mapping[str, float] | dict[str, Tensor]:
    """Return the targets that all processes counted in a step; a GPU is not waited for."""
    if not runtime.processes.is_shared:
        return counts
    total = torch.tensor(list(counts.values()), dtype=torch.float64)
    total = total.to(runtime.device, non_blocking=True)
    runtime.processes.add_up(total)
    return dict(zip(counts, total.clamp(min=torch.finfo(total.dtype).tiny), strict=True))


@torch.no_grad()
def sum_gradients(model: nn.Module, processes: Processes) -> None:
    """Replace every gradient by its sum over all processes."""
    if not processes.is_shared:
        return
    for parameters in _buckets(model):
        has_gradient = [p.grad is not None for p in parameters]
        grads = [p.new_zeros(p.numel()) if p.grad is None else p.grad.ravel() for p in parameters]
        flags = torch.tensor(has_gradient).to(grads[0], non_blocking=True)  # waits for nothing
        flat = torch.cat([*grads, flags])
        processes.add_up(flat)
        *sums, num_gradients = flat.split([*map(len, grads), len(grads)])
        for parameter, total, num in zip(parameters, sums, num_gradients, strict=True):
            if parameter.grad is not None or num > 0:  # else an optimizer must skip it
                parameter.grad = total.view_as(parameter)


def _buckets(model: nn.Module) -> Iterator[list[nn.Parameter]]:
    """Yield the trainable parameters in groups of one type and limited size."""
    bucket: list[nn.Parameter] = []
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        is_full = sum(p.numel() for p in bucket) + parameter.numel() > BUCKET
        if bucket and (is_full or parameter.dtype != bucket[0].dtype):
            yield bucket
            bucket = []
        bucket.append(parameter)
    if bucket:
        yield bucket


def shared_evaluation(evaluate: Callable[[], Evaluation], processes: Processes) -> Evaluation:
    """Validate in the lead process; the others learn everything but the weights."""
    if not processes.is_shared:
        return evaluate()
    own = evaluate() if processes.is_lead else Evaluation(0.0, {}, "")
    facts: dict[str, Any] = {
        "score": own.score,
        "figures": own.figures,
        "note": own.note,
        "loss": own.loss,
    }
    received = Evaluation(**processes.from_lead(facts))
    return own if processes.is_lead else received


def start_together(model: nn.Module, run: RunFolder, step: int) -> None:
    """Check that every process has the same code, data and step; give all the same weights."""
    processes = run.processes
    if not processes.is_shared:
        return
    processes.check_same("code", code_digest())
    processes.check_same("data", hashlib.sha256(run.data_file.read_bytes()).digest())
    processes.check_same("checkpoints", step.to_bytes(7, "little"))
    processes.copy_from_lead(iter(model.state_dict().values()))
