"""The four other kinds of label on real data: `compare` on each, and one table of all scores.

    python benchmarks/labels.py --data DATA --causal runs/causal --masked runs/masked -o labels

DATA has the folders ud-ewt (word classes), wnut17 (rare entities), goemotions (several labels)
and imdb (ratings), each with `train` and, but for imdb, `valid` files, plain or compressed. Of
imdb, `imdb_splits.py` holds 2,000 reviews out. The validation files are given as tests, so they
choose nothing. Both runs are compared on tags; the other kinds start from the masked one.

Several comparisons run at a time, those that are cheap or matter most first. With --seconds, what
is not finished then is stopped; the same command continues it. `labels.md` and `labels.json` have
the scores of all that are finished. What follows `--` goes to every `compare`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmstart.tasks.registry import finetuning_task

HERE = Path(__file__).parent
SHARED = ("--seeds", "0,1,2", "--trials", "1", "--save", "none")
GRACE_S = 15.0  # in which a comparison that is stopped saves what it has


@dataclass(frozen=True)
class Job:
    """One comparison: what it is called and the options that only it has."""

    name: str
    data: str  # the heading of its scores in the table
    options: tuple[str, ...]

    def command(self, out: Path, extra: Sequence[str]) -> list[str]:
        """Return the command that runs it, or continues it."""
        folder = ("-o", str(out / self.name), "--resume")
        return [
            sys.executable,
            "-m",
            "warmstart",
            "compare",
            *self.options,
            *SHARED,
            *extra,
            *folder,
        ]


@dataclass
class Running:
    """A comparison in a process of its own."""

    job: Job
    process: "subprocess.Popen[bytes]"
    started: float = field(default_factory=time.monotonic)


def find(folder: Path, stem: str) -> str:
    """Return the file of a folder that is called so, whatever its ending."""
    files = sorted(folder.glob(f"{stem}.*"))
    assert files, f"{folder} has no file {stem}.*"
    return str(files[0])


def plan(given: argparse.Namespace) -> Iterator[Job]:
    """Yield the comparisons, those that matter most first."""
    data, few = Path(given.data), given.few
    both = ("--from", given.causal, "--from", given.masked)
    masked = ("--from", given.masked)
    for name, title in (("ud-ewt", "word classes"), ("wnut17", "rare entities")):
        tagged = ("--train", find(data / name, "train"), "--test", find(data / name, "valid"))
        labels = f"--labels={few},all"
        yield Job(name, f"{name}, {title}", (*both, *tagged, "--task", "tag", labels))
    emotions = data / "goemotions"
    goemotions = ("--train", find(emotions, "train"), "--test", find(emotions, "valid"))
    imdb = Path(given.out) / "imdb"
    ratings = ("--train", f"{imdb}/ratings-train.tsv", "--test", f"{imdb}/ratings-test.tsv")
    texts = (
        ("goemotions", "several labels", (*goemotions, "--task", "multilabel")),
        ("imdb", "ratings from 1 to 10", (*ratings, "--task", "regress")),
    )
    # All rows take minutes: they are comparisons of their own, the least wanted arms the last.
    for part, sizes, arms in (
        ("few", few, ()),
        ("all", "all", ("--arms", "warm,lsa,tfidf")),
        ("all-rest", "all", ("--arms", "frozen,cold")),
    ):
        for name, title, files in texts:
            options = (*masked, *files, f"--labels={sizes}", *arms)
            yield Job(f"{name}-{part}", f"{name}, {title}", options)


def run_all(jobs: Sequence[Job], given: argparse.Namespace, deadline: float | None) -> None:
    """Run the comparisons, several at a time; stop those that are not finished in time."""
    out, waiting, running = Path(given.out), list(jobs), list[Running]()
    environment = {"OMP_NUM_THREADS": "2", **os.environ}
    while waiting or running:
        while waiting and len(running) < given.jobs:
            job = waiting.pop(0)
            with (out / f"{job.name}.log").open("ab") as log:
                command = job.command(out, given.extra)
                process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
            running.append(Running(job, process))
        time.sleep(0.2)
        for each in [r for r in running if r.process.poll() is not None]:
            running.remove(each)
            report(each, out)
        if deadline is not None and time.monotonic() > deadline:
            waiting.clear()
            stop(running)
            deadline = None


def report(ended: Running, out: Path) -> None:
    """Say how a comparison ended; of one that failed, its last lines."""
    code, seconds = ended.process.returncode, time.monotonic() - ended.started
    print(f"{ended.job.name}: exit {code} after {seconds:.0f} s", flush=True)
    if code:
        lines = (out / f"{ended.job.name}.log").read_text(errors="replace").splitlines()
        print("\n".join(f"    {line}" for line in lines[-12:]), flush=True)


def stop(running: Sequence[Running]) -> None:
    """Ask comparisons to save what they have and end; end those that do not."""
    print(f"out of time: {', '.join(each.job.name for each in running) or 'nothing'} stopped")
    for each in running:
        each.process.send_signal(signal.SIGTERM)
    limit = time.monotonic() + GRACE_S
    for each in running:
        try:
            each.process.wait(max(0.1, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.process.kill()


def read_scores(job: Job, out: Path) -> dict[str, Any] | None:
    """Return the scores and differences of a comparison; None: it is not finished."""
    file = out / job.name / "results.json"
    if not file.exists():
        return None
    results = json.loads(file.read_text(encoding="utf-8"))
    summary, task = results["summary"], finetuning_task(results["task"])
    scores = [
        {
            "arm": score["arm"],
            "labels": score["labels"],
            "mean": score["scored"]["accuracy"],
            "spread": score["scored"]["spread"],
            "interval": score["scored"]["interval"],
            "other": score["scored"]["f1"],
        }
        for score in summary["scores"]
    ]
    keys = ("first", "second", "labels", "interval", "p_value", "outcome", "sentence")
    return {
        "data": job.data,
        "task": results["task"],
        "metric": results["metric"],
        "other": task.other_score[1],
        "num_texts": summary["scores"][0]["scored"]["num_texts"],
        "seeds": results["seeds"],
        "scores": scores,
        "differences": [{key: each[key] for key in keys} for each in summary["differences"]],
        "verdict": [summary["advice"]["sentence"], *summary["findings"]],
        "seconds": {f"{c['arm']} {c['labels']}": c["train_s"] for c in summary["costs"]},
    }


def write_table(comparisons: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table for each kind of data, and the differences of warm."""
    for data in dict.fromkeys(each["data"] for each in comparisons):
        parts = [each for each in comparisons if each["data"] == data]
        first, scale = parts[0], finetuning_task(parts[0]["task"]).scale
        scores = {(s["arm"], s["labels"]): s for part in reversed(parts) for s in part["scores"]}
        arms = list(dict.fromkeys(s["arm"] for part in parts for s in part["scores"]))
        texts = f"{first['num_texts']:,} validation texts, {len(first['seeds'])} seeds"
        has_other = any(score["other"] is not None for score in scores.values())
        other = f" ({first['other']})" if has_other else ""
        yield f"**{data}**: {first['metric']}{other}, {texts}"
        yield ""
        yield f"| labels | {' | '.join(arms)} |"
        yield f"|---{'|---' * len(arms)}|"
        for labels in sorted({labels for _, labels in scores}):
            cells = []
            for arm in arms:
                score = scores.get((arm, labels))
                if score is None:
                    cells.append("")
                    continue
                mean, spread = score["mean"], scale.write_spread(score["spread"], score["mean"])
                other = "" if score["other"] is None else f" ({score['other']:.3f})"
                cells.append(f"{scale.write(mean)} ± {spread}{other}")
            yield f"| {labels:,} | {' | '.join(cells)} |"
        yield ""
        for part in parts:
            for each in part["differences"]:
                if each["first"].startswith("warm"):
                    yield f"- {each['labels']:,} labels: {each['sentence']}"
        yield ""


def main() -> None:
    """Prepare the ratings, run the comparisons, and write the table of those that are finished."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder of the four data sets")
    parser.add_argument("--causal", required=True, help="run that predicts next tokens")
    parser.add_argument("--masked", required=True, help="run that restores masked tokens")
    parser.add_argument("-o", "--out", required=True, help="folder of the comparisons")
    parser.add_argument("--few", default="100,1000", help="label subsets besides all rows")
    parser.add_argument("--jobs", type=int, default=6, help="comparisons at a time")
    parser.add_argument("--seconds", type=float, help="stop what is not finished by then")
    parser.add_argument("--only", default="", help="names of comparisons, with commas between")
    own, extra = sys.argv[1:], list[str]()
    if "--" in own:
        at = own.index("--")
        own, extra = own[:at], own[at + 1 :]
    given = parser.parse_args(own, argparse.Namespace(extra=extra))
    deadline = time.monotonic() + given.seconds if given.seconds else None
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "imdb" / "ratings-train.tsv").exists():
        source = find(Path(given.data) / "imdb", "train")
        subprocess.run([sys.executable, HERE / "imdb_splits.py", source, out / "imdb"], check=True)
    jobs = list(plan(given))
    chosen = given.only.split(",") if given.only else [job.name for job in jobs]
    run_all([job for job in jobs if job.name in chosen], given, deadline)
    finished = {job.name: scores for job in jobs if (scores := read_scores(job, out))}
    table = "\n".join(write_table(list(finished.values())))
    (out / "labels.md").write_text(table + "\n", encoding="utf-8")
    (out / "labels.json").write_text(json.dumps(finished, indent=1), encoding="utf-8")
    print(table)
    missing = [job.name for job in jobs if job.name not in finished]
    print(f"not finished: {', '.join(missing) or 'nothing'}")


if __name__ == "__main__":
    main()
