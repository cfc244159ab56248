"""The runs that a server has, by name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from warmstart.errors import WarmstartError
from warmstart.formats import one_line
from warmstart.inference.text_model import VERBS, TextModel
from warmstart.loading import open_saved
from warmstart.runs.saved import read_run
from warmstart.serving.refusals import UnknownError, UnprocessableError
from warmstart.serving.worker import Worker
from warmstart.settings.base import suggestion
from warmstart.settings.shared import Machine


def load_runs(runs: tuple[str, ...], machine: Machine) -> dict[str, TextModel]:
    """Load every run under the name given as NAME=RUN, or that of its folder."""
    models: dict[str, TextModel] = {}
    for argument in runs:
        name, path = _parse(argument)
        if name in models:
            raise WarmstartError(
                f"RUNS: two runs are called '{name}'; write NAME={path} to choose another name"
            )
        saved = read_run(path)
        saved.refuse_if_ablated("be served")
        # Messages go to clients, who should not learn where the run is stored.
        models[name] = replace(open_saved(saved, machine), name=name)
    return models


def _parse(argument: str) -> tuple[str, str]:
    name, equals, path = argument.partition("=")
    if not equals or Path(argument).exists():
        name, path = Path(argument).resolve().name, argument
    if not name or one_line(name) != name:
        raise WarmstartError(f"RUNS {argument!r}: the name of a run is one line of text")
    return name, path


@dataclass(frozen=True)
class HostedRuns:
    """The runs of a server with their threads."""

    workers: Mapping[str, Worker]

    @cached_property
    def _able(self) -> dict[str, list[str]]:
        """The runs that have each verb."""
        return {verb: [run for run, model in self if verb in model.abilities] for verb in VERBS}

    def __iter__(self) -> Iterator[tuple[str, TextModel]]:
        return iter((name, worker.model) for name, worker in self.workers.items())

    def choose(self, name: str | None, verb: str) -> Worker:
        """Return the run of this name; without one, the only run that has the verb."""
        if name is not None:
            if name not in self.workers:
                raise UnknownError(f"the model {name!r} is unknown{suggestion(name, self.workers)}")
            return self.workers[name]
        able = self._able[verb]
        if len(able) == 1:
            return self.workers[able[0]]
        if able:
            raise UnprocessableError(f"model is missing: it can be {', '.join(able)}")
        raise UnknownError(f"no run of this server can {verb.replace('_', ' ')}")

    def close(self) -> None:
        """Finish what was accepted."""
        for worker in self.workers.values():
            worker.close()
