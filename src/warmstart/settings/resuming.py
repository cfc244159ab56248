"""The settings of `verify-resume`."""

from typing import Literal

from warmstart.settings.base import argument, option
from warmstart.settings.shared import Machine

KilledCommand = Literal["pretrain", "finetune", "compare", "train-translator"]


class VerifyResumeConfig(Machine, panel="Training"):
    """A job in, proof out that it survives being killed."""

    job: str | None = argument("TOML file or config.json of a job; default: tiny pretraining", None)
    command: KilledCommand = option(
        "command of a TOML file; config.json names its own",
        "pretrain",
        metavar="NAME",
        panel="Input and output",
    )
    out: str | None = option(
        "folder for the runs; default: a temporary one", None, short="-o", panel="Input and output"
    )
    kills: int = option("times a run is killed with SIGKILL", 10, least=1)
    steps: int = option("steps of a pretraining; other jobs run few epochs", 60, least=4)
    save_every: int = option("steps between checkpoints", 5, least=1, panel="Saving")
