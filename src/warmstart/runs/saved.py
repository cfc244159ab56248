"""A saved run, read back: its architecture, tokenizers and weights."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from warmstart import progress
from warmstart.data.fingerprints import Fingerprints, join_fingerprints
from warmstart.errors import WarmstartError
from warmstart.formats import quantity
from warmstart.jsonfiles import from_json
from warmstart.model.count import count_backbone, count_translator
from warmstart.runs.checkpoint import (
    list_checkpoints,
    load_checkpoint,
    read_state,
    read_weights,
    step_of,
    weight_shapes,
)
from warmstart.runs.facts import DataFile
from warmstart.runs.folder import RunFolder
from warmstart.settings.base import Settings, suggestion
from warmstart.settings.model import PRESETS, ModelConfig, ablation_warning, model_from_json
from warmstart.textfiles import describe_missing
from warmstart.tokenization.backends import TokenizerPair, load_tokenizer_pair
from warmstart.tokenization.tokenizer import Tokenizer

SHORTEST_TEXT = 3  # a token between two special ones
S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class SavedRun:
    """A run to start from or to use."""

    path: Path  # of the run folder, or of a checkpoint inside it
    task: str  # name of the task it was trained for
    config: dict[str, Any]  # config.json
    weights: dict[str, Tensor]
    transformer: tuple[ModelConfig, TokenizerPair] | None  # None: a model of another kind

    @property
    def model(self) -> ModelConfig:
        """Return the architecture of a Transformer."""
        return self._parts[0]

    @property
    def tokenizers(self) -> TokenizerPair:
        """Return the tokenizers of the texts that a Transformer reads and writes."""
        return self._parts[1]

    @property
    def _parts(self) -> tuple[ModelConfig, TokenizerPair]:
        if self.transformer is None:
            raise WarmstartError(f"{self.path} is no Transformer (its task is {self.task!r})")
        return self.transformer

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the input."""
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
        """Return the classes of a classifier; empty for other runs."""
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
        """Return what data.json records of the training texts."""
        return read_data(self.folder)

    def texts_seen(self) -> Fingerprints:
        """Return fingerprints of all training texts, those of earlier stages included."""
        stages = (self.data, *self.data.lineage)
        return join_fingerprints(stage.fingerprints.unpack() for stage in stages)

    def texts_labelled(self) -> Fingerprints:
        """Return fingerprints of the texts whose labels it was trained or validated on."""
        parts = (self.data.fingerprints, self.data.validated)
        return join_fingerprints(packed.unpack() for packed in parts if packed is not None)

    def refuse_if_ablated(self, purpose: str) -> None:
        """Refuse to use an ablated model, from which a part was left out on purpose."""
        if self.transformer and self.model.ablated != "nothing":
            warning = ablation_warning(self.model.ablated)
            raise WarmstartError(
                f"{self.path} cannot {purpose}: it is {warning}; pretrain a model without --ablate"
            )

    @property
    def has_unrecorded_texts(self) -> bool:
        """Tell whether the run started from an imported model, whose training texts are unknown."""
        return any(stage.unrecorded for stage in (self.data, *self.data.lineage))


def read_run(path: str | Path) -> SavedRun:
    """Read a finished run, the best weights of an unfinished one, or one of its checkpoints.

    Of a comparison, read the model that it advises.
    """
    path = Path(path)
    if not path.is_dir():
        problem = "is a file, not a run folder" if path.exists() else describe_missing(path)
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
    transformer = _read_parts(folder, path) if config["model"] else None
    is_best = path == folder.path
    weights = read_weights(folder.weights_file) if is_best else load_checkpoint(path).weights
    if transformer and transformer[0].ablated != "nothing":
        progress.say(f"{path} is {ablation_warning(transformer[0].ablated)}")
    return SavedRun(path, str(config["task"]), config, weights, transformer)


def _read_parts(folder: RunFolder, path: Path | None) -> tuple[ModelConfig, TokenizerPair]:
    """Return architecture and tokenizers of a run; both must fit the weights at a path, if any."""
    model, tokenizers = _read_model(folder), load_tokenizer_pair(folder.path)
    sizes = (model.vocab_size, model.target_vocab_size or model.vocab_size)
    for tokenizer, size in zip((tokenizers.source, tokenizers.target), sizes, strict=True):
        if tokenizer.vocab_size > size:
            raise WarmstartError(
                f"{folder.path}: its tokenizer has {tokenizer.vocab_size:,} entries, "
                f"the model only {size:,}"
            )
    if path:
        check_sizes(model, path / "model.safetensors", folder.config_file)
    return model, tokenizers


def _read_model(folder: RunFolder) -> ModelConfig:
    model = model_from_json(folder.config()["model"], folder.config_file)
    if model.max_length < SHORTEST_TEXT:
        raise WarmstartError(
            f"{folder.config_file}: model.max_length={model.max_length} must be at least "
            f"{SHORTEST_TEXT}, to read anything"
        )
    return model


def recorded_model(run: RunFolder | None) -> ModelConfig | None:
    """Return the architecture that a run was started with; None: the run is new."""
    if run is None or not run.data_file.exists():  # data.json is written last
        return None
    return _read_model(run)


def resumed_model(run: RunFolder) -> ModelConfig:
    """Return the architecture of a run to continue; tokenizers and checkpoint must fit it."""
    return _read_parts(run, max(list_checkpoints(run), key=step_of, default=None))[0]


def read_data(run: RunFolder) -> DataFile:
    """Return what data.json records of the texts of a run."""
    return from_json(DataFile, run.read_json(run.data_file), run.data_file)


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
    advice: Any = comparison.read_json(file)
    for key in ("summary", "advice"):
        advice = from_json(dict, advice.get(key), file, key)
    arm = from_json(str, advice.get("arm"), file, "summary.advice.arm")
    models = kept_models(comparison)
    scores = {path: RunFolder(path).scores() for path, of_arm in models.items() if of_arm == arm}
    if not scores:
        names = ", ".join(map(str, models))
        others = f"name one of its models: {names}" if models else "compare without --save none"
        raise WarmstartError(
            f"{comparison.path} advises {arm}, of which no model is kept: {others}"
        )
    best = max(scores, key=lambda path: (scores[path].labels, scores[path].compared))
    labels = quantity(scores[best].labels, "label")
    return best, f"{comparison.path} advises {arm}: using {best}, the best model with {labels}"


def lineage_of(parent: SavedRun | None) -> list[dict[str, Any]]:
    """Return what data.json records of the run that a run starts from."""
    if parent is None:
        return []
    tokens, elapsed_s = pretraining_cost(parent)
    return [
        {
            "run": str(parent.path),
            "fingerprints": parent.texts_seen().to_json(),
            "unrecorded": parent.has_unrecorded_texts,
            "tokens_seen": tokens,
            "elapsed_s": elapsed_s,
        }
    ]


def recipes_of(runs: Iterable[SavedRun]) -> dict[str, str]:
    """Return what each run was made with except for its seed, by its path.

    Runs with the same recipe are pretrainings that differ only by chance; a run without a seed, or
    with that of another run, is a recipe of its own.
    """
    recipes: dict[str, str] = {}
    seeds: set[tuple[str, Any]] = set()
    for run in runs:
        settings = {key: value for key, value in run.settings.items() if key != "seed"}
        part = str(run.path.relative_to(run.folder.path))  # a checkpoint is another one
        recipe = json.dumps([part, settings, run.config["model"]], sort_keys=True)
        own = recipe, run.settings.get("seed")
        is_alone = own[1] is None or own in seeds
        recipes[str(run.path)] = str(run.path) if is_alone else recipe
        seeds.add(own)
    return recipes


def pretraining_cost(run: SavedRun) -> tuple[int, float]:
    """Return the tokens that these weights saw and the seconds that took, over all stages."""
    tokens, elapsed_s = _own_cost(run)
    for stage in run.data.lineage:
        tokens += stage.tokens_seen
        elapsed_s += stage.elapsed_s
    return tokens, elapsed_s


def _own_cost(run: SavedRun) -> tuple[int, float]:
    folder = run.folder
    scores = folder.scores()
    if run.path == folder.path:
        return scores.tokens_seen, scores.elapsed_s
    state = read_state(run.path)
    if scores.tokens_seen:  # a finished run has a checkpoint of its last step
        last = step_of(list_checkpoints(folder)[-1])
        tokens = round(scores.tokens_seen * state.step / last)
    else:
        length = run.model.max_length
        recorded = run.settings.get("batch_tokens", 0)  # only pretraining counts tokens
        batch_tokens = from_json(int, recorded, folder.config_file, "settings.batch_tokens")
        tokens = state.step * max(1, batch_tokens // length) * length if batch_tokens else 0
    return tokens, state.elapsed_s


def describe_unrecorded(name: str) -> str:
    """Say what cannot be known of a run that started from an imported model."""
    return (
        f"{name} started from an imported model: its training texts and their cost are not "
        "recorded, so texts it has already seen may go unnoticed"
    )


@dataclass(frozen=True)
class Transfer:
    """Which tensors of a model were loaded, which are new, and which were left out."""

    loaded: tuple[str, ...]
    new: tuple[str, ...]  # in the model, not in the file: keep their random start
    left_out: tuple[str, ...]  # in the file, not loaded
    own_shapes: Mapping[str, torch.Size]  # of the model's tensors
    file_shapes: Mapping[str, torch.Size]  # of the file's tensors

    def __str__(self) -> str:
        replaced = [name for name in self.new if name in self.left_out]
        parts = [f"{len(self.loaded)} tensors loaded"]
        parts += [
            f"{name} {_by(self.file_shapes[name])} replaced by {_by(self.own_shapes[name])}"
            for name in replaced
        ]
        for names, shapes, group in (
            (self.new, self.own_shapes, "new"),
            (self.left_out, self.file_shapes, "left out"),
        ):
            shown = [f"{name} {_by(shapes[name])}" for name in names if name not in replaced]
            parts += [f"{group}: {', '.join(shown)}"] if shown else []
        return "; ".join(parts)


def _by(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "1"


def transfer_backbone(weights: Mapping[str, Tensor], model: nn.Module) -> Transfer:
    """Load the backbone of another model; the head of this one keeps its random start."""
    return _load(weights, model, "backbone.")


def transfer_all(weights: Mapping[str, Tensor], model: nn.Module) -> Transfer:
    """Load every tensor that the model has, heads included."""
    return _load(weights, model, "")


def _cut_positions(name: str, tensor: Tensor, own: Tensor) -> Tensor:
    """Cut learned positions to the length that the model reads."""
    return tensor[: len(own)] if name.endswith("embed_positions.weight") else tensor


def _load(weights: Mapping[str, Tensor], model: nn.Module, prefix: str) -> Transfer:
    own = model.state_dict()
    chosen = {
        name: _cut_positions(name, tensor, own[name])
        for name, tensor in weights.items()
        if name in own and name.startswith(prefix)
    }
    for name, tensor in chosen.items():
        if tensor.shape != own[name].shape:
            raise WarmstartError(
                f"{name} has shape {tuple(tensor.shape)}, the model needs {tuple(own[name].shape)}"
            )
    missing = [name for name in own if name.startswith("backbone.") and name not in chosen]
    if missing:
        raise WarmstartError(f"the pretrained weights lack {', '.join(missing[:3])}")
    model.load_state_dict(chosen, strict=False)
    return Transfer(
        loaded=tuple(chosen),
        new=tuple(name for name in own if name not in chosen),
        left_out=tuple(name for name in weights if name not in chosen),
        own_shapes={name: tensor.shape for name, tensor in own.items()},
        file_shapes={name: tensor.shape for name, tensor in weights.items()},
    )


def find_model(name: str) -> tuple[ModelConfig, RunFolder | None]:
    """Return the shape of a preset, or the shape of a run and its folder."""
    if name in PRESETS:
        return PRESETS[name], None
    if not Path(name).is_dir():
        raise WarmstartError(
            f"{name!r} is neither a preset nor a run folder{suggestion(name, PRESETS)}"
        )
    folder = run_folder(name)
    return model_from_json(folder.config()["model"], folder.config_file), folder
