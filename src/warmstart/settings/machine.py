"""The settings of the machine a job runs on."""

from dataclasses import dataclass
from typing import Literal

from warmstart.settings.base import Settings, option


@dataclass(frozen=True, kw_only=True)
class Machine(Settings, panel="Machine"):
    """Where a job runs, and its randomness."""

    device: Literal["auto", "cpu", "cuda"] = option(
        "auto", help="auto: CUDA where there is one", fixed=False
    )
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto", help="auto: bf16 where the hardware computes in it"
    )
    threads: int | None = option(
        None, help="CPU threads; default: all cores", least=1, most=1024, fixed=False
    )
    seed: int = option(0, help="determines every random choice", least=0)
