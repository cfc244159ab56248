"""Kill a run again and again, resume it, and compare it with one that was left in peace.

Kills come at random moments, and in the middle of writes: those are seen from outside, by the
temporary names in the run folder. Knows nothing about what is trained.
"""

import hashlib
import json
import random
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart.errors import WarmstartError
from warmstart.files import is_leftover
from warmstart.recipes.sittings import Sitting, Sittings
from warmstart.runs.checkpoint import TENSORS, list_checkpoints
from warmstart.runs.folder import RunFolder
from warmstart.textfiles import sha256_of
from warmstart.training.record import read_metrics

_POLL_S = 0.0003
_PATIENCE_S = 120.0  # for a sitting to get anywhere
_ANEW = 0.4  # how often the next kill hits a new run, not the resumed one
_WRITE_S = 0.004  # a kill comes at most this long after a write was seen to begin


@dataclass(frozen=True)
class Job:
    """A run to torment."""

    command: str
    settings: Mapping[str, Any]  # all but the folder


@dataclass(frozen=True)
class Kill:
    """One SIGKILL, and what became of the run."""

    moment: str  # what the process was doing
    step: int  # where the resumed run began; for a comparison, the parts it found finished
    unit: str  # "step" or "part"
    differs: tuple[str, ...]  # what is not as in the run that was left in peace

    @property
    def is_identical(self) -> bool:
        """Tell whether the run went on from its work, and ended as if nothing had happened."""
        return self.step > 0 and not self.differs


def torment(
    job: Job, num_kills: int, rng: random.Random, sittings: Sittings, folder: Path
) -> Iterator[Kill]:
    """Yield each kill with what a run that was resumed after it came to."""
    whole, took_s = _to_its_end(job, sittings, folder / "whole")
    expected = traces(whole)
    victim = RunFolder(folder / "victim")
    while num_kills:
        moment = _killed(job, sittings, victim, rng, took_s)
        if moment is None:  # it was quicker than the kill
            shutil.rmtree(victim.path)
            continue
        num_kills -= 1
        shutil.copytree(victim.path, folder / "resumed")  # the victim itself is killed again
        resumed, _ = _to_its_end(job, sittings, folder / "resumed")
        found = traces(resumed)
        differs = [name for name in expected | found if expected.get(name) != found.get(name)]
        yield Kill(moment, *_resumed_at(folder / "resumed.log", victim), tuple(differs))
        shutil.rmtree(resumed.path)
        if rng.random() < _ANEW:
            shutil.rmtree(victim.path)


def traces(run: RunFolder) -> dict[str, str]:
    """Return a checksum of everything a finished run trained and measured, clocks left out."""
    found = {path.name: sha256_of(path) for path in run.path.glob("*.safetensors")}
    for path in list_checkpoints(run)[-1:]:
        found |= {f"{path.name}/{name}": sha256_of(path / name) for name in TENSORS}
    if run.metrics_file.exists():
        found[run.metrics_file.name] = _checksum(read_metrics(run.metrics_file))
    for cell in sorted(run.cells.glob("*.json")):
        found[f"{run.cells.name}/{cell.name}"] = _checksum(run.read_json(cell))
    return found


def _checksum(data: object) -> str:
    return hashlib.sha256(json.dumps(_timeless(data), sort_keys=True).encode()).hexdigest()


def _timeless(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _timeless(value) for key, value in data.items() if not key.endswith("_s")}
    return [_timeless(item) for item in data] if isinstance(data, list) else data


def _begin(job: Job, sittings: Sittings, path: Path) -> Sitting:
    place = {"out": str(path), "resume": path.exists()}
    return sittings.begin(job.command, {**job.settings, **place}, path.with_suffix(".log"))


def _to_its_end(job: Job, sittings: Sittings, path: Path) -> tuple[RunFolder, float]:
    """Run or resume a job; return its folder and how long the process worked."""
    sitting = _begin(job, sittings, path)
    began = time.monotonic()
    _succeeded(sitting, sitting.wait())
    return RunFolder(path), time.monotonic() - began


def _succeeded(sitting: Sitting, code: int) -> None:
    if code:
        last = (sitting.said().strip().splitlines() or [f"exit code {code}"])[-1]
        raise WarmstartError(f"the run failed: {last.removeprefix('warmstart: ')}")


def _killed(
    job: Job, sittings: Sittings, run: RunFolder, rng: random.Random, took_s: float
) -> str | None:
    """Kill a sitting that has work to lose; return what it was doing, None if it ended first."""
    sitting = _begin(job, sittings, run.path)
    _await(sitting, lambda: _has_whole_work(run))
    until = time.monotonic() + rng.uniform(0, took_s)
    _await(sitting, lambda: time.monotonic() > until)
    if rng.random() < 0.5:
        _await(sitting, lambda: bool(_being_written(run)))
        time.sleep(rng.uniform(0, _WRITE_S))
    code = sitting.kill()
    if sitting.is_over:
        _succeeded(sitting, max(0, code))
        return None
    if run.is_finished:  # killed on its way out: nothing was left to resume
        return None
    writing = _being_written(run)
    return f"writing {writing[0]}" if writing else "computing"


def _await(sitting: Sitting, is_so: Any) -> None:
    """Wait for something, for the end of the sitting, or in vain."""
    until = time.monotonic() + _PATIENCE_S
    while not is_so() and not sitting.is_over and time.monotonic() < until:
        time.sleep(_POLL_S)


def _has_whole_work(run: RunFolder) -> bool:
    return bool(list_checkpoints(run)) or any(run.cells.glob("[!.]*.json"))


def _being_written(run: RunFolder) -> list[str]:
    """Return the names of what is half written."""
    folders = (run.path, run.checkpoints, run.cells)
    return [
        re.sub(r"^\.|\.\d+\.tmp$", "", entry.name)
        for folder in folders
        if folder.is_dir()
        for entry in folder.iterdir()
        if is_leftover(entry) and entry.name.endswith(".tmp")
    ]


def _resumed_at(log: Path, victim: RunFolder) -> tuple[int, str]:
    """Return the step the run said it went on from; for a comparison, its finished parts."""
    said = re.search(r"going on from step (\d+)", log.read_text(encoding="utf-8"))
    if said:
        return int(said[1]), "step"
    return len(list(victim.cells.glob("[!.]*.json"))), "part"
