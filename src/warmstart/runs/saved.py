"""A saved run, read back: its architecture, tokenizers and weights."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from warmstart import progress
from warmstart.data.fingerprints import Fingerprints, join_fingerprints
from warmstart.errors import WarmstartError
from warmstart.formats import counted
from warmstart.jsonfiles import typed
from warmstart.model.count import count_backbone, count_translator
from warmstart.runs.checkpoint import (
    list_checkpoints,
    load_checkpoint,
    read_weights,
    weight_shapes,
)
from warmstart.runs.facts import DataFile, ResultsFile
from warmstart.runs.folder import RunFolder
from warmstart.settings.base import Settings
from warmstart.settings.model import ModelConfig, ablation_warning, model_from_json
from warmstart.textfiles import missing
from warmstart.tokenization.pair import TokenizerPair, load_tokenizer_pair
from warmstart.tokenization.tokenizer import Tokenizer

SHORTEST_TEXT = 3  # a token between two special ones
S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class SavedTransformer:
    """The parts of a run that only Transformers have."""

    model: ModelConfig
    tokenizers: TokenizerPair


@dataclass(frozen=True)
class SavedRun:
    """A run to start from or to use."""

    path: Path  # of the run folder, or of a checkpoint inside it
    task: str  # name of the task it was trained for
    config: dict[str, Any]  # config.json
    weights: dict[str, Tensor]
    transformer: SavedTransformer | None  # None: a model of another kind

    @property
    def model(self) -> ModelConfig:
        """Return its architecture."""
        return self._transformer.model

    def reshaped(self, model: ModelConfig) -> "SavedRun":
        """Return the run with another architecture in place of its own."""
        return replace(self, transformer=replace(self._transformer, model=model))

    @property
    def tokenizers(self) -> TokenizerPair:
        """Return the tokenizers of what it reads and writes."""
        return self._transformer.tokenizers

    @property
    def _transformer(self) -> SavedTransformer:
        if self.transformer is None:
            raise WarmstartError(f"{self.path} is no Transformer (its task is {self.task!r})")
        return self.transformer

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

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the classes that it tells apart; empty: it is no classifier."""
        return tuple(self.config.get("classes", ()))

    def recorded(self, kind: type[S], *keys: str) -> S:
        """Return settings of a class with the values that the run was trained with, checked."""
        file = self.folder.config_file
        missing = next((key for key in keys if key not in self.settings), None)
        if missing:
            raise WarmstartError(f"{file} has no 'settings.{missing}'")
        try:
            return kind.from_values({key: self.settings[key] for key in keys})
        except WarmstartError as error:
            raise WarmstartError(f"{file}: {error}") from None

    @cached_property
    def data(self) -> DataFile:
        """Return what data.json records of its texts."""
        return read_data(self.folder)

    def texts_seen(self) -> Fingerprints:
        """Return fingerprints of every text that trained it, earlier stages included."""
        stages = (self.data, *self.data.lineage)
        return join_fingerprints(stage.fingerprints.unpacked() for stage in stages)

    def refuse_if_ablated(self, purpose: str) -> None:
        """Refuse to put a model to use that was broken on purpose."""
        if self.transformer and self.model.ablated != "nothing":
            warning = ablation_warning(self.model.ablated)
            raise WarmstartError(
                f"{self.path} cannot {purpose}: it is {warning}; pretrain a model without --ablate"
            )

    @property
    def has_unrecorded_texts(self) -> bool:
        """Tell whether it started from an imported model, whose training texts are unknown."""
        return any(stage.unrecorded for stage in (self.data, *self.data.lineage))


def read_run(path: str | Path) -> SavedRun:
    """Read a finished run, the best weights of an unfinished one, or one of its checkpoints.

    Of a comparison, read the model that it advises.
    """
    path = Path(path)
    if not path.is_dir():
        problem = "is a file, not a run folder" if path.exists() else missing(path)
        raise WarmstartError(f"{path} {problem}")
    folder = run_folder(path)
    config = folder.config()
    if config["command"] == "compare" and config.get("task") is None:
        model, sentence = advised_model(folder)
        progress.say(sentence)
        return read_run(model)
    if not isinstance(config.get("task"), str):
        raise WarmstartError(
            f"{folder.path} holds the results of `warmstart {config['command']}`, not a model"
        )
    if path == folder.path and not folder.weights_file.exists() and not folder.is_finished:
        raise WarmstartError(
            f"{path} stopped before its first validation, so it has no best weights: continue "
            "it with --resume, or name one of its checkpoints"
        )
    transformer = _read_transformer(folder, config, path) if config["model"] else None
    is_best = path == folder.path
    weights = read_weights(folder.weights_file) if is_best else load_checkpoint(path).weights
    if transformer and transformer.model.ablated != "nothing":
        progress.say(f"{path} is {ablation_warning(transformer.model.ablated)}")
    return SavedRun(path, str(config["task"]), config, weights, transformer)


def _read_transformer(folder: RunFolder, config: dict[str, Any], path: Path) -> SavedTransformer:
    model = _saved_model(folder, config)
    tokenizers = _fitting_tokenizers(folder, model)
    check_sizes(model, path / "model.safetensors", folder.config_file)
    return SavedTransformer(model, tokenizers)


def _saved_model(folder: RunFolder, config: dict[str, Any]) -> ModelConfig:
    model = model_from_json(config["model"], folder.config_file)
    if model.max_length < SHORTEST_TEXT:
        raise WarmstartError(
            f"{folder.config_file}: model.max_length={model.max_length} must be at least "
            f"{SHORTEST_TEXT}, to read anything"
        )
    return model


def _fitting_tokenizers(folder: RunFolder, model: ModelConfig) -> TokenizerPair:
    """Return the tokenizers of a run; refuse ids that its model does not have."""
    tokenizers = load_tokenizer_pair(folder.path)
    sizes = (model.vocab_size, model.target_vocab_size or model.vocab_size)
    for tokenizer, size in zip((tokenizers.source, tokenizers.target), sizes, strict=True):
        if tokenizer.vocab_size > size:
            raise WarmstartError(
                f"{folder.path}: its tokenizer has {tokenizer.vocab_size:,} entries, "
                f"the model only {size:,}"
            )
    return tokenizers


def resumed_model(run: RunFolder) -> ModelConfig:
    """Return the architecture of a run that is continued; it must fit what was saved."""
    model = _saved_model(run, run.config())
    _fitting_tokenizers(run, model)
    for checkpoint in list_checkpoints(run)[-1:]:
        check_sizes(model, checkpoint / "model.safetensors", run.config_file)
    return model


def before_training(run: RunFolder, model: nn.Module) -> SavedRun:
    """Return a run that has its config.json and tokenizer, with the weights it starts from."""
    config = run.config()
    if not isinstance(config.get("task"), str):
        raise WarmstartError(f"{run.config_file} has no 'task'")
    transformer = SavedTransformer(resumed_model(run), load_tokenizer_pair(run.path))
    return SavedRun(run.path, config["task"], config, dict(model.state_dict()), transformer)


def read_data(run: RunFolder) -> DataFile:
    """Return what data.json records of the texts of a run."""
    return typed(DataFile, run.read_json(run.data_file), run.data_file)


def check_sizes(model: ModelConfig, weights: Path, config_file: Path) -> None:
    """Refuse a model larger than its weights, before any memory is taken for it."""
    count = count_translator if model.decoder_depth else count_backbone
    needed = sum(layer.count for layer in count(model))
    present = sum(map(math.prod, weight_shapes(weights).values()))
    if needed > present:
        raise WarmstartError(
            f"{config_file}: its model has at least {needed:,} parameters, but {weights} has only "
            f"{present:,}; one of the two files was changed"
        )


def run_folder(path: str | Path) -> RunFolder:
    """Return the folder of a run, also when a checkpoint inside it is named."""
    path = Path(path)
    is_checkpoint = path.parent.name == "checkpoints" and path.name.startswith("step-")
    return RunFolder(path.parent.parent if is_checkpoint else path)


def kept_models(comparison: RunFolder) -> dict[Path, str]:
    """Return the folder of every model that a comparison keeps, with the name of its arm."""
    folders = sorted(file.parent for file in comparison.models.glob("*/config.json"))
    return {folder: RunFolder(folder).entry("arm") for folder in folders}


def advised_model(comparison: RunFolder) -> tuple[Path, str]:
    """Return the model to use after a comparison, and a sentence about it.

    It is of the arm that the comparison advises; of several, the best one with the most labels.
    """
    file = comparison.path / "results.json"
    if not file.exists():
        raise WarmstartError(
            f"{comparison.path} is an unfinished comparison: continue it with `compare --resume`"
        )
    arm = typed(ResultsFile, comparison.read_json(file), file).summary.advice.arm
    models = kept_models(comparison)
    scores = {path: RunFolder(path).scores() for path, of_arm in models.items() if of_arm == arm}
    accuracies = {path: RunFolder(path).valid_scores()["accuracy"] for path in scores}
    if not scores:
        names = ", ".join(map(str, models))
        others = f"name one of its models: {names}" if models else "compare without --save none"
        raise WarmstartError(
            f"{comparison.path} advises {arm}, of which no model is kept: {others}"
        )
    best = max(scores, key=lambda path: (scores[path].labels, accuracies[path]))
    labels = counted(scores[best].labels, "label")
    return best, f"{comparison.path} advises {arm}: using {best}, the best model with {labels}"
