"""Models in and out of the ecosystem: a Hugging Face folder -> a run, a run -> such a folder.

Knows the order of things; each step is done elsewhere.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save

from warmstart import progress
from warmstart.data.overlap import Fingerprints
from warmstart.errors import WarmstartError
from warmstart.files import whole_folder, write_json, write_whole
from warmstart.interop.checking import LARGEST_DIFFERENCE, Check, check_folder
from warmstart.interop.reading import Imported, read_folder
from warmstart.interop.writing import write_folder
from warmstart.predictor import build_model
from warmstart.report.card import model_card
from warmstart.runs.folder import RunFolder
from warmstart.runs.lifecycle import write_config
from warmstart.runs.saved import IN_WORDS, read_source
from warmstart.settings.exchange import ExportConfig, ImportConfig
from warmstart.settings.training import Tuning

TASKS = {
    "causal": "text-generation",
    "masked": "fill-mask",
    "base": "feature-extraction",
    "classifier": "text-classification",
}


@dataclass(frozen=True)
class ImportResult:
    """What was read."""

    run: Path
    architecture: str
    kind: str  # in words
    parameters: int
    left_out: tuple[str, ...]  # tensors of heads that the run has no place for


@dataclass(frozen=True)
class ExportResult:
    """What was written."""

    folder: Path
    architecture: str
    parameters: int
    check: Check | None  # None: transformers is not installed


def import_model(config: ImportConfig) -> ImportResult:
    """Read a Hugging Face folder into a run folder that every other command takes."""
    out = _free(config.out)
    read = read_folder(Path(config.folder))
    if read.kind == "classifier" and read.model.attention == "causal":
        bos, eos = read.tokenizer.pieces([read.tokenizer.bos, read.tokenizer.eos])
        progress.say(f"warmstart reads every text between {bos} and {eos}")
    parameters = sum(tensor.numel() for tensor in read.weights.values())
    with whole_folder(out) as temporary:
        _write_run(config, read, RunFolder(temporary), out, parameters)
    kind = IN_WORDS[read.kind]
    return ImportResult(out, read.architecture, kind, parameters, read.left_out)


def _write_run(
    config: ImportConfig, read: Imported, run: RunFolder, out: Path, parameters: int
) -> None:
    more: dict[str, Any] = {"kind": read.kind, "architecture": read.architecture}
    if read.kind == "classifier":
        more["classes"] = list(read.classes)
    if read.has_pairs:
        more["pairs"] = True
    write_config(run, "import", config, read.model, **more)
    if read.kind == "classifier":  # what `predict` and `evaluate` ask of a classifier's settings
        written = run.config()
        usual = Tuning()
        written["settings"] |= {
            "pooling": read.pooling,
            "truncate": usual.truncate,
            "micro_tokens": usual.micro_tokens,
        }
        write_json(run.config_file, written)
    read.tokenizer.save(run.path)
    write_whole(run.weights_file, save(read.weights))
    nothing = Fingerprints().to_text()
    write_json(run.data_file, {"files": [], "fingerprints": nothing, "unrecorded": True})
    write_whole(run.path / "README.md", _card(config, read, out, parameters).encode())
    run.finish({"valid": {}})


def _card(config: ImportConfig, read: Imported, out: Path, parameters: int) -> str:
    shape = {k: v for k, v in read.model.to_json().items() if not isinstance(v, bool)}
    usage = {
        "causal": f"warmstart generate {out} --prompt Once",
        "classifier": f"warmstart predict {out} texts.txt",
    }
    start = f"warmstart finetune --from {out} --train train.tsv --valid valid.tsv -o classifier"
    return model_card(
        out.name,
        TASKS[read.kind],
        f"{read.architecture} from {Path(config.folder).name}, imported with warmstart. "
        "What texts it was trained on is not recorded.",
        {"parameters": parameters, **shape},
        {"figures": "none: it was not trained here"},
        [usage.get(read.kind, start)],
    )


def export_model(config: ExportConfig) -> ExportResult:
    """Write a run as a folder that transformers loads, and check that its outputs are ours."""
    out = _free(config.out)
    source = read_source(config.run)
    model = build_model(source).eval()
    with whole_folder(out) as temporary:
        written = write_folder(source, model, temporary, out.name)
        check = check_folder(source, model, temporary)
        if check and not check.difference <= LARGEST_DIFFERENCE:
            raise WarmstartError(
                f"{out} was not written: its outputs in transformers differ from ours by "
                f"{check.difference:.1e}, more than {LARGEST_DIFFERENCE:.0e}"
            )
    return ExportResult(out, written.architecture, written.parameters, check)


def _free(path: str) -> Path:
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WarmstartError(f"{folder} exists already: choose another -o")
    return folder
