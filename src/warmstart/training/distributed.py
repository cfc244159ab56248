"""One step shared by several processes: each computes its rows, and the gradients are summed.

A loss is divided by the targets that all processes counted, so the sum of their gradients is the
gradient of the whole step, whatever their number. `DistributedDataParallel` sends gradients while
they are computed, which this training cannot allow: a process may have no row in a step, or compute
its rows again in smaller parts after memory ran out.

With --shard, each process keeps a share of weights, gradients and optimizer state. FSDP2 gathers
the weights of a block where it computes, and gives each process its share of the summed gradient.
The model of the trainer stays whole, in the memory of the CPU: what is sharded is a copy, which
brings it up to date before it is validated or saved. FSDP2 is imported when needed: it takes a
second.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from warmstart.batching.batches import Batch, move
from warmstart.errors import WarmstartError
from warmstart.model.layers import Block, DecoderBlock
from warmstart.processes import Processes
from warmstart.runs.folder import RunFolder
from warmstart.runtime import Runtime
from warmstart.training.step import BUCKET, Counts, Evaluation, Objective, add_gradients
from warmstart.version import code_digest


def total_counts(
    counts: Mapping[str, float], device: torch.device, processes: Processes
) -> Mapping[str, float] | dict[str, Tensor]:
    """Return the targets that all processes counted in a step; a GPU is not waited for."""
    if not processes.is_shared:
        return counts
    total = torch.tensor(list(counts.values()), dtype=torch.float64)
    total = total.to(device, non_blocking=True)
    processes.add_up(total)
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
    size = 0
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        is_full = size + parameter.numel() > BUCKET
        if bucket and (is_full or parameter.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.numel()
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


def start_together(model: nn.Module, run: RunFolder, step: int, processes: Processes) -> None:
    """Check that every process has the same code, data and step; give all the same weights."""
    if not processes.is_shared:
        return
    processes.check_same("code", code_digest())
    processes.check_same("data", hashlib.sha256(run.data_file.read_bytes()).digest())
    processes.check_same("checkpoints", step.to_bytes(7, "little"))
    processes.copy_from_lead(iter(model.state_dict().values()))


class ShardedModel(nn.Module):
    """A sharded copy of a model, with its objective: one module whose forward FSDP sees whole."""

    def __init__(
        self, whole: nn.Module, objective: Objective, runtime: Runtime, processes: Processes
    ) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        super().__init__()
        self.model = deepcopy(whole).to(runtime.device)
        self.objective, self.runtime, self.processes = objective, runtime, processes
        mesh = init_device_mesh(runtime.device.type, (processes.count,))
        blocks = [m for m in self.model.modules() if isinstance(m, (Block, DecoderBlock))]
        for module in (*blocks, self):
            shared = fully_shard(module, mesh=mesh)
            shared.set_gradient_divide_factor(1.0)  # losses are divided by counts already
            shared.set_force_sum_reduction_for_comms(True)

    def count(self, group: Sequence[Batch]) -> dict[str, float]:
        """Count the targets as the objective does."""
        return self.objective.count(group)

    def forward(self, _: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Return the summed losses of one batch, like the objective."""
        return self.objective(self.model, batch)

    def add_gradients(self, group: Sequence[Batch], counts: Counts, spare: Batch) -> Tensor:
        """Set the gradients of the whole step; return the loss of this process.

        All processes compute the same number of batches, since they exchange weights in each. A
        process that has fewer computes a spare batch, which counts for nothing.
        """
        (most,) = self.processes.largest(len(group))
        loss = add_gradients(self, self, group, self.runtime, counts)
        for _ in range(most - len(group)):
            with self.runtime.precision():
                sums = self(self.model, move(spare, self.runtime.device))
            (0.0 * torch.stack(list(sums.values())).sum()).backward()
        return loss

    @torch.no_grad()
    def gather_into(self, whole: nn.Module) -> None:
        """Bring the whole model of the lead process up to date; all processes call this."""
        for own, target in zip(self.model.parameters(), whole.parameters(), strict=True):
            gathered = self.gather(own)
            if self.processes.is_lead:
                target.copy_(gathered)

    @torch.no_grad()
    def scatter(self, whole: nn.Module) -> None:
        """Replace the shares of all processes by those of the whole model."""
        for own, source in zip(self.model.parameters(), whole.parameters(), strict=True):
            own.copy_(_share(source.to(own.device), own))

    def gather(self, tensor: Tensor) -> Tensor:
        """Return a tensor whole; all processes must call this for a sharded one."""
        from torch.distributed.tensor import DTensor

        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def own_share(self, tensor: Tensor) -> Tensor:
        """Return the part of a tensor that this process keeps."""
        from torch.distributed.tensor import DTensor

        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    def gather_all(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return whole tensors, in the memory of the CPU of the lead process alone."""
        gathered: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            whole = self.gather(tensor)
            if self.processes.is_lead:
                gathered[name] = whole.cpu()
        return gathered


def shard_optimizers(
    optimizers: Mapping[str, Optimizer], whole: nn.Module, sharded: nn.Module
) -> None:
    """Let optimizers update the sharded parameters, with their share of the state."""
    if "muon" in optimizers:
        raise WarmstartError(
            "--shard needs --optimizer adamw: Muon computes with whole matrices, not with shares"
        )
    pairs = zip(whole.parameters(), sharded.parameters(), strict=True)
    replaced: dict[Tensor, nn.Parameter] = dict(pairs)
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            group["params"] = [replaced[parameter] for parameter in group["params"]]
        for parameter in [p for p in optimizer.state if p in replaced]:
            optimizer.state[replaced[parameter]] = optimizer.state.pop(parameter)
    share_states(optimizers)


def share_states(optimizers: Mapping[str, Optimizer]) -> None:
    """Replace whole state tensors by the shares that belong to sharded parameters."""
    for optimizer in optimizers.values():
        for parameter, state in optimizer.state.items():
            state |= {key: _share(value, parameter) for key, value in state.items()}


def _share(value: Tensor, parameter: Tensor) -> Tensor:
    """Return the part of a state tensor for this shard of a parameter; step counts stay whole."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)
