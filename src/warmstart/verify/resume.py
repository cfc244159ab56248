"""A job -> proof that it survives being killed."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.files import final_name
from warmstart.jsonfiles import from_json, read_object
from warmstart.report.html import Shown, bullets
from warmstart.runs.checkpoint import TENSORS, list_checkpoints
from warmstart.runs.folder import RunFolder
from warmstart.samples.samples import SampleSizes, write_samples
from warmstart.settings.base import read_settings_file
from warmstart.textfiles import sha256_of
from warmstart.verify.commands import VerifyResumeConfig
from warmstart.verify.sessions import JOBS, Session

SIZES = SampleSizes(
    unlabelled=200, train=48, valid=24, test=24, train_pairs=1, valid_pairs=1, test_pairs=1
)
SMALL: dict[str, Any] = {
    "preset": "tiny",
    "width": 16,
    "heads": 2,
    "depth": 1,
    "ffn_width": 32,
    "vocab_size": 300,
    "max_length": 16,
    "dropout": 0.1,
    "batch_tokens": 64,
}
_POLL_S = 0.01
WRITE_POLL_S = 0.0003  # a write is short; polling this often at all times would slow the runs
_PATIENCE_S = 120.0  # for a session to make progress
_NEW_RUN_SHARE = 0.4  # of kills after which the next one hits a new run
_WRITE_S = 0.004  # longest delay between the start of a write and the kill


@dataclass(frozen=True)
class Kill:
    """One SIGKILL, and how the resumed run compares."""

    moment: str  # what the process was doing
    step: int  # from which the run resumed; for a comparison, its finished cells
    unit: str  # "step" or "cell"
    differs: tuple[str, ...]  # files that differ from the uninterrupted run

    def __str__(self) -> str:
        verdict = f"{', '.join(self.differs)} differ" if self.differs else "identical"
        return f"killed while {self.moment}, resumed from {self.unit} {self.step}: {verdict}"

    @property
    def is_identical(self) -> bool:
        """Tell whether the run resumed from saved work and ended like the uninterrupted one."""
        return self.step > 0 and not self.differs


@dataclass(frozen=True)
class VerifyResult(Shown):
    """Every kill, compared after its run was resumed."""

    kills: tuple[Kill, ...]

    def pieces(self) -> list[str]:
        return [bullets(map(str, self.kills))]

    @property
    def num_identical(self) -> int:
        """Return how many resumed runs equal the uninterrupted one."""
        return sum(kill.is_identical for kill in self.kills)


def verify_resume(config: VerifyResumeConfig) -> VerifyResult:
    """Kill a short run at random moments, resume it each time, and compare the final weights."""
    if not hasattr(os, "fork"):
        raise WarmstartError(
            "verify-resume kills processes that it forks, which Windows does not have: run it on "
            "Linux or macOS; runs are resumed in the same way on all systems"
        )
    with _folder(config.out) as folder:
        job = _job(config, folder)
        rng = random.Random(config.seed)
        kills = []
        with progress.bar("killing", config.kills, "kill") as bar:
            for kill in kill_and_resume(job, config.kills, rng, folder):
                kills.append(kill)
                progress.say(str(kill))
                bar.advance(1)
    return VerifyResult(tuple(kills))


@contextmanager
def _folder(out: str | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="warmstart-verify-") as temporary:
            yield Path(temporary)
        return
    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()):
        raise WarmstartError(f"{folder} is not empty: choose another -o")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


@dataclass(frozen=True)
class KilledJob:
    """A run to kill and resume."""

    command: str
    settings: Mapping[str, Any]  # without the folder


def _job(config: VerifyResumeConfig, folder: Path) -> KilledJob:
    """Return the user's job, or a tiny one, made short."""
    if config.job is None:
        files = write_samples(folder / "samples", sizes=SIZES)
        return short_job("pretrain", {**SMALL, "files": [str(files.unlabelled)]}, config)
    path = Path(config.job)
    values = read_settings_file(path, flag="")
    command = _command_in(path) or config.command
    if command not in JOBS:
        raise WarmstartError(f"{path} was written by {command}, which is not one of {list(JOBS)}")
    JOBS[command][0].check_keys(values, f"{path}: ")
    return short_job(command, values, config)


def _command_in(path: Path) -> str | None:
    """Return the command that a run's config.json names."""
    if path.suffix != ".json":
        return None
    command = read_object(path).get("command")
    return None if command is None else from_json(str, command, path, "command")


def short_job(command: str, values: dict[str, Any], config: VerifyResumeConfig) -> KilledJob:
    """Return a job that takes seconds, with many checkpoints."""
    settings = JOBS[command][0]
    steps, every = config.steps, config.save_every
    stepwise = {"steps": steps, "save_every": every, "eval_every": -(-steps // 4)}
    brief: dict[str, dict[str, Any]] = {
        "pretrain": stepwise,
        "finetune": {"epochs": 2, "save_every": every},
        "compare": {"epochs": 1, "seeds": [0], "trials": 1},
        "train-translator": stepwise,
    }
    machine: dict[str, Any] = {
        "device": config.device if config.device != "auto" else None,
        "precision": config.precision if config.precision != "auto" else None,
        "threads": config.threads,
    }
    given = {key: value for key, value in machine.items() if value is not None}
    return KilledJob(command, settings.override(values, {**brief[command], **given}))


def kill_and_resume(
    job: KilledJob, num_kills: int, rng: random.Random, folder: Path
) -> Iterator[Kill]:
    """Yield each kill, compared after its run was resumed and finished."""
    uninterrupted, took_s = _finish(job, folder / "uninterrupted")
    expected = traces(uninterrupted)
    victim = RunFolder(folder / "victim")
    while num_kills:
        moment = _kill(job, victim, rng, took_s)
        if moment is None:  # the run finished before the kill
            shutil.rmtree(victim.path)
            continue
        num_kills -= 1
        shutil.copytree(victim.path, folder / "resumed")  # the victim itself is killed again
        resumed, _ = _finish(job, folder / "resumed")
        actual = traces(resumed)
        differs = [name for name in expected | actual if expected.get(name) != actual.get(name)]
        yield Kill(moment, *_resumed_at(folder / "resumed.log", victim), tuple(differs))
        shutil.rmtree(resumed.path)
        if rng.random() < _NEW_RUN_SHARE:
            shutil.rmtree(victim.path)


def traces(run: RunFolder) -> dict[str, str]:
    """Return checksums of everything a finished run trained and measured, except times."""
    sums = {path.name: sha256_of(path) for path in run.path.glob("*.safetensors")}
    for path in list_checkpoints(run)[-1:]:
        sums |= {f"{path.name}/{name}": sha256_of(path / name) for name in TENSORS}
    if run.metrics_file.exists():
        lines = run.metrics_file.read_text(encoding="utf-8").splitlines()
        sums[run.metrics_file.name] = _checksum([json.loads(line) for line in lines])
    for cell in sorted(run.cells.glob("*.json")):
        sums[f"{run.cells.name}/{cell.name}"] = _checksum(run.read_json(cell))
    return sums


def _checksum(data: object) -> str:
    return hashlib.sha256(json.dumps(_without_times(data), sort_keys=True).encode()).hexdigest()


def _without_times(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_times(value) for key, value in data.items() if not key.endswith("_s")}
    return [_without_times(item) for item in data] if isinstance(data, list) else data


def _session(job: KilledJob, path: Path) -> "closing[Session]":
    """Start or resume a job; the session ends with the block that it is used in."""
    settings = {**job.settings, "out": str(path), "resume": path.exists()}
    return closing(Session(job.command, settings, path.with_suffix(".log")))


def _finish(job: KilledJob, path: Path) -> tuple[RunFolder, float]:
    """Run or resume a job to its end; return its folder and its seconds after the first save."""
    with _session(job, path) as session:
        await_condition(session, lambda: _has_saved_work(RunFolder(path)))
        started = time.monotonic()
        _check_exit(session, session.wait())
    return RunFolder(path), time.monotonic() - started


def _check_exit(session: Session, code: int) -> None:
    if code:
        last = (session.output().strip().splitlines() or [f"exit code {code}"])[-1]
        raise WarmstartError(f"the run failed: {last.removeprefix('warmstart: ')}")


def _kill(job: KilledJob, run: RunFolder, rng: random.Random, took_s: float) -> str | None:
    """Kill a session that has work to lose; return what it was doing, None if it ended first."""
    before = list_checkpoints(run)
    with _session(job, run.path) as session:
        await_condition(session, lambda: _has_saved_work(run))
        if "processes" in job.settings:  # these take seconds to start, with nothing to lose
            await_condition(session, lambda: list_checkpoints(run) != before)
        until = time.monotonic() + rng.uniform(0, took_s)
        await_condition(session, lambda: time.monotonic() > until)
        if rng.random() < 0.5:
            await_condition(session, lambda: bool(_being_written(run)), WRITE_POLL_S)
            time.sleep(rng.uniform(0, _WRITE_S))
        started = started_by(session.pid)
        victim = rng.choice([session.pid, *started])
        code = session.kill(victim)
        _await(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), _POLL_S)
        if code != -signal.SIGKILL and victim == session.pid:
            _check_exit(session, code)
            return None
    if run.is_finished:  # killed while exiting: nothing is left to resume
        return None
    writing = _being_written(run)
    moment = f"writing {writing[0]}" if writing else "computing"
    return f"{moment}, {_part(victim, session.pid, started)}" if started else moment


def _part(victim: int, launcher: int, ranks: Sequence[int]) -> str:
    return "the launcher" if victim == launcher else f"one of {len(ranks)} processes"


def started_by(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    lists = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            lists.append(file.read_text(encoding="utf-8"))
    return [int(child) for children in lists for child in children.split()]


def await_condition(
    session: Session, condition: Callable[[], bool], poll_s: float = _POLL_S
) -> None:
    """Wait for a condition, the end of the session, or the time limit."""
    _await(lambda: condition() or session.is_over, poll_s)


def _await(condition: Callable[[], bool], poll_s: float) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not condition() and time.monotonic() < until:
        time.sleep(poll_s)


def _has_saved_work(run: RunFolder) -> bool:
    return bool(list_checkpoints(run)) or any(run.cells.glob("[!.]*.json"))


def _being_written(run: RunFolder) -> list[str]:
    """Return the names of files that are being written."""
    folders = (run.path, run.checkpoints, run.cells)
    entries = [entry for folder in folders if folder.is_dir() for entry in folder.iterdir()]
    return [name for entry in entries if (name := final_name(entry))]


def _resumed_at(log: Path, victim: RunFolder) -> tuple[int, str]:
    """Return the step from which the run resumed; for a comparison, its finished cells."""
    match = re.search(r"continuing from step (\d+)", log.read_text(encoding="utf-8"))
    if match:
        return int(match[1]), "step"
    return len(list(victim.cells.glob("[!.]*.json"))), "cell"
