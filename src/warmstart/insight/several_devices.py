"""A job on several devices that share each step: memory, communication, time, efficiency."""

from dataclasses import dataclass, replace
from math import log2

from warmstart.insight.devices import BANDWIDTH_SHARE, Device, step_seconds
from warmstart.insight.saved_activations import FP32_BYTES
from warmstart.insight.step_memory import ComputeTarget, StepMemory, step_memory
from warmstart.insight.training_job import TrainingJob, empty_model
from warmstart.training.step import BUCKET

PER_MACHINE = 8  # devices with fast links to each other
MESSAGE_S = 20e-6  # from one device to another, whatever its size; sums go up a tree and down
SMALL_MESSAGES = 3  # of a step, besides gradients: counts, the loss, whether to stop
LEAST_EFFICIENCY = 0.5  # below it, more than half of what was added is wasted


@dataclass(frozen=True, kw_only=True)
class SharedStep:
    """One optimizer step, shared by several devices; each has all weights, unless sharded."""

    devices: int
    memory: int  # bytes at the peak, of each device
    sharded_memory: int  # the same with --shard and AdamW
    sent: int  # bytes that each device sends
    compute_s: float
    communication_s: float
    efficiency: float  # of the time of one device, divided by their number

    @property
    def step_s(self) -> float:
        """Return the time of the step: gradients are sent when all of them are computed."""
        return self.compute_s + self.communication_s


def shared_steps(
    job: TrainingJob, device: Device, target: ComputeTarget, most: int, network_gb: float
) -> tuple[SharedStep, ...]:
    """Estimate the step on 1, 2, 4 and so on up to `most` devices, from the data sheet."""
    counts = [1 << power for power in range(most.bit_length()) if 1 << power < most] + [most]
    alone_s = step_seconds(job, device, target)
    across_gb = PER_MACHINE * network_gb  # all devices of a machine carry what it sends
    num_weights = sum(p.numel() for p in empty_model(job).parameters())
    steps = []
    for num in counts:
        share = replace(job, rows=-(-job.rows // num))
        link_gb = device.link_gb if num <= PER_MACHINE else min(device.link_gb, across_gb)
        sent = 2 * (num - 1) * FP32_BYTES * num_weights // num  # in a ring
        messages = 2 * log2(num) * (-(-num_weights // BUCKET) + SMALL_MESSAGES)
        communication_s = sent / (BANDWIDTH_SHARE * link_gb * 1e9) + messages * MESSAGE_S
        compute_s = step_seconds(share, device, target)
        memory = step_memory(share, target, min(share.rows, share.micro_rows))
        steps.append(
            SharedStep(
                devices=num,
                memory=memory.peak,
                sharded_memory=memory.peak if num == 1 else _sharded_peak(share, memory, num),
                sent=sent,
                compute_s=compute_s,
                communication_s=communication_s,
                efficiency=alone_s / (num * (compute_s + communication_s)),
            )
        )
    return tuple(steps)


def _sharded_peak(job: TrainingJob, memory: StepMemory, num: int) -> int:
    """Return the bytes of a device that has a share of the state and gathers two blocks at a time.

    What is outside the blocks is gathered for the whole step; gathered weights have gradients.
    """
    sizes = {name: p.numel() for name, p in empty_model(job).named_parameters()}
    in_blocks = sum(size for name, size in sizes.items() if ".blocks." in name)
    num_blocks = job.model.depth + job.model.decoder_depth
    gathered = sum(sizes.values()) - in_blocks + 2 * in_blocks // num_blocks
    state = 4 * FP32_BYTES * sum(sizes.values()) // num  # weights, gradients, two moments
    passing = memory.copies + memory.activations + max(memory.loss, memory.backward)
    return state + 2 * FP32_BYTES * gathered + passing + memory.program


def most_useful(steps: tuple[SharedStep, ...]) -> SharedStep:
    """Return the largest number of devices that are used well."""
    return [step for step in steps if step.efficiency >= LEAST_EFFICIENCY][-1]
