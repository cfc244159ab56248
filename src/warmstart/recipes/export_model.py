"""Export a model: a run folder -> a Hugging Face folder."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from warmstart import progress
from warmstart.errors import WarmstartError
from warmstart.files import new_folder
from warmstart.interop.hf_check import LARGEST_DIFFERENCE, OutputCheck, check_folder
from warmstart.interop.hf_writer import export_problem, write_folder
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import before_training, read_run
from warmstart.settings.exchanging import ExportConfig
from warmstart.tasks.registry import task_of


@dataclass(frozen=True)
class ExportResult:
    """The folder that was written, and how its outputs compare with ours."""

    folder: Path
    architecture: str
    parameters: int
    check: OutputCheck | None  # None: transformers is not installed


def export_model(config: ExportConfig) -> ExportResult:
    """Write a run as a folder that transformers loads, and check that its outputs are ours."""
    out = Path(config.out)
    with new_folder(out) as temporary:
        source = read_run(config.run)
        source.refuse_if_ablated("be exported")
        model = task_of(source).load_model(source).eval()
        architecture, parameters = write_folder(source, model, temporary, out.name)
        check = check_folder(source, model, temporary)
        if check and not check.difference <= LARGEST_DIFFERENCE:
            raise WarmstartError(
                f"{out} was not written: its outputs in transformers differ from ours by "
                f"{check.difference:.1e}, more than {LARGEST_DIFFERENCE:.0e}"
            )
    return ExportResult(out, architecture, parameters, check)


def say_if_not_exportable(run: RunFolder, model: nn.Module) -> None:
    """Say before the training what would prevent an export after it."""
    problem = export_problem(before_training(run, model))
    if problem:
        say_not_exportable(str(run.path), problem)


def say_not_exportable(name: str, problem: str) -> None:
    """Say that something cannot be exported once it is trained, and why."""
    progress.say(f"{name} cannot be exported to Hugging Face later: {problem}")
