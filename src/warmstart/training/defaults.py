"""Default learning rates, seeded weights, compilation."""

import torch
from torch import nn

from warmstart.runtime import Runtime
from warmstart.seeds import derive_seed
from warmstart.settings.model import ModelConfig


def seed_weights(seed: int, purpose: str) -> None:
    """Make the weights built next depend on the seed and the purpose alone."""
    torch.manual_seed(derive_seed(seed, "weights", purpose))


def compile_backbone(backbone: nn.Module, wanted: bool | None, runtime: Runtime) -> None:
    """Compile in place where asked, by default on CUDA; parameter names stay the same."""
    if wanted if wanted is not None else runtime.device.type == "cuda":
        backbone.compile(dynamic=False)


def pretraining_rate(model: ModelConfig, optimizer: str) -> float:
    """Return the default peak rate; post-norm models diverge where pre-norm ones learn fast."""
    if optimizer == "muon":
        return 3e-3
    return 2e-3 if model.norm_position == "pre" else 1e-3


def finetuning_rate(model: ModelConfig, arm: str) -> float:
    """Return the default peak rate of an arm; a model from scratch learns at a higher rate."""
    pre_norm = {"frozen": 1e-2, "warm": 5e-4, "cold": 2e-3}
    post_norm = {"frozen": 1e-2, "warm": 3e-4, "cold": 5e-4}
    return (pre_norm if model.norm_position == "pre" else post_norm)[arm]


def translation_rate(model: ModelConfig, optimizer: str) -> float:
    """Return the default peak rate; wider models learn slower, as in the 2017 paper."""
    if optimizer == "muon":
        return 3e-3
    return (1.0 if model.norm_position == "pre" else 0.5) * 2e-3 * (256 / model.width) ** 0.5
