"""A saved run, read back: its architecture, tokenizers and weights."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from warmstart.data.overlap import Fingerprints
from warmstart.errors import WarmstartError
from warmstart.runs.checkpoint import load_checkpoint, read_weights
from warmstart.runs.folder import RunFolder
from warmstart.settings.model import ModelConfig, model_from_json
from warmstart.tokenization.pair import TokenizerPair, load_tokenizer_pair
from warmstart.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class SavedRun:
    """A run to start from or to use."""

    path: Path  # of the run folder, or of a checkpoint inside it
    task: str  # name of the task it was trained for
    config: dict[str, Any]  # config.json
    model: ModelConfig
    tokenizers: TokenizerPair
    weights: dict[str, Tensor]

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that reads its input."""
        return self.tokenizers.source

    @cached_property
    def folder(self) -> RunFolder:
        """Return the run folder, also when a checkpoint inside it was named."""
        return run_folder(self.path)

    @property
    def weights_file(self) -> Path:
        """Return the file the weights came from."""
        return self.path / "model.safetensors"

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings the run was trained with."""
        settings: dict[str, Any] = self.config["settings"]
        return settings

    def entry(self, *keys: str) -> Any:
        """Return a required entry of config.json."""
        value: Any = self.config
        for key in keys:
            if key not in value:
                raise WarmstartError(f"{self.folder.config_file} has no '{key}'")
            value = value[key]
        return value

    def texts_seen(self) -> Fingerprints:
        """Return fingerprints of every text that trained it, earlier stages included."""
        facts = self.folder.read_json(self.folder.data_file)
        try:
            stages = [facts, *facts.get("lineage", [])]
            seen = [Fingerprints.from_text(stage["fingerprints"]) for stage in stages]
        except (KeyError, TypeError, AttributeError):
            raise WarmstartError(
                f"{self.folder.data_file} does not hold the fingerprints of the texts seen"
            ) from None
        for earlier in seen[1:]:
            seen[0].merge(earlier)
        return seen[0]

    @property
    def has_unrecorded_texts(self) -> bool:
        """Tell whether it started from an imported model, whose training texts are unknown."""
        facts = self.folder.read_json(self.folder.data_file)
        return any(stage.get("unrecorded") for stage in (facts, *facts.get("lineage", [])))


def read_run(path: str | Path) -> SavedRun:
    """Read a finished run, the best weights of an unfinished one, or one of its checkpoints."""
    path = Path(path)
    if not path.is_dir():
        problem = "is a file, not a run folder" if path.exists() else "does not exist"
        raise WarmstartError(f"{path} {problem}")
    folder = run_folder(path)
    config = folder.config()
    if not isinstance(config.get("task"), str):
        raise WarmstartError(
            f"{folder.path} holds the results of `warmstart {config['command']}`, not a model"
        )
    weights = _best_weights(folder) if path == folder.path else load_checkpoint(path).weights
    model = model_from_json(config["model"], folder.config_file)
    tokenizers = load_tokenizer_pair(folder.path)
    if tokenizers.source.vocab_size > model.vocab_size:
        raise WarmstartError(
            f"{folder.path}: its tokenizer has {tokenizers.source.vocab_size:,} entries, "
            f"the model only {model.vocab_size:,}"
        )
    return SavedRun(path, str(config["task"]), config, model, tokenizers, weights)


def _best_weights(run: RunFolder) -> dict[str, Tensor]:
    if not run.weights_file.exists() and not run.is_finished:
        raise WarmstartError(
            f"{run.path} stopped before its first validation, so it has no best weights: continue "
            "it with --resume, or name one of its checkpoints"
        )
    return read_weights(run.weights_file)


def run_folder(path: str | Path) -> RunFolder:
    """Return the folder of a run, also when a checkpoint inside it is named."""
    path = Path(path)
    is_checkpoint = path.parent.name == "checkpoints" and path.name.startswith("step-")
    return RunFolder(path.parent.parent if is_checkpoint else path)
