"""Change the JSON files of runs, tokenizers and Hugging Face folders, and read them or use them.

    python tests/fuzz/tampering.py --cases 200000 --commands 20000

Cases go through the parsers in this process. Whole commands run in processes forked from this one,
which has torch loaded. Every case has a limit of memory and of time, and must end with an answer or
with one sentence; what does not is printed at once, and the exit code is 1.
"""

import argparse
import contextlib
import faulthandler
import gc
import io
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from mutations import tampered
from specimens import Specimen, Use, make_specimens

from warmstart.errors import WarmstartError

CASE_S = 120.0  # longest time of a case; the machine may be busy
CASE_BYTES = 2 << 30  # memory that a process may take beyond what is loaded
COMMANDS_PER_PROCESS = 50
BARE_NUMBER = re.compile(r"[:\[,] *-?(NaN|Infinity)\b")


@dataclass(frozen=True)
class Failure:
    """A case that ended in anything but an answer or a sentence."""

    what: str
    content: bytes  # of the tampered file, or how the run was trained
    said: str


@dataclass
class Tally:
    """How the cases ended."""

    ends: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, end: str) -> None:
        self.ends[end] += 1
        if self.ends.total() % 1000 == 0:
            sys.stderr.write(f"{self}, {len(self.failures)} failures\n")

    def fail(self, failure: Failure) -> None:
        self.failures.append(failure)
        shown = json.dumps(failure.content[:300].decode("utf-8", "replace"))
        sys.stderr.write(f"--- {failure.what}\n{shown}\n{failure.said}\n")

    def __str__(self) -> str:
        ends = ", ".join(f"{number:,} {end}" for end, number in sorted(self.ends.items()))
        return f"{self.ends.total():,} cases: {ends}"


def limit_memory() -> None:
    """Let this process take only a little more memory than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + CASE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def fuzz_parsers(specimens: Sequence[Specimen], num_cases: int, seed: int) -> Tally:
    """Read tampered files in this process; a case that hangs ends the process."""
    rng = random.Random(f"parsers {seed}")
    tally = Tally()
    wholes = {specimen.file: specimen.file.read_bytes() for specimen in specimens}
    for _ in range(num_cases):
        specimen = rng.choice(specimens)
        content = tampered(wholes[specimen.file], rng)
        specimen.file.write_bytes(content)
        faulthandler.dump_traceback_later(CASE_S, exit=True)
        tally.add(_read(specimen, content, tally))
        specimen.file.write_bytes(wholes[specimen.file])
    faulthandler.cancel_dump_traceback_later()
    return tally


def _read(specimen: Specimen, content: bytes, tally: Tally) -> str:
    try:
        specimen.read(specimen.folder)
    except WarmstartError:
        return "refused"
    except KeyboardInterrupt:
        raise
    except BaseException:  # panics of the tokenizers' Rust code too
        tally.fail(Failure(f"reading {specimen.file}", content, traceback.format_exc()))
        return "failed"
    return "read"


@dataclass(frozen=True)
class Case:
    """A command on a folder with a tampered file."""

    use: Use
    file: str
    content: bytes

    def __str__(self) -> str:
        return f"warmstart {' '.join(self.use.arguments)} ({self.file})"


def fuzz_commands(uses: Sequence[Use], num_cases: int, seed: int, place: Path) -> Tally:
    """Run whole commands on tampered files."""
    rng = random.Random(f"commands {seed}")
    tally = Tally()
    gc.freeze()  # the children share what is loaded
    while (left := num_cases - tally.ends.total()) > 0:
        cases = [_draw(uses, rng) for _ in range(min(left, COMMANDS_PER_PROCESS))]
        for case, (end, said) in zip(cases, run_forked(cases, place), strict=False):
            tally.add(end)
            if end not in ("answered", "refused"):
                tally.fail(Failure(f"{end}: {case}", case.content, said))
    return tally


def _draw(uses: Sequence[Use], rng: random.Random) -> Case:
    use = rng.choice(uses)
    file = rng.choice(use.files)
    return Case(use, file, tampered((use.folder / file).read_bytes(), rng))


def run_forked(cases: Sequence[Case], place: Path) -> Iterator[tuple[str, str]]:
    """Run cases in a child, until one kills it; yield how each ended and what it said."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        with open(writing, "wb") as answers:
            _be_child(cases, place, answers)
    os.close(writing)
    with open(reading, "rb") as answers:
        for _ in cases:
            ready, _, _ = select.select([answers], [], [], CASE_S)
            line = answers.readline() if ready else b""
            if not line:
                os.kill(pid, signal.SIGKILL)
                yield "died" if ready else "hung", ""
                break
            yield _judge(*json.loads(line))
    os.waitpid(pid, 0)


def _judge(code: int, out: str, err: str) -> tuple[str, str]:
    is_sentence = "Traceback (most recent call last)" not in err
    if code not in (0, 2) or not is_sentence or BARE_NUMBER.search(out):
        return f"failed ({code})", out[-1000:] + err[-3000:]
    return "answered" if code == 0 else "refused", ""


def _be_child(cases: Sequence[Case], place: Path, answers: BinaryIO) -> None:
    """Answer each case with a line of JSON; never return."""
    code = 1
    os.environ["OMP_NUM_THREADS"] = "1"  # threads of the parent do not survive a fork
    os.environ["OMP_NUM_THREADS"] = "1"  # threads of the parent do not survive a fork
    try:
        limit_memory()
        for case in cases:
            answer = _run(case, place)
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()
        code = 0
    finally:
        os._exit(code)


def _run(case: Case, place: Path) -> tuple[int, str, str]:
    """Run one command on a tampered file; return its exit code, output and messages."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(case.use.folder, place / "folder")
    (place / "folder" / case.file).write_bytes(case.content)
    paths = {"folder": place / "folder", "out": place / "out"}
    return run_command([argument.format(**paths) for argument in case.use.arguments])


def run_command(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Run one command in this process; return its exit code, output and messages."""
    from warmstart.cli.main import main

    sys.argv = ["warmstart", *arguments]
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
    return int(code), out.getvalue(), err.getvalue()


def main() -> None:
    """Fuzz as much as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200_000, help="tampered files to read")
    parser.add_argument("--commands", type=int, default=20_000, help="whole commands to run")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a forked process has no threads of the library
    with tempfile.TemporaryDirectory(prefix="warmstart-fuzz-") as made:
        specimens, uses = make_specimens(Path(made))
        began = time.monotonic()
        commands = fuzz_commands(uses, given.commands, given.seed, Path(made) / "work")
        _report("whole commands", commands, began)
        began = time.monotonic()
        limit_memory()
        parsed = fuzz_parsers(specimens, given.cases, given.seed)
        _report("files through the parsers", parsed, began)
    sys.exit(bool(commands.failures or parsed.failures))


def _report(name: str, tally: Tally, began: float) -> None:
    sys.stdout.write(f"{name}: {tally} in {time.monotonic() - began:.0f} s\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
