"""Show what a head replacement replaces: what is kept, thrown away and added, with shapes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from warmstart.errors import WarmstartError
from warmstart.insight.named_model import find_model
from warmstart.model import count
from warmstart.model.count import Layer
from warmstart.report.html import write_picture
from warmstart.report.notebook import ShownFile
from warmstart.report.transfer_figure import draw_transfer, transfer_sections
from warmstart.results.training_views import HeadSwap, ModelPart, merged
from warmstart.settings.looking import LookTransferConfig
from warmstart.settings.model import ModelConfig


@dataclass(frozen=True)
class TransferResult(ShownFile):
    """What is kept, thrown away and added, and the file that shows it."""

    out: Path
    swap: HeadSwap


def look_transfer(config: LookTransferConfig) -> TransferResult:
    """Show what changes when a pretrained model becomes a classifier."""
    shape, _ = find_model(config.model)
    if shape.decoder_depth:
        raise WarmstartError(f"{config.model} is a translator; name a model that reads one text")
    sizes = {"V": shape.vocab_size, "D": shape.width, "F": shape.ffn_width, "C": config.labels}
    sizes["L"] = shape.max_length
    swap = HeadSwap(
        name=config.model,
        backbone=_backbone(shape, sizes),
        old_head=_part("language-model head", count.count_pretraining_heads(shape), sizes),
        new_head=_part(
            f"classifier, {config.labels} classes",
            count.count_classification_head(shape, config.labels),
            sizes,
        ),
        is_frozen=config.frozen,
    )
    title = f"From {config.model} to a classifier"
    out = write_picture(draw_transfer(swap), title, transfer_sections(swap), Path(config.out))
    return TransferResult(out, swap)


def _backbone(shape: ModelConfig, sizes: dict[str, int]) -> tuple[ModelPart, ...]:
    """Return embeddings, blocks and what follows them; equal blocks are one part."""
    names = {"embed": "embedding", "norm_final": "final norm"}

    def part(layer: Layer) -> str:
        return ".".join(layer.name.split(".")[:2]) if "blocks." in layer.name else layer.name

    groups = groupby(count.count_backbone(shape), key=part)
    return merged([_part(names.get(name, name), list(layers), sizes) for name, layers in groups])


def _part(name: str, layers: Sequence[Layer], sizes: dict[str, int]) -> ModelPart:
    shapes = tuple(
        f"{layer.name.split('.', 2)[-1] if 'blocks.' in layer.name else layer.name}: "
        f"{_in_numbers(layer.formula, sizes)}"
        for layer in layers
        if layer.count
    )
    return ModelPart(name=name, shapes=shapes, count=sum(layer.count for layer in layers))


def _in_numbers(formula: str, sizes: dict[str, int]) -> str:
    """Return a formula with the sizes in place of their letters: 3D becomes 600 for a D of 200."""

    def number(match: re.Match[str]) -> str:
        return f"{int(match[1] or 1) * sizes[match[2]]:,}"

    return re.sub(r"\b(\d*)([VDFCL])\b", number, formula)
