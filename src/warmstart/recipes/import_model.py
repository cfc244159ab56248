"""Import a model: a Hugging Face folder -> a run folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save

from warmstart import progress
from warmstart.data.fingerprints import fingerprints_of
from warmstart.files import new_folder, write_json, write_whole
from warmstart.interop.hf_reader import ImportedModel, read_folder
from warmstart.interop.model_card import write_card
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import write_config
from warmstart.settings.exchanging import ImportConfig
from warmstart.settings.finetuning import Tuning


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
        imported = read_folder(Path(config.folder))
        if imported.classes and imported.model.is_causal:
            tokenizer = imported.tokenizers.source
            bos, eos = tokenizer.pieces([tokenizer.bos, tokenizer.eos])
            progress.say(f"warmstart puts every text between {bos} and {eos}")
        _write_run(config, imported, RunFolder(temporary), out)
    kind = imported.task.description
    parameters = imported.num_parameters
    return ImportResult(out, imported.architecture, kind, parameters, imported.left_out)


def _write_run(config: ImportConfig, imported: ImportedModel, run: RunFolder, out: Path) -> None:
    facts: dict[str, Any] = {"task": imported.task.name, "architecture": imported.architecture}
    if imported.classes:
        facts["classes"] = list(imported.classes)
    if imported.has_pairs:
        facts["pairs"] = True
    write_config(run, "import", config, imported.model, **facts)
    if imported.classes:  # `predict` and `evaluate` need these settings
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
