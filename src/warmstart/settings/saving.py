"""The settings of the folder a job writes and of its checkpoints."""

from dataclasses import dataclass

from warmstart.settings.base import Settings, option


@dataclass(frozen=True, kw_only=True)
class Destination(Settings, panel="Saving"):
    """The folder a job writes."""

    out: str = option(help="folder to write", short="-o", recorded=False, panel="Input and output")
    resume: bool = option(False, help="continue the run in the folder", recorded=False)
    changed_data: bool = option(
        False,
        help="resume although the data has changed since the run started",
        recorded=False,
        advanced=True,
    )


@dataclass(frozen=True, kw_only=True)
class Checkpoints(Settings, panel="Saving"):
    """How often a run is saved."""

    save_every: int = option(500, help="steps between checkpoints", least=1, fixed=False)
    save_minutes: float = option(
        10.0, help="minutes between checkpoints", above=0, fixed=False, advanced=True
    )
    keep: int = option(
        2, help="checkpoints to keep, newest first", least=1, fixed=False, advanced=True
    )
