"""Divide a training over processes: each keeps a share of weights, gradients and optimizer state.

FSDP2 gathers the weights of a block where it computes, and gives each process its share of the
summed gradient. The model of the trainer stays whole, in the memory of the CPU: what is sharded is
a copy, which brings it up to date before it is validated or saved.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from warmstart.batching.batch import Batch, move
from warmstart.errors import WarmstartError
from warmstart.model.layers import Block, DecoderBlock
from warmstart.runtime import Runtime
from warmstart.training.step import Counts, Objective, add_gradients


class ShardedModel(nn.Module):
    """A sharded copy of a model, with its objective: one module whose forward FSDP sees whole."""

    def __init__(self, whole: nn.Module, objective: Objective, runtime: Runtime) -> None:
        super().__init__()
        self.model = deepcopy(whole).to(runtime.device)
        self.objective, self.runtime = objective, runtime
        mesh = init_device_mesh(runtime.device.type, (runtime.processes.count,))
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

        All processes compute the same number of batches, since they exchange weights in each. One
        that has fewer computes a spare batch, which counts for nothing.
        """
        (most,) = self.runtime.processes.largest(len(group))
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
            if self.runtime.processes.is_lead:
                target.copy_(gathered)

    def gather(self, tensor: Tensor) -> Tensor:
        """Return a tensor whole; all processes call this for one that they share."""
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def gather_all(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return whole tensors, in the memory of the CPU of the lead process alone."""
        gathered: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            whole = self.gather(tensor)
            if self.runtime.processes.is_lead:
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
            state = optimizer.state.pop(parameter)
            own = replaced[parameter]
            optimizer.state[own] = {key: _share(value, own) for key, value in state.items()}


def _share(value: Tensor, parameter: Tensor) -> Tensor:
    """Return the share of a state that belongs to a share of a parameter; others stay as is."""
    if not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)
