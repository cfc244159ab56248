"""What benchmarks have in common: turns, instructions, ratios with their spread, a table, JSON."""

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIBRARIES = ("torch", "transformers", "ctranslate2", "tokenizers")


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A figure of ours against a peer's; above 1 we are better, in every kind of figure."""

    work: str
    unit: str
    peer: str  # its name
    ours: float
    theirs: float
    ratio: float  # the median of the rounds
    spread: float  # half the range of the rounds, relative to the median

    @classmethod
    def of(
        cls,
        work: str,
        unit: str,
        peer: str,
        rounds: Sequence[tuple[float, float]],
        is_less_better: bool = False,
    ) -> "Ratio":
        """Return the ratio of rounds of (our figure, theirs), each measured side by side."""
        ratios = [theirs / ours if is_less_better else ours / theirs for ours, theirs in rounds]
        middle = statistics.median(ratios)
        return cls(
            work=work,
            unit=unit,
            peer=peer,
            ours=statistics.median(ours for ours, _ in rounds),
            theirs=statistics.median(theirs for _, theirs in rounds),
            ratio=middle,
            spread=(max(ratios) - min(ratios)) / 2 / middle,
        )


def in_turns(
    ours: Callable[[], float], theirs: Callable[[], float], rounds: int
) -> list[tuple[float, float]]:
    """Measure both in turn, so that a slow moment of the machine meets both; warm up first."""
    ours(), theirs()
    return [(ours(), theirs()) for _ in range(rounds)]


def machine() -> dict[str, Any]:
    """Return where this runs, and with which libraries."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "versions": versions}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def count_instructions(arguments: Sequence[str]) -> int:
    """Return the instructions of a Python process with these arguments, by callgrind."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    ran = subprocess.run(
        [*valgrind, sys.executable, *arguments],
        env={**os.environ, "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
    )
    collected = re.search(r"Collected : (\d+)", ran.stderr)
    if ran.returncode or collected is None:
        sys.exit(f"{' '.join(arguments)}: {ran.stderr[-2000:]}")
    return int(collected[1])


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a file for the ratios."""
    parser.add_argument("--json", type=Path, help="also write the ratios to this file")


def report(ratios: Sequence[Ratio], file: Path | None) -> None:
    """Print ratios as a table; write them to a file, if one is named."""
    print("\n| work | unit | ours | theirs | peer | ratio | ± |\n|---|---|---|---|---|---|---|")
    for each in ratios:
        print(
            f"| {each.work} | {each.unit} | {each.ours:,.1f} | {each.theirs:,.1f} | {each.peer} | "
            f"{each.ratio:.2f} | {each.spread:.0%} |"
        )
    if file is not None:
        content = {"machine": machine(), "ratios": [asdict(each) for each in ratios]}
        file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
