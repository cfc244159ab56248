"""The settings of `plan`: a job that is not run yet, and the machine it would run on.

Knows nothing about what a job costs.
"""

from dataclasses import dataclass
from typing import Literal

from warmstart.settings.base import Settings, option
from warmstart.settings.model import ArchitectureOverrides
from warmstart.settings.training import Machine

PlannedObjective = Literal["causal", "masked", "classify", "translate"]


@dataclass(frozen=True, kw_only=True)
class PlanConfig(ArchitectureOverrides, Machine, Settings):
    """A shape and a job in; FLOPs, memory and time out."""

    model: str | None = option(None, help="preset or run folder", positional=True)
    objective: PlannedObjective | None = option(
        None, help="causal, masked, classify or translate; default: what the model is for"
    )
    vocab_size: int | None = option(None, help="entries in the vocabulary", least=1)
    labels: int = option(2, help="classes of a classifier", least=2)
    batch_tokens: int | None = option(
        None, help="tokens per optimizer step; default: by objective", least=2
    )
    micro_tokens: int | None = option(
        None, help="tokens per forward pass; default: by objective", least=2
    )
    steps: int | None = option(
        None, help="optimizer steps; default: by objective", least=1, excludes="tokens"
    )
    tokens: int | None = option(
        None, help="tokens to see, instead of steps", least=1, excludes="steps"
    )
    mask_rate: float = option(0.15, help="share of tokens a masked model restores", above=0, most=1)
    optimizer: Literal["adamw", "muon"] | None = option(
        None, help="adamw or muon; default: what the objective's command takes"
    )
    on: str | None = option(
        None, help="a device of the table instead of this machine; list prints the table"
    )
    measure: bool = option(True, help="run some steps here to know the time")
    seconds: float = option(30.0, help="time to measure for, about", above=0)
