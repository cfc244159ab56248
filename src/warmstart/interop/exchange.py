"""The verbs `import` and `export`."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save

from warmstart import progress
from warmstart.batching.truncation import REMAINDER
from warmstart.data.fingerprints import fingerprints_of
from warmstart.errors import WarmstartError
from warmstart.files import new_folder, write_json, write_whole
from warmstart.interop.commands import ExportConfig, ExportTarget, ImportConfig
from warmstart.interop.ctranslate2_write import write_ctranslate2
from warmstart.interop.formats import ExportRequest, ExportResult, exported_card
from warmstart.interop.hf_read import ImportedModel, read_folder
from warmstart.interop.hf_write import write_hf
from warmstart.interop.hub_download import download, is_hub_name
from warmstart.interop.onnx_linear import write_linear
from warmstart.interop.onnx_write import write_onnx
from warmstart.recipes.card import write_card
from warmstart.runs.facts import HubSource
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import write_config
from warmstart.runs.saved import SavedRun, read_run
from warmstart.settings.training import Tuning
from warmstart.tasks.finetuning import FinetuningTask
from warmstart.tasks.linear import LinearTask
from warmstart.tasks.registry import task_of
from warmstart.tasks.task import Task

FORMATS: dict[ExportTarget, tuple[str, Callable[[ExportRequest], ExportResult]]] = {
    "hf": ("transformers", write_hf),
    "onnx": ("onnx", write_onnx),
    "ctranslate2": ("ctranslate2", write_ctranslate2),
}


def export_model(config: ExportConfig) -> ExportResult:
    """Write a run for another library, and check that its outputs there are ours."""
    out = Path(config.out)
    with new_folder(out) as temporary:
        source = read_run(config.run)
        source.refuse_if_ablated("be exported")
        task = task_of(source)
        library, write = FORMATS[config.to]
        if source.transformer is None:
            write = _writer_without_transformer(config, task)
        request = ExportRequest(
            source=source,
            model=_model_of(source, task),
            folder=temporary,
            out=out,
            precision=config.precision,
        )
        result = write(request)
        if result.check:
            result.check.require(out)
        write_whole(temporary / "README.md", exported_card(request, result, library).encode())
        if isinstance(task, FinetuningTask):
            _say_what_is_truncated(source, task)
    return result


def _model_of(source: SavedRun, task: Task) -> Any:
    if isinstance(task, LinearTask):
        return task.read_model(source)
    return task.load_model(source).eval()


def _writer_without_transformer(
    config: ExportConfig, task: Task
) -> Callable[[ExportRequest], ExportResult]:
    """Return what writes a run that is no Transformer; refuse one that the format cannot hold."""
    if isinstance(task, LinearTask) and config.to == "onnx":
        return write_linear
    holder = "only --to onnx" if isinstance(task, LinearTask) else "no format"
    raise WarmstartError(
        f"{config.run} is {task.description}, which {holder} can hold; `warmstart serve` and "
        "`warmstart predict` use it as it is"
    )


def _say_what_is_truncated(source: SavedRun, task: Task) -> None:
    """Say if other libraries read another part of a text that is too long."""
    rule = source.recorded(Tuning, "truncate").truncate
    if task.reads_all or rule in ("tail", "middle"):
        part = "all of it in windows" if task.reads_all else f"the {REMAINDER[rule or 'head']}"
        progress.say(
            f"of a text with more than {source.model.max_length:,} tokens other libraries read the "
            f"beginning, warmstart {part}: shorten such texts for them"
        )


@dataclass(frozen=True)
class ImportResult:
    """The run that was written, and what it holds."""

    run: Path
    architecture: str
    kind: str  # as a phrase
    parameters: int
    left_out: tuple[str, ...]  # tensors of heads that the run does not have


def import_model(config: ImportConfig) -> ImportResult:
    """Read a Hugging Face folder into a run folder that every other command takes."""
    out = Path(config.out)
    with new_folder(out) as temporary:
        source = None
        folder = Path(config.folder)
        if is_hub_name(config.folder):
            folder, source = download(config.folder)
        imported = read_folder(folder)
        if imported.classes and imported.model.is_causal:
            tokenizer = imported.tokenizers.source
            bos, eos = tokenizer.pieces([tokenizer.bos, tokenizer.eos])
            progress.say(f"warmstart puts every text between {bos} and {eos}")
        _write_run(config, imported, source, RunFolder(temporary), out)
    kind = imported.task.description
    parameters = imported.num_parameters
    return ImportResult(out, imported.architecture, kind, parameters, imported.left_out)


def _write_run(
    config: ImportConfig,
    imported: ImportedModel,
    source: HubSource | None,
    run: RunFolder,
    out: Path,
) -> None:
    facts: dict[str, Any] = {"task": imported.task.name, "architecture": imported.architecture}
    if source:
        facts["source"] = asdict(source)
    if imported.classes:
        facts["classes"] = list(imported.classes)
    if imported.has_pairs:
        facts["pairs"] = True
    facts |= imported.more_facts
    write_config(run, "import", config, imported.model, **facts)
    if isinstance(imported.task, FinetuningTask):  # `predict` and `evaluate` need these settings
        written = run.config()
        defaults = Tuning()
        written["settings"] |= {
            "pooling": imported.pooling,
            "truncate": imported.truncate,
            "micro_tokens": defaults.micro_tokens,
        }
        write_json(run.config_file, written)
    imported.tokenizers.save(run.path)
    write_whole(run.weights_file, save(imported.weights))
    empty = fingerprints_of([]).to_json()
    write_json(run.data_file, {"files": [], "fingerprints": empty, "unrecorded": True})
    scores: dict[str, Any] = {"valid": {}}
    write_card(run, scores, out.name)
    run.finish(scores)
