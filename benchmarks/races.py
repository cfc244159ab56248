"""Kill and race commands that write one folder, and look for anything of the user's that is lost.

The folder is also moved away under a command, and another one of the user put in its place.

In every trial the destination lies among files of the user, some with names like temporary ones.
"""

import os
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from warmstart.files import is_temporary, write_whole
from warmstart.textfiles import sha256_of
from warmstart.verify.resume import WRITE_POLL_S, await_condition
from warmstart.verify.sessions import Session

_NEIGHBOURS = ("notes.txt", ".notes.tmp", ".out.123.tmp", ".out.old", ".out.tmp/thesis.tex")
_USERS_FILE = "thesis.tex"  # of the user, inside the destination
_MOVED_IN = (  # files of the user in the folder that takes the place of the destination
    *("model.safetensors", "config.json", "tokenizer.json", "thesis.tex", "cache/train.bin"),
    *("checkpoints/step-2/thesis.tex", "checkpoints/step-4/state.json", "shards/notes.txt"),
)
_CONTENT = b"ten years of work"
_TIMED = ("metrics.jsonl", "scores.json", "events", "state.json")  # hold times, or are named by one
_TRAINING_TIME = b"| training time"  # in a model card
_KILLED = -9

Contents = dict[str, str]  # checksums by path


@dataclass(frozen=True)
class FolderJob:
    """A command that writes one folder, and leaves it alone if something is there already."""

    command: str
    settings: Mapping[str, Any]  # without the folder
    only_competes: bool = False  # only competes with the others: what a kill leaves can be resumed


@dataclass
class RaceTrial:
    """What was done to one destination, and what went wrong."""

    event: str
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.event}: {', '.join(self.faults) or 'nothing lost'}"


class Arena:
    """One destination among files of the user, fresh for every trial."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder, self.rng = folder, rng
        self.destination = folder / "place" / "out"
        self.expected: dict[str, Contents] = {}  # what each command writes undisturbed
        self.took_s: dict[str, float] = {}  # by each command

    def measure(self, jobs: Sequence[FolderJob]) -> None:
        """Run every job undisturbed."""
        for job in jobs:
            self.reset("absent")
            session = self.start(job)  # the first one waits for the server
            started = time.monotonic()
            code = session.wait()
            assert code == 0, f"{job.command} fails undisturbed"
            self.took_s[job.command] = time.monotonic() - started
            self.expected[job.command] = contents(self.destination)

    def reset(self, state: str) -> None:
        """Lay out the user's files, and the destination: absent, empty, or a link."""
        shutil.rmtree(self.destination.parent, ignore_errors=True)
        for name in _NEIGHBOURS:
            write_whole(self.destination.parent / name, _CONTENT)
        if state == "empty":
            self.destination.mkdir()
        if state == "link":
            self.destination.symlink_to("elsewhere/model")

    def start(self, job: FolderJob, number: int = 0) -> Session:
        log = self.folder / f"{number}.log"
        settings = {**job.settings, "out": str(self.destination)}
        return Session(job.command, settings, log)

    @property
    def is_being_written(self) -> bool:
        """Tell whether a command has begun to write."""
        return any(map(is_temporary, self.destination.parent.rglob(".*")))

    def pause(self, job: FolderJob, session: Session) -> None:
        """Let a random part of a job's time pass, half the time after it began to write."""
        share = 1.0
        if self.rng.random() < 0.5:
            await_condition(session, lambda: self.is_being_written, WRITE_POLL_S)
            share = 0.5
        time.sleep(self.rng.uniform(0, share * self.took_s[job.command]))

    def faults(self, commands: Sequence[str]) -> list[str]:
        """Say what of the user's is gone, and whether the destination is half written."""
        folder = self.destination.parent
        faults = [f"{name} is gone" for name in _NEIGHBOURS if not _is_intact(folder / name)]
        actual = contents(self.destination)
        if _USERS_FILE in actual and not _is_intact(self.destination / _USERS_FILE):
            faults.append(f"{_USERS_FILE} is changed")
        actual.pop(_USERS_FILE, None)
        if actual and actual not in [self.expected[command] for command in commands]:
            faults.append(f"the destination holds {sorted(actual)}")
        return faults


def run_trials(arena: Arena, jobs: Sequence[FolderJob], num_trials: int) -> Iterator[RaceTrial]:
    """Yield every trial: a kill, a race, a file of the user that appears, or a move."""
    arena.measure(jobs)
    writers = [job for job in jobs if not job.only_competes]
    for number in range(num_trials):
        first = arena.rng.choice(jobs if number % 4 == 3 else writers)
        state = arena.rng.choice(("absent", "empty", "link"))
        arena.reset(state)
        match number % 4:
            case 0:
                trial = _kill(arena, first)
            case 1:
                trial = _race(arena, first, arena.rng.choice(jobs))
            case 2:
                trial = _visit(arena, first)
            case _:
                trial = _move(arena, first)
        trial.event += f" ({state})"
        yield trial


def _kill(arena: Arena, job: FolderJob) -> RaceTrial:
    """Kill a job; then run it to its end."""
    while not _is_killed(arena, job):  # it ended first
        arena.reset("absent")
    trial = RaceTrial(f"{job.command} killed", arena.faults([job.command]))
    if not contents(arena.destination):
        trial.faults += _finish(arena, job)
    return trial


def _is_killed(arena: Arena, job: FolderJob) -> bool:
    session = arena.start(job)
    arena.pause(job, session)
    return session.kill() == _KILLED


def _finish(arena: Arena, job: FolderJob) -> list[str]:
    """Run a job to its end after a kill; it must clean up and write everything."""
    session = arena.start(job)
    faults = _exit_faults(session, session.wait(), allowed=(0,))
    if contents(arena.destination) != arena.expected[job.command]:
        faults.append("the next run is not whole")
    if arena.is_being_written:
        faults.append("temporary files are left")
    return faults


def _race(arena: Arena, first: FolderJob, second: FolderJob) -> RaceTrial:
    """Start two jobs for one destination; in half of the races the first is killed."""
    sessions = [arena.start(job, number) for number, job in enumerate((first, second))]
    is_killed = arena.rng.random() < 0.5
    if is_killed:
        arena.pause(first, sessions[0])
        sessions[0].send_kill()
    codes = [session.wait() for session in sessions]
    trial = RaceTrial(f"{first.command} against {second.command}{', killed' if is_killed else ''}")
    for session, code in zip(sessions, codes, strict=True):
        trial.faults += _exit_faults(session, code, allowed=(0, 2, _KILLED))
    if not is_killed and codes.count(0) != 1:
        trial.faults.append(f"exit codes {codes}, but one must win")
    trial.faults += arena.faults([first.command, second.command])
    return trial


def _visit(arena: Arena, job: FolderJob) -> RaceTrial:
    """Write a file of the user into the destination while the job works."""
    session = arena.start(job)
    arena.pause(job, session)
    is_visited = arena.destination.is_dir()
    if is_visited:
        (arena.destination / _USERS_FILE).write_bytes(_CONTENT)
    code = session.wait()
    trial = RaceTrial(f"a file appears in the destination of {job.command}")
    trial.faults += _exit_faults(session, code, allowed=(0, 2)) + arena.faults([job.command])
    if is_visited and not _is_intact(arena.destination / _USERS_FILE):
        trial.faults.append(f"{_USERS_FILE} is gone")
    return trial


def _move(arena: Arena, job: FolderJob) -> RaceTrial:
    """Move the destination away while the job works, and put a folder of the user in its place."""
    session = arena.start(job)
    arena.pause(job, session)
    how = arena.rng.choice(("folder", "parent", "link"))
    trial = RaceTrial(f"{job.command}: {how} moved")
    real = Path(os.path.realpath(arena.destination))
    if not real.is_dir():  # the job has not begun, or has failed
        session.wait()
        return trial
    away = arena.folder / "away"
    shutil.rmtree(away, ignore_errors=True)
    away.mkdir()
    (real.parent if how == "parent" else real).rename(away / "moved")
    theirs = real.parent / "theirs" if how == "link" else real
    for name in _MOVED_IN:
        (theirs / name).parent.mkdir(parents=True, exist_ok=True)
        (theirs / name).write_bytes(_CONTENT)
    if how == "link":
        real.symlink_to("theirs")
    code = session.wait()
    trial.faults += _exit_faults(session, code, allowed=(0, 2))
    files = {path.relative_to(theirs).as_posix() for path in theirs.rglob("*") if path.is_file()}
    trial.faults += [f"{name} is gone" for name in _MOVED_IN if not _is_intact(theirs / name)]
    trial.faults += [f"{name} was written" for name in sorted(files - set(_MOVED_IN))]
    moved = away / "moved" / (real.name if how == "parent" else "")
    if code == 0 and contents(moved) != arena.expected[job.command]:
        trial.faults.append(f"ended well, but {moved} is not whole")
    return trial


def _exit_faults(session: Session, code: int, allowed: Sequence[int]) -> list[str]:
    last = (session.output().strip().splitlines() or [""])[-1]
    return [] if code in allowed else [f"exit code {code}: {last}"]


def _is_intact(file: Path) -> bool:
    return file.is_file() and file.read_bytes() == _CONTENT


def contents(folder: Path) -> Contents:
    """Return the checksums of all files of a folder, except those that hold times."""
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    lasting = (path for path in files if not set(path.parts) & set(_TIMED))
    return {str(path): _checksum(folder / path) for path in lasting}


def _checksum(file: Path) -> str:
    """Return the checksum of a file; that of a model card leaves out how long training took."""
    if file.name != "README.md":
        return sha256_of(file)
    lines = file.read_bytes().splitlines()
    return sha256(b"\n".join(line for line in lines if _TRAINING_TIME not in line)).hexdigest()
