"""The settings of `params` and `plan`."""

from dataclasses import dataclass
from typing import Literal

from warmstart.settings.architecture import ArchitectureOverrides
from warmstart.settings.base import option
from warmstart.settings.choices import Optimizer
from warmstart.settings.machine import Machine
from warmstart.settings.model import Attention


@dataclass(frozen=True, kw_only=True)
class ParamsConfig(ArchitectureOverrides, panel="Model"):
    """An architecture in, its parameter counts out."""

    model: str = option(help="preset or run folder", positional=True)
    head: Literal["all", "lm", "classifier", "none"] = option(
        "all", help="all: every head of pretraining"
    )
    labels: int = option(2, help="classes of the classifier", least=2)
    frozen: bool = option(False, help="count only the head as trainable")
    vocab_size: int | None = option(None, help="entries in the vocabulary", least=1)
    attention: Attention | None = option(None, help="which positions each one sees")
    segments: int | None = option(None, help="number of segment embeddings", least=0)
    pooler: bool | None = option(None, help="dense + tanh over the first position")
    transform: bool | None = option(None, help="dense + norm before the output weights")


@dataclass(frozen=True, kw_only=True)
class PlanConfig(ArchitectureOverrides, Machine, panel="Training"):
    """An architecture and a job in; FLOPs, memory and time out."""

    model: str | None = option(None, help="preset or run folder", positional=True)
    objective: str | None = option(
        None, help="causal, masked, classify or translate; default: by model", metavar="NAME"
    )
    vocab_size: int | None = option(None, help="entries in the vocabulary", least=1, panel="Model")
    labels: int = option(2, help="classes of a classifier", least=2, panel="Model")
    batch_tokens: int | None = option(
        None, help="tokens per optimizer step; default: by objective", least=2
    )
    micro_tokens: int | None = option(
        None, help="tokens per forward pass; default: by objective", least=2
    )
    steps: int | None = option(
        None, help="optimizer steps; default: by objective", least=1, excludes="tokens"
    )
    tokens: int | None = option(None, help="tokens to train on, instead of --steps", least=1)
    mask_rate: float = option(0.15, help="masked: share of tokens masked", above=0, most=1)
    optimizer: Optimizer | None = option(None, help="default: by objective")
    on: str | None = option(
        None,
        help="device to plan for instead of this machine; list: show them",
        metavar="NAME",
        panel="Machine",
    )
    measure: bool = option(True, help="run some steps here to measure the time", panel="Machine")
    seconds: float = option(30.0, help="time to measure, approximately", above=0, panel="Machine")
