"""The settings of `verify-resume`.

Know nothing about how a run is killed.
"""

from dataclasses import dataclass
from typing import Literal

from warmstart.settings.base import Settings, option
from warmstart.settings.training import Machine

KilledCommand = Literal["pretrain", "finetune", "compare", "train-translator"]


@dataclass(frozen=True, kw_only=True)
class VerifyResumeConfig(Machine, Settings):
    """A job in, proof out that it survives being killed."""

    job: str | None = option(
        None,
        help="TOML file or config.json of a job of your own; default: a tiny pretraining",
        positional=True,
    )
    command: KilledCommand = option(
        "pretrain", help="command that a TOML file belongs to; a config.json names its own"
    )
    kills: int = option(10, help="times a run is killed with SIGKILL", least=1)
    steps: int = option(60, help="steps of the short pretraining; others take few epochs", least=4)
    save_every: int = option(5, help="steps between checkpoints", least=1)
    out: str | None = option(
        None, help="folder to keep the runs in; default: a temporary one", short="-o"
    )
