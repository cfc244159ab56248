"""Score a run on held-out data, and enter the score in its ledger."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.locks import watch
from warmstart.recipes.card import enter_test
from warmstart.report.html import Shown
from warmstart.report.training_figure import score_table
from warmstart.runs.saved import SavedRun, describe_unrecorded, read_run
from warmstart.runtime import choose_runtime
from warmstart.settings.using import (
    EvaluateConfig,
)
from warmstart.tasks.registry import task_of
from warmstart.tasks.task import Task
from warmstart.textfiles import describe_missing, sha256_of


@dataclass(frozen=True)
class EvaluationResult(Shown):
    """The scores of a run on held-out data."""

    run: Path
    file: str
    scores: dict[str, Any]  # JSON values
    times_scored: int  # evaluations of this run on this file, this one included

    @property
    def leak(self) -> str | None:
        """Warn of texts that the run was trained on; None: there are none, or nobody knows."""
        num_seen = sum(self.scores.get(f"{how}seen_in_training", 0) for how in ("", "nearly_"))
        if not num_seen:
            return None
        num_texts = next(self.scores[name] for name in ("rows", "sentences") if name in self.scores)
        unseen = (n for n, v in self.scores.items() if n.endswith("_unseen") and v is not None)
        without = "".join(f": see {name.replace('_', ' ')}" for name in unseen)
        return (
            f"warning: {num_seen:,} of {num_texts:,} texts also occur, exactly or nearly, in what "
            f"the run was trained on, so its scores are too good{without}"
        )

    @property
    def missed(self) -> str | None:
        """Name the classes that texts have but the run never predicts; None: there are none."""
        if "confusion" not in self.scores:  # its task has no classes
            return None
        num_predicted = map(sum, zip(*self.scores["confusion"], strict=True))
        pairs = zip(self.scores["classes"], num_predicted, strict=True)
        names = [c["name"] for c, num in pairs if c["support"] and not num]
        if not names:
            return None
        shown = ", ".join(f"'{name}'" for name in names)
        return f"never predicted: {shown}; --balance weights or --select f1 in training may help"

    @property
    def warnings(self) -> list[str]:
        """Return what a reader must know beside the scores."""
        return [warning for warning in (self.leak, self.missed) if warning]

    def pieces(self) -> list[str]:
        return [f"{self.run} on {self.file}", *self.warnings, score_table(self.scores)]


def evaluate(config: EvaluateConfig) -> EvaluationResult:
    """Score a run on held-out data and enter the result in its ledger."""
    file = _test_file(config)
    run = read_run(config.run)
    task = task_of(run)
    _refuse_options(config, task)
    if run.has_unrecorded_texts:
        progress.say(describe_unrecorded(config.run))
    runtime = choose_runtime(config.device, config.precision, config.threads)
    with watch(run.folder.path):
        scores = task.evaluate(run, config, runtime)
        times = _enter(file, run, scores)
    if config.against:  # the other run was scored on the same file
        tests = scores["against"]["tests"]
        other = {test["metric"].lower(): test["other"] for test in tests}
        _enter(file, read_run(config.against), {**other, "compared_with": config.run})
    return EvaluationResult(run.folder.path, file, scores, times)


def _test_file(config: EvaluateConfig) -> str:
    file = config.test or config.target
    if file is None:
        option = "--target" if config.source else "--test"
        raise WarmstartError(f"{option} is missing (a translator takes --source and --target)")
    if not Path(file).is_file():
        problem = (
            "is a folder; name one file" if Path(file).is_dir() else describe_missing(Path(file))
        )
        raise WarmstartError(f"--{'test' if config.test else 'target'} {file} {problem}")
    return file


def _refuse_options(config: EvaluateConfig, task: Task) -> None:
    """Refuse options that name test data for another task."""
    for name in ("source", "target", "against"):
        if getattr(config, name) is not None and name not in task.test_options:
            raise WarmstartError(
                f"--{name} is for translators; {config.run} is {task.description}, "
                "scored with --test"
            )
    if config.against:
        other = task_of(read_run(config.against))
        if other.name != task.name:
            raise WarmstartError(
                f"--against {config.against} is {other.description}, not {task.description}"
            )


def _enter(file: str, run: SavedRun, scores: dict[str, Any]) -> int:
    """Enter scores in the run's ledger; return how often this file was scored."""
    folder = run.folder
    checksum = sha256_of(Path(file))
    is_best = run.path == folder.path
    entry = {
        "file": file,
        "sha256": checksum,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "checkpoint": "best" if is_best else str(run.path.relative_to(folder.path)),
        "scores": scores,
    }
    enter_test(folder, entry)
    return sum(entry.sha256 == checksum for entry in folder.scores().ledger)
