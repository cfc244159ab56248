"""What a worker does to train one cell of a comparison.

A worker gets the settings and the name of a cell. It reads the files itself and writes the cell
into the folder of the comparison, so only names, numbers and sentences travel.
"""

import functools
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from warmstart import progress
from warmstart.errors import StoppedError, WarmstartError
from warmstart.experiments.budget import limited
from warmstart.experiments.cells import CellGroup, cell_groups
from warmstart.experiments.experiment_plan import plan_experiment
from warmstart.experiments.subsets import subset_sizes
from warmstart.jsonfiles import typed
from warmstart.ray_cluster import refuse_other_code
from warmstart.runs.facts import ConfigFile
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import check_unchanged
from warmstart.settings.finetuning import CompareConfig
from warmstart.version import code_digest


@dataclass(frozen=True)
class Outcome:
    """How a job ended, and what it said meanwhile."""

    lines: tuple[str, ...] = ()
    error: str | None = None

    def report(self) -> None:
        """Say it here; raise the error, if there was one."""
        for line in self.lines:
            progress.say(line)
        if self.error is not None:
            raise WarmstartError(self.error)


@dataclass(frozen=True)
class CellOrder:
    """A cell that a worker trains."""

    config: CompareConfig
    folder: str  # in which the command runs
    code: bytes  # checksum
    group: str
    seed: int | None

    @classmethod
    def of(cls, config: CompareConfig, group: CellGroup, seed: int | None) -> Self:
        """Return the order for a cell of a group, or for its tuning."""
        return cls(config, os.getcwd(), code_digest(), group.stem.name, seed)

    def run(self) -> Outcome:
        """Train the cell in this process, which does nothing else."""
        said = _Lines([])
        try:
            with progress.shown_by(said):
                self._train()
        except StoppedError:  # the process was told to end
            os._exit(1)
        except WarmstartError as error:
            return Outcome(tuple(said.lines), str(error))
        return Outcome(tuple(said.lines))

    def _train(self) -> None:
        refuse_other_code(self.code)
        if not Path(self.folder, self.config.out).is_dir():
            raise WarmstartError(
                f"{Path(self.folder, self.config.out)} is not visible on "
                f"{socket.gethostname()}: -o and the current folder must be on a file "
                "system that all machines share"
            )
        os.chdir(self.folder)
        with progress.silenced():  # the command has said it
            group = _groups(self.config)[self.group]
        group.train(self.seed)


@functools.lru_cache(maxsize=1)
def _groups(config: CompareConfig) -> dict[str, CellGroup]:
    """Return the groups of a comparison by name, from its files."""
    run = RunFolder(config.out)
    check_unchanged(run)
    plan = plan_experiment(config)
    limit = typed(ConfigFile, run.config(), run.config_file).within_minutes
    assert limit is not None, "it is decided before the first cell"
    config, plan = limited(config, plan, limit)
    subsets = subset_sizes(config, plan.texts.pool, len(plan.texts.classes))
    return {group.stem.name: group for group in cell_groups(config, run, plan, subsets)}


@dataclass(frozen=True)
class _Lines:
    """Keeps what is said."""

    lines: list[str]

    def say(self, line: str) -> None:
        self.lines.append(line)

    def advance(self, amount: float, note: str = "") -> None: ...

    def bar(
        self, title: str, total: float | None, unit: str, done: float
    ) -> Iterator[progress.Bar]:
        yield self
