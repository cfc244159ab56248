"""The settings of `compare`."""

from dataclasses import dataclass

from warmstart.errors import WarmstartError
from warmstart.settings.base import option
from warmstart.settings.finetuning import Tuning
from warmstart.settings.input_files import LabelledFiles
from warmstart.settings.machine import Machine
from warmstart.settings.saving import Destination


@dataclass(frozen=True, kw_only=True)
class CompareConfig(LabelledFiles, Tuning, Destination, Machine):
    """Pretrained runs and labelled texts in, verdict out."""

    from_runs: tuple[str, ...] = option(key="from", help="pretrained run; repeat for several")
    test: str | None = option(None, help="labelled texts, scored once at the end")
    test_labels: str | None = option(None, help="labels of --test, one per line")
    title: str = option(
        "warm start against cold",
        help="title of the report",
        fixed=False,
        metavar="TEXT",
        advanced=True,
    )
    labels: tuple[str, ...] = option(
        ("all",),
        help="label subsets, e.g. 50,400,all",
        comma_separated=True,
        metavar="SIZES",
        panel="Training",
    )
    seeds: tuple[int, ...] = option(
        (0, 1, 2), help="seeds of every arm", least=0, comma_separated=True, panel="Training"
    )
    trials: int = option(3, help="settings tried for each arm", least=1, most=9, panel="Training")
    max_length: int | None = option(None, help="longest text in tokens", least=3, panel="Training")
    attainable: float | None = option(
        None, help="best accuracy possible, where known", has_flag=False, fixed=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise WarmstartError(f"--seeds {list(self.seeds)} must be different numbers")
        for size in self.labels:
            if size != "all" and (not size.isdecimal() or int(size) < 2):
                raise WarmstartError(f"--labels {size!r} must be a number from 2 up, or all")
