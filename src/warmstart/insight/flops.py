"""Floating-point operations in closed form, each part with its formula.

Counts matrix products and attention; a multiplication and its addition are two operations. All
other operations are few by comparison.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from torch import nn
from torch.optim import Muon

from warmstart.insight.training_job import TrainingJob, empty_model
from warmstart.settings.model import ModelConfig, decoder_config, encoder_config
from warmstart.training.optimizers import OptimizerSettings, build_optimizers

BACKWARD = 2  # the two gradients of a product are products of the same size
ITERATIONS = 5  # of the polynomial with which Muon makes a matrix orthogonal


@dataclass(frozen=True)
class PartFlops:
    """The operations of one part of the model in a forward pass over one row."""

    name: str
    formula: str  # per token, in the letters of `legend`
    forward: int  # per row

    @property
    def both(self) -> int:
        """Return the operations of the forward and backward pass."""
        return (1 + BACKWARD) * self.forward


def legend(job: TrainingJob) -> str:
    """Explain the letters of the formulas."""
    shape = job.model
    sides = " on each side" if job.workload.sides == 2 else ""
    masked = f", m = mask rate {job.mask_rate:g}" if job.workload.masks_tokens else ""
    return (
        f"D = width {shape.width:,}, F = feed-forward {shape.ffn_width:,}, T = tokens a row "
        f"{job.length:,}{sides}, V = vocabulary {shape.vocab_size:,}{masked}"
    )


def row_flops(job: TrainingJob) -> list[PartFlops]:
    """Return the parts of a forward pass over one row."""
    T = job.length
    if not job.workload.has_decoder:
        return [*_attention(job.model, T, ""), _ffn(job.model, T, ""), *_head(job)]
    encoder, decoder = encoder_config(job.model), decoder_config(job.model)
    parts = [
        *_attention(encoder, T, "encoder "),
        _ffn(encoder, T, "encoder "),
        *_attention(decoder, T, "decoder "),
        *_attention(decoder, T, "cross "),
        _ffn(decoder, T, "decoder "),
        *_head(job),
    ]
    # Each side has half of the tokens, so a token goes through one of them.
    return [replace(part, formula=f"½ · {part.formula}") for part in parts]


def _attention(shape: ModelConfig, T: int, name: str) -> list[PartFlops]:  # noqa: N803
    D, blocks = shape.width, shape.depth
    return [
        PartFlops(f"{name}projections", f"{blocks} · 2·4D²", blocks * T * 8 * D * D),
        # All pairs, although a causal mask forbids half: kernels with a document mask compute all.
        PartFlops(f"{name}attention", f"{blocks} · 4TD", blocks * T * 4 * T * D),
    ]


def _ffn(shape: ModelConfig, T: int, name: str) -> PartFlops:  # noqa: N803
    matrices = 3 if shape.is_gated else 2
    flops = shape.depth * T * 2 * matrices * shape.width * shape.ffn_width
    return PartFlops(f"{name}feed-forward", f"{shape.depth} · 2·{matrices}DF", flops)


def _head(job: TrainingJob) -> list[PartFlops]:
    shape, D, V = job.model, job.model.width, job.head_vocab_size
    if not V:
        return [PartFlops("classification head", "2DC / T", 2 * D * job.labels)]
    num = job.num_predictions(1)
    share = "m · " if job.workload.masks_tokens else ""
    parts = [PartFlops("vocabulary head", f"{share}2DV", num * 2 * D * V)]
    if shape.transform and not job.workload.has_decoder:
        parts.insert(0, PartFlops("transform", f"{share}2D²", num * 2 * D * D))
    if job.workload.has_pairs(shape):
        pooler = 2 * D * D if shape.pooler else 0
        parts.append(PartFlops("next sentence", "2(D² + 2D) / T", pooler + 4 * D))
    return parts


def optimizer_flops(job: TrainingJob) -> int:
    """Return the operations of the optimizer's matrix products in a step; only Muon has any."""
    return sum(
        ITERATIONS * (4 * min(p.shape) ** 2 * max(p.shape) + 2 * min(p.shape) ** 3)
        for p in muon_parameters(job)
    )


@lru_cache(maxsize=8)
def muon_parameters(job: TrainingJob) -> list[nn.Parameter]:
    """Return the matrices that Muon updates, on the meta device."""
    if job.optimizer != "muon":
        return []
    settings = OptimizerSettings("muon", learning_rate=1e-3, weight_decay=0.0)
    optimizers = build_optimizers(empty_model(job), settings).values()
    groups = [group for o in optimizers if isinstance(o, Muon) for group in o.param_groups]
    return [parameter for group in groups for parameter in group["params"]]


def step_flops(job: TrainingJob) -> int:
    """Return the operations of one optimizer step."""
    return job.rows * sum(part.both for part in row_flops(job)) + optimizer_flops(job)
