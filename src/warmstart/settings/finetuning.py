"""The settings of `finetune`, and of training a classifier in general."""

from dataclasses import dataclass
from typing import Literal

from warmstart.settings.architecture import Architecture
from warmstart.settings.base import Settings, option
from warmstart.settings.choices import Pooling, Truncate
from warmstart.settings.input_files import LabelledFiles
from warmstart.settings.machine import Machine
from warmstart.settings.saving import Checkpoints, Destination
from warmstart.settings.tokenizers import ModelTokenizer


@dataclass(frozen=True, kw_only=True)
class Tuning(Settings, panel="Training"):
    """How a classifier is trained."""

    epochs: int = option(8, help="passes over the labelled texts", least=1)
    batch_size: int = option(16, help="texts per optimizer step", least=1)
    micro_tokens: int = option(8192, help="padded tokens per forward pass", least=2)
    learning_rate: float | None = option(
        None, help="peak; default: by arm and norm position", above=0
    )
    weight_decay: float = option(0.01, help="decoupled, on matrices", least=0, advanced=True)
    warmup: float = option(
        0.1, help="share of steps with a rising learning rate", least=0, most=1, advanced=True
    )
    clip: float = option(1.0, help="largest gradient norm", above=0, advanced=True)
    layer_decay: float = option(1.0, help="rate of a block relative to the next", above=0, most=1)
    unfreeze: bool = option(False, help="one more block each epoch, head first")
    pooling: Pooling = option("mean", help="positions of the text vector")
    truncate: Truncate = option("head", help="part of an overlong text used")
    balance: Literal["weights", "none"] = option("weights", help="weights: rare classes count more")
    select: Literal["accuracy", "f1"] = option("accuracy", help="metric that selects the epoch")
    classifier_dropout: float = option(
        0.1, help="dropout before the classification head", least=0, most=0.95, advanced=True
    )


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(
    LabelledFiles,
    Architecture,
    ModelTokenizer,
    Tuning,
    Destination,
    Checkpoints,
    Machine,
    panel="Training",
):
    """Labelled texts in, classifier out."""

    from_run: str | None = option(
        None,
        key="from",
        help="pretrained run to start from; without it: cold start",
        panel="Input and output",
    )
    task: str = option("classify", help="what to train: classify", metavar="NAME")
    frozen: bool = option(False, help="train only the head")
