"""Export a model: a run folder -> a folder for another library."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from warmstart import progress
from warmstart.batching.encode import REMAINDER
from warmstart.files import new_folder
from warmstart.interop.ctranslate2_writer import write_ctranslate2
from warmstart.interop.export_format import Exported, ExportFormat, ExportRequest
from warmstart.interop.hf_writer import export_problem, write_hf
from warmstart.interop.onnx_writer import write_onnx
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import SavedRun, before_training, read_run
from warmstart.settings.exchanging import ExportConfig, ExportTarget
from warmstart.settings.finetuning import Tuning
from warmstart.tasks.finetuning_task import FinetuningTask
from warmstart.tasks.registry import task_of

FORMATS: dict[ExportTarget, ExportFormat] = {
    "hf": write_hf,
    "onnx": write_onnx,
    "ctranslate2": write_ctranslate2,
}


@dataclass(frozen=True, kw_only=True)
class ExportResult(Exported):
    """The folder that was written, and how its outputs compare with ours."""

    folder: Path


def export_model(config: ExportConfig) -> ExportResult:
    """Write a run for another library, and check that its outputs there are ours."""
    out = Path(config.out)
    with new_folder(out) as temporary:
        source = read_run(config.run)
        source.refuse_if_ablated("be exported")
        task = task_of(source)
        model = task.load_model(source).eval()
        exported = FORMATS[config.to](
            ExportRequest(
                source=source,
                model=model,
                folder=temporary,
                title=out.name,
                precision=config.precision,
            )
        )
        if exported.check:
            exported.check.require(out)
        if isinstance(task, FinetuningTask):
            _say_what_is_truncated(source)
    return ExportResult(folder=out, **vars(exported))


def _say_what_is_truncated(source: SavedRun) -> None:
    """Say what other libraries read otherwise of a text that is too long."""
    rule = source.recorded(Tuning, "truncate").truncate
    if rule in ("tail", "middle"):
        progress.say(
            f"of a text with more than {source.model.max_length:,} tokens other libraries read the "
            f"beginning, warmstart the {REMAINDER[rule]}: shorten such texts for them"
        )


def say_if_not_exportable(run: RunFolder, model: nn.Module) -> None:
    """Say before the training what would prevent an export after it."""
    problem = export_problem(before_training(run, model))
    if problem:
        say_not_exportable(str(run.path), problem)


def say_not_exportable(name: str, problem: str) -> None:
    """Say that something cannot be exported once it is trained, and why."""
    progress.say(f"{name} cannot be exported to Hugging Face later: {problem}")
