"""Loss and gradients of logits in one kernel of a GPU, which reads and writes each logit once.

A row of logits stays in the cache between the two passes over it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # logits of a row at a time
NUM_WARPS = 8


@triton.jit
def _row_kernel(
    logits,
    stride,
    targets,
    losses,
    corrects,
    size,
    num_columns,
    smoothing: tl.constexpr,
    ignore: tl.constexpr,
    dtype: tl.constexpr,
    block: tl.constexpr,
):
    """Replace a row of logits by its gradients; write its loss, and whether it is right.

    -1e30 stands for minus infinity, whose differences would not be numbers.
    """
    number = tl.program_id(0)
    row = logits + number.to(tl.int64) * stride
    target = tl.load(targets + number)
    columns = tl.arange(0, block)
    if target == ignore:
        for start in range(0, num_columns, block):
            index = start + columns
            tl.store(row + index, tl.zeros((block,), row.dtype.element_ty), index < num_columns)
        tl.store(losses + number, 0.0)
        tl.store(corrects + number, 0)
    else:
        at_target = tl.load(row + target).to(dtype)  # before another thread can replace it
        maximum = tl.full((), -1e30, dtype)
        total = tl.zeros((), dtype)  # of exponentials, relative to the maximum
        sum_logits = tl.zeros((), dtype)
        for start in range(0, num_columns, block):
            index = start + columns
            x = tl.load(row + index, index < num_columns).to(dtype)
            x = tl.where(index < size, x, -1e30)
            higher = tl.maximum(maximum, tl.max(x, 0))
            total = total * tl.exp(maximum - higher) + tl.sum(tl.exp(x - higher), 0)
            sum_logits += tl.sum(tl.where(index < size, x, 0.0), 0)
            maximum = higher
        log_sum = maximum + tl.log(total)
        share = tl.full((), smoothing, dtype)
        loss = log_sum - (1 - share) * at_target - share * sum_logits / size
        tl.store(losses + number, loss)
        tl.store(corrects + number, (at_target >= maximum).to(tl.int32))
        for start in range(0, num_columns, block):
            index = start + columns
            x = tl.load(row + index, index < num_columns).to(dtype)
            x = tl.where(index < size, x, -1e30)
            probability = tl.exp(x - log_sum)
            wanted = tl.where(index == target, 1 - share, 0 * share) + share / size
            grad = tl.where(index < size, probability - wanted, 0 * share)
            tl.store(row + index, grad.to(row.dtype.element_ty), index < num_columns)


def softmax_loss_gpu_(
    logits: Tensor, size: int, targets: Tensor, smoothing: float, dtype: torch.dtype, ignore: int
) -> tuple[Tensor, Tensor]:
    """Replace logits of a vocabulary of this size, (n, V + padding), by gradients.

    Return the summed loss and the number correct. Targets that are `ignore` add nothing to the
    sums, and their gradients are zero, as those of the padding are. With aligned rows the kernel
    reads and writes several logits at once.
    """
    n, num_columns = logits.shape
    losses = torch.empty(n, dtype=dtype, device=logits.device)
    corrects = torch.empty(n, dtype=torch.int32, device=logits.device)
    computed = tl.float64 if dtype == torch.float64 else tl.float32
    _row_kernel[(n,)](
        logits,
        logits.stride(0),
        targets,
        losses,
        corrects,
        size,
        num_columns,
        smoothing,
        ignore,
        computed,
        min(BLOCK, triton.next_power_of_2(num_columns)),
        num_warps=NUM_WARPS,
    )
    return losses.sum(), corrects.sum()
