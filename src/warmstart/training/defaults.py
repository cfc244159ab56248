"""Default learning rates, seeded weights, compilation."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from warmstart.model.backbone import Stack
from warmstart.model.models import Translator
from warmstart.runtime import builds_kernels
from warmstart.seeds import derive_seed
from warmstart.settings.model import ModelConfig
from warmstart.settings.training import Tuning

MAX_EPOCHS = 40  # of a fine-tuning, by default
MAX_VALIDATED = 20  # epochs of a fine-tuning
NUM_VALIDATED = 10  # epochs of a longer one that keeps its last epoch: validation takes time
SECOND_STAGE = {"pre": 2 / 3, "post": 0.2}  # its learning rate relative to the first stage
FEW_PAIRS = 200_000
USUAL_LENGTH = 512  # tokens that hold most texts
Backend = Callable[..., Callable[..., Any]]  # compiles a graph
HEAD_STEPS = 200  # in which a head that is new to a pretrained backbone learns alone
HEAD_SHARE = 10  # of a short training, one step in this many at most


def seed_weights(seed: int, purpose: str) -> None:
    """Make the weights built next depend on the seed and the purpose alone."""
    torch.manual_seed(derive_seed(seed, "weights", purpose))


def compile_backbone(backbone: nn.Module) -> None:
    """Compile in place for batches of one shape; the names of parameters stay the same."""
    if _has_compiler(backbone):
        backbone.compile(dynamic=False)


def _has_compiler(module: nn.Module) -> bool:
    """Tell whether torch can compile for the device of a module."""
    return next(module.parameters()).device.type != "cuda" or builds_kernels()


def compile_blocks(stack: Stack, backend: str | Backend = "inductor") -> None:
    """Compile the blocks in place, once for all of them, for all shapes and for later models."""
    for block in stack.blocks if _has_compiler(stack) else ():
        block.compile(dynamic=True, backend=backend)


def compile_translator(model: Translator) -> None:
    """Compile the blocks of encoder and decoder in place, for pairs of any length."""
    for stack in (model.encoder, model.decoder):
        compile_blocks(stack)


def pretraining_rate(model: ModelConfig, optimizer: str, is_second_stage: bool = False) -> float:
    """Return the default peak rate; a second stage must not undo what the first one learned.

    Post-norm models diverge where pre-norm ones learn fast.
    """
    rate = 3e-3 if optimizer == "muon" else 2e-3 if model.norm_position == "pre" else 1e-3
    return SECOND_STAGE[model.norm_position] * rate if is_second_stage else rate


def finetuning_rate(model: ModelConfig, arm: str) -> float:
    """Return the default peak rate of an arm.

    At a higher rate, a warm start loses what pretraining learned; wider models need lower rates.
    """
    warm = 2e-4 * 384 / model.width
    cold = 2e-3 if model.norm_position == "pre" else 5e-4
    return {"frozen": 1e-2, "warm": warm, "cold": cold}[arm]


def finetuning_layer_decay(arm: str) -> float:
    """Return the default rate of a block relative to the next: low blocks hold what is general."""
    return 0.65 if arm == "warm" else 1.0


def finetuning_length(model: ModelConfig) -> int:
    """Return the default maximum length of texts in a fine-tuning, in tokens.

    With rotary positions a model also reads texts twice as long as those it was pretrained on.
    """
    if model.positions != "rope":
        return model.max_length
    return max(model.max_length, min(2 * model.max_length, USUAL_LENGTH))


def finetuning_epochs(num_texts: int, tuning: Tuning) -> int:
    """Return the number of epochs, by default 40 with 100 texts or fewer, 6 with 1,000, then 3."""
    usual = round(min(MAX_EPOCHS, max(3.0, MAX_EPOCHS * (100 / num_texts) ** 0.8)))
    return tuning.epochs or usual


def epochs_between_validations(num_epochs: int, tuning: Tuning) -> int:
    """Return the number of epochs from one validation of a fine-tuning to the next."""
    is_short = num_epochs <= MAX_VALIDATED
    is_chosen = tuning.keep_epoch == "best"
    return -(-num_epochs // (MAX_VALIDATED if is_short or is_chosen else NUM_VALIDATED))


def translation_epochs(num_pairs: int) -> int:
    """Return the default number of epochs: 32 with 30,000 pairs, more with fewer."""
    return round(min(200.0, max(5.0, 32 * (30_000 / num_pairs) ** 0.5)))


def translation_consistency(num_pairs: int, model: ModelConfig) -> float:
    """Return the default weight of consistency, which doubles the work: many pairs need none."""
    return 5.0 if num_pairs <= FEW_PAIRS and model.dropout else 0.0


def translation_rate(model: ModelConfig, optimizer: str) -> float:
    """Return the default peak rate; wider models learn slower, as in the 2017 paper."""
    if optimizer == "muon":
        return 3e-3
    return (1.0 if model.norm_position == "pre" else 0.5) * 2e-3 * (256 / model.width) ** 0.5
