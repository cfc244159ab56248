"""The settings and the command of `verify-resume`."""

from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.printing import print_json, print_table, say
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


def verify_resume(config: VerifyResumeConfig, as_json: bool) -> None:
    from warmstart.verify.resume import verify_resume as run

    result = run(config)
    if as_json:
        kills = [{**vars(kill), "is_identical": kill.is_identical} for kill in result.kills]
        print_json({"kills": kills, "identical": result.num_identical})
    else:
        rows = [
            (k.moment, f"{k.unit} {k.step}", "identical" if k.is_identical else "different")
            for k in result.kills
        ]
        print_table(("killed while", "resumed from", "final weights"), rows)
        say(f"{result.num_identical}/{len(result.kills)} identical")
    for kill in result.kills:
        if not kill.is_identical:
            parts = ", ".join(kill.differs) or "the first step"
            raise WarmstartError(f"a resumed run differs from an uninterrupted one in: {parts}")
