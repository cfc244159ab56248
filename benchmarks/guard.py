"""Run the benchmarks against peers, and name what got slower since `ratios.json` was committed.

A ratio may be lower by the spreads of both measurements together, and by 5% in any case. Ratios to
a peer measured in the same run depend little on the machine, but compare like with like: the
committed file names its processor and versions, and a difference is told.

    python benchmarks/guard.py            # measure, compare, exit with 1 if something is slower
    python benchmarks/guard.py --accept   # measure, and replace ratios.json
    python benchmarks/guard.py --smoke    # only see that every part starts and ends
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measuring import Ratio, machine

FOLDER = Path(__file__).parent
COMMITTED = FOLDER / "ratios.json"
PARTS = ("pretraining", "classifier", "translation", "generation", "instructions")
SMOKE = {  # the least work that passes through everything
    "pretraining": ["--rows", "1", "--length", "32", "--steps", "1", "--rounds", "1"],
    "classifier": ["--texts", "16", "--rounds", "1"],
    "translation": ["--sentences", "2"],
    "generation": ["--tokens", "2", "--rounds", "1"],
    "instructions": ["--beams"],
}
LEAST_TOLERANCE = 0.05
Ratios = Mapping[str, Ratio]


def measure(part: str, is_smoke: bool) -> dict[str, Ratio]:
    """Run one benchmark in a process of its own; return its ratios by the name of the work."""
    began = time.perf_counter()
    print(f"\n{part}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratios.json"
        command = [sys.executable, str(FOLDER / f"{part}.py"), "--json", str(file)]
        subprocess.run([*command, *(SMOKE[part] if is_smoke else ())], check=True)
        print(f"{time.perf_counter() - began:.0f} s", flush=True)
        return read_ratios(file)


def read_ratios(file: Path) -> dict[str, Ratio]:
    """Return the ratios of a file by the name of the work."""
    rows = json.loads(file.read_text(encoding="utf-8"))["ratios"]
    return {row["work"]: Ratio(**row) for row in rows}


def tolerance(before: Ratio, now: Ratio) -> float:
    """Return the share that a ratio may lose by chance."""
    return max(LEAST_TOLERANCE, before.spread + now.spread)


def slower(before: Ratios, now: Ratios) -> list[str]:
    """Say what is below its committed ratio by more than chance explains, or is not measured."""
    findings = []
    for work, old in before.items():
        if work not in now:
            findings.append(f"{work}: not measured any more")
        elif now[work].ratio < old.ratio * (1 - tolerance(old, now[work])):
            findings.append(
                f"{work}: {now[work].ratio:.2f} times {old.peer}, {old.ratio:.2f} before "
                f"(tolerance {tolerance(old, now[work]):.0%})"
            )
    return findings


def differences(committed: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Say in what this machine differs from that of the committed ratios."""
    return [
        f"{key}: {here.get(key)} here, {value} in {COMMITTED.name}"
        for key, value in committed.items()
        if here.get(key) != value
    ]


def write(ratios: Ratios) -> None:
    """Make these the ratios to compare with."""
    content = {"machine": machine(), "ratios": [asdict(each) for each in ratios.values()]}
    COMMITTED.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {COMMITTED}")


def main() -> None:
    """Measure, compare, and exit with 1 if something is slower."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="may repeat")
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    now: dict[str, Ratio] = {}
    for part in given.only or PARTS:
        now |= measure(part, given.smoke)
    if given.smoke:
        return
    before = read_ratios(COMMITTED) if COMMITTED.exists() else {}
    if given.accept:
        write({**before, **now} if given.only else now)
        return
    if not before:
        sys.exit(f"{COMMITTED} does not exist: --accept writes it")
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))["machine"]
    for line in differences(committed, machine()):
        print(line)
    wanted = {work: old for work, old in before.items() if work in now} if given.only else before
    findings = slower(wanted, now)
    if findings:
        sys.exit("\n".join(["slower than committed:", *findings]))
    print(f"none of {len(wanted)} ratios is lower than committed")


if __name__ == "__main__":
    main()
