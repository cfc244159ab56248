"""Floating-point operations in closed form, each part with its formula.

Counts what matrix products and attention do, two operations for each multiplication with its
addition; all else is small beside them. Knows nothing about devices.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from torch import nn
from torch.optim import Muon

from warmstart.insight.job import Job, outline
from warmstart.settings.model import ModelConfig, decoder_shape, encoder_shape
from warmstart.training.optimizers import OptimizerSettings, build_optimizers

BACKWARD = 2  # a product's two gradients are products of the same size
ITERATIONS = 5  # of the polynomial with which Muon makes a matrix orthogonal


@dataclass(frozen=True)
class Work:
    """The operations of one part, forward, for one row of text."""

    name: str
    formula: str  # per token, in the letters of `legend`
    forward: int  # per row

    @property
    def both(self) -> int:
        """Return the operations of forward and backward."""
        return (1 + BACKWARD) * self.forward


def legend(job: Job) -> str:
    """Say what the letters of the formulas stand for."""
    shape = job.model
    sides = " on each side, half of all" if job.sides == 2 else ""
    masked = f", m = share masked {job.mask_rate:g}" if job.objective == "masked" else ""
    return (
        f"D = width {shape.width:,}, F = feed-forward {shape.ffn_width:,}, T = tokens a row "
        f"{job.length:,}{sides}, V = vocabulary {shape.vocab_size:,}{masked}"
    )


def row_work(job: Job) -> list[Work]:
    """List the parts of a forward pass over one row."""
    if job.objective != "translate":
        return [*_backbone(job.model, job.length, ""), *_head(job)]
    encoder, decoder = encoder_shape(job.model), decoder_shape(job.model)
    parts = [
        *_backbone(encoder, job.length, "encoder "),
        *_backbone(decoder, job.length, "decoder "),
    ]
    parts += [*_cross(decoder, job.length), *_head(job)]
    # A token stands on one side, and half of the tokens on each.
    return [replace(part, formula=f"½ · {part.formula}") for part in parts]


def _backbone(shape: ModelConfig, length: int, name: str) -> list[Work]:
    T, D, F, blocks = length, shape.width, shape.ffn_width, shape.depth
    gates = 3 if shape.activation == "swiglu" else 2
    return [
        Work(f"{name}projections", f"{blocks} · 2·4D²", blocks * T * 8 * D * D),
        Work(f"{name}feed-forward", f"{blocks} · 2·{gates}DF", blocks * T * 2 * gates * D * F),
        # The whole square, also where a causal mask hides half of it: kernels with a mask of
        # documents compute it all.
        Work(f"{name}attention", f"{blocks} · 4TD", blocks * T * 4 * T * D),
    ]


def _cross(shape: ModelConfig, length: int) -> list[Work]:
    T, D, blocks = length, shape.width, shape.depth
    return [
        Work("cross projections", f"{blocks} · 2·4D²", blocks * T * 8 * D * D),
        Work("cross attention", f"{blocks} · 4TD", blocks * T * 4 * T * D),
    ]


def _head(job: Job) -> list[Work]:
    shape, D = job.model, job.model.width
    if job.objective == "classify":
        pooled = 2 * D * job.labels
        return [Work("classification head", "2DC / T", pooled)]
    V = shape.target_vocab_size or shape.vocab_size
    num = job.predictions(1)
    share = "m · " if job.objective == "masked" else ""
    parts = [Work("vocabulary head", f"{share}2DV", num * 2 * D * V)]
    if shape.transform and job.objective in ("causal", "masked"):
        parts.insert(0, Work("transform", f"{share}2D²", num * 2 * D * D))
    if job.has_pairs:
        pooler = 2 * D * D if shape.pooler else 0
        parts.append(Work("next sentence", "2(D² + 2D) / T", pooler + 4 * D))
    return parts


def optimizer_work(job: Job) -> int:
    """Return what the optimizer's own matrix products cost in a step: nothing but for Muon."""
    return sum(
        ITERATIONS * (4 * min(p.shape) ** 2 * max(p.shape) + 2 * min(p.shape) ** 3)
        for p in muon_parameters(job)
    )


@lru_cache(maxsize=8)
def muon_parameters(job: Job) -> list[nn.Parameter]:
    """Return the matrices that Muon turns, without memory."""
    if job.optimizer != "muon":
        return []
    settings = OptimizerSettings("muon", learning_rate=1e-3, weight_decay=0.0)
    optimizers = build_optimizers(outline(job), settings)
    return [
        parameter
        for optimizer in optimizers.values()
        if isinstance(optimizer, Muon)
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]


def step_flops(job: Job) -> int:
    """Return the operations of one optimizer step."""
    return job.rows * sum(part.both for part in row_work(job)) + optimizer_work(job)
