"""A run to start from or to use: its shape, tokenizer and weights.

Knows nothing about what will be done with them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from warmstart.settings.model import ModelConfig, model_from_json
from warmstart.errors import WarmstartError
from warmstart.runs.checkpoint import load_checkpoint, read_weights
from warmstart.runs.folder import RunFolder
from warmstart.data.overlap import Fingerprints
from warmstart.tokenization.tokenizer import Tokenizer, load_tokenizer

Kind = Literal["causal", "masked", "base", "classifier", "translator"]

IN_WORDS: dict[Kind, str] = {
    "causal": "a causal language model",
    "masked": "a masked language model",
    "base": "a base without a head",
    "classifier": "a classifier",
    "translator": "a translator",
}


@dataclass(frozen=True)
class Source:
    """A run to start from: its shape, tokenizer and weights."""

    path: Path
    kind: Kind
    config: dict[str, Any]
    model: ModelConfig
    tokenizer: Tokenizer
    weights: dict[str, Tensor]

    def texts_seen(self) -> Fingerprints:
        """Return the fingerprints of every text its training, and what it started from, saw."""
        facts = self.run.read_json(self.run.data_file)
        try:
            texts = [facts["fingerprints"], *(e["fingerprints"] for e in facts.get("before", []))]
            found = [Fingerprints.from_text(text) for text in texts]
        except (KeyError, TypeError, AttributeError):
            raise WarmstartError(
                f"{self.run.data_file} does not hold the fingerprints of the texts seen"
            ) from None
        for earlier in found[1:]:
            found[0].merge(earlier)
        return found[0]

    @property
    def has_unrecorded_texts(self) -> bool:
        """Tell whether it began with a model from elsewhere, whose texts are not known."""
        facts = self.run.read_json(self.run.data_file)
        return any(entry.get("unrecorded") for entry in (facts, *facts.get("before", [])))

    @property
    def weights_file(self) -> Path:
        """Return the file the weights came from."""
        return self.path / "model.safetensors"

    @property
    def run(self) -> RunFolder:
        """Return the folder, also when a checkpoint inside it was named."""
        return run_folder(self.path)


def read_source(path: str | Path) -> Source:
    """Read a finished run, an unfinished one's best weights, or one of its checkpoints."""
    given = Path(path)
    if not given.is_dir():
        fault = "is a file, not a run folder" if given.exists() else "does not exist"
        raise WarmstartError(f"{given} {fault}")
    run = run_folder(given)
    config = run.config()
    kind = config.get("kind")
    if kind not in IN_WORDS:
        raise WarmstartError(
            f"{run.path} holds the results of `warmstart {config['command']}`, not a model"
        )
    weights = _best_weights(run) if given == run.path else load_checkpoint(given).weights
    model = model_from_json(config["model"], run.config_file)
    tokenizer = load_tokenizer(run.path)
    if tokenizer.vocab_size > model.vocab_size:
        raise WarmstartError(
            f"{run.path}: its tokenizer has {tokenizer.vocab_size:,} entries, "
            f"the model only {model.vocab_size:,}"
        )
    return Source(given, kind, config, model, tokenizer, weights)


def _best_weights(run: RunFolder) -> dict[str, Tensor]:
    if not run.weights_file.exists() and not run.is_finished:
        raise WarmstartError(
            f"{run.path} stopped before its first validation, so it has no best weights: go on "
            "with --resume, or name one of its checkpoints"
        )
    return read_weights(run.weights_file)


def run_folder(path: str | Path) -> RunFolder:
    """Return the folder of a run, also when a checkpoint inside it is named."""
    given = Path(path)
    is_checkpoint = given.parent.name == "checkpoints" and given.name.startswith("step-")
    return RunFolder(given.parent.parent if is_checkpoint else given)
