"""The settings of `verify-resume`."""

from dataclasses import dataclass
from typing import Literal

from warmstart.settings.base import option
from warmstart.settings.machine import Machine

KilledCommand = Literal["pretrain", "finetune", "compare", "train-translator"]


@dataclass(frozen=True, kw_only=True)
class VerifyResumeConfig(Machine, panel="Training"):
    """A job in, proof out that it survives being killed."""

    job: str | None = option(
        None, help="TOML file or config.json of a job; default: a tiny pretraining", positional=True
    )
    command: KilledCommand = option(
        "pretrain",
        help="command of a TOML file; config.json names its own",
        metavar="NAME",
        panel="Input and output",
    )
    out: str | None = option(
        None,
        help="folder for the runs; default: a temporary one",
        short="-o",
        panel="Input and output",
    )
    kills: int = option(10, help="times a run is killed with SIGKILL", least=1)
    steps: int = option(60, help="steps of a pretraining; other jobs run few epochs", least=4)
    save_every: int = option(5, help="steps between checkpoints", least=1, panel="Saving")
