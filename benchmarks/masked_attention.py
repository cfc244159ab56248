"""Whether the fused attention of a GPU stays finite where all keys that a query sees score low.

Documents of a few tokens share a row, as in packed pretraining; every score is moved down by the
same amount, which changes no probability. Prints, for each kernel and length, how many numbers of
the output and of the three gradients are not finite, and how far they are from plain float32.

    python benchmarks/masked_attention.py
"""

import argparse
import math

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from warmstart.model.attention import attention_weights

KERNELS = (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION)
LENGTHS = (64, 192, 256, 320, 448, 512, 576)
LOWEST = (0, -60, -90, -120, -1000)  # about what every score is
B, H, K = 8, 6, 64
NEW_DOCUMENT = 0.05  # probability of a token to begin one


def queries_keys_values(length: int, score: float, dtype: torch.dtype) -> list[Tensor]:
    """Return random Q, K and V whose products are near a score."""
    generator = torch.Generator().manual_seed(length)
    q, k, v = (0.1 * torch.randn(B, H, length, K, generator=generator) for _ in range(3))
    q[..., 0], k[..., 0] = 1.0, score * math.sqrt(K)
    return [x.to(dtype).cuda().requires_grad_() for x in (q, k, v)]


def mask_of(length: int) -> Tensor:
    """Return which keys each query sees: those of its own document, (B, 1, T, T)."""
    generator = torch.Generator().manual_seed(length)
    documents = (torch.rand(B, length, generator=generator) < NEW_DOCUMENT).cumsum(1).cuda()
    return documents[:, None, :, None] == documents[:, None, None, :]


def attended(qkv: list[Tensor], mask: Tensor, kernel: SDPBackend | None) -> list[Tensor]:
    """Return the output and the gradients of Q, K and V; None: plainly."""
    q, k, v = qkv
    if kernel is None:
        out = attention_weights(q, k, mask) @ v
    else:
        with sdpa_kernel(kernel):
            out = scaled_dot_product_attention(q, k, v, mask)
    generator = torch.Generator().manual_seed(0)
    out.backward(torch.randn(out.shape, generator=generator).to(out))
    return [out.detach(), *(x.grad for x in qkv if x.grad is not None)]


def compare(kernel: SDPBackend, length: int, score: float) -> str:
    """Return a line of the table."""
    mask = mask_of(length)
    inputs = queries_keys_values(length, score, torch.bfloat16)
    exact = [x.detach().float().requires_grad_() for x in inputs]
    try:
        found = attended(inputs, mask, kernel)
    except RuntimeError as fault:
        return f"refused: {str(fault).splitlines()[0]}"
    expected = attended(exact, mask, None)
    bad = [int((~x.isfinite()).sum()) for x in found]
    errors = [
        float((x.float() - e).norm() / e.norm()) for x, e in zip(found, expected, strict=True)
    ]
    return f"not finite {bad}, apart by " + ", ".join(f"{error:.1e}" for error in errors)


def main() -> None:
    """Compare both kernels at every length and score."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.parse_args()
    print(torch.__version__, torch.backends.cudnn.version(), torch.cuda.get_device_name())
    for length in LENGTHS:
        for score in LOWEST:
            for kernel in KERNELS:
                print(length, score, kernel.name, compare(kernel, length, score), flush=True)


if __name__ == "__main__":
    main()
