"""Count the parameters of a preset or run, in closed form."""

from dataclasses import dataclass
from typing import Literal

from warmstart.errors import WarmstartError
from warmstart.model import count
from warmstart.model.count import Layer
from warmstart.planning.commands import ParamsConfig
from warmstart.report.html import Shown, table
from warmstart.runs.checkpoint import weight_shapes
from warmstart.runs.folder import RunFolder
from warmstart.runs.saved import find_model
from warmstart.settings.model import PRESETS, ModelConfig, apply_overrides, override
from warmstart.settings.training import Tuning
from warmstart.tasks.hub import CLASSIFIER, HubModel, saved_hub_model
from warmstart.tasks.registry import BackboneTask, task_for_class, task_named

Head = Literal["all", "lm", "classifier", "none"]
HEADERS = ("layer", "formula", "parameters")
PAPER_MILLIONS = {"vaswani-base": 65, "vaswani-big": 213}
OVERRIDES = ("vocab_size", "attention", "segments", "pooler", "transform")


@dataclass(frozen=True)
class ParameterCount(Shown):
    """The parameters of every layer, and their sum."""

    name: str
    legend: str
    paper: str  # what the paper says about the total; empty: nothing
    export: str  # its class on Hugging Face, or why it cannot be exported
    layers: tuple[Layer, ...]
    total: int
    trainable: int

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, formula and count of every layer."""
        return [(layer.name, layer.formula, f"{layer.count:,}") for layer in self.layers]

    def totals(self) -> list[tuple[str, str, str]]:
        """Return the rows below those of the layers."""
        return [("total", "", f"{self.total:,}"), ("trainable", "", f"{self.trainable:,}")]

    def pieces(self) -> list[str]:
        rows = [*self.rows(), *self.totals()]
        return [table(HEADERS, rows, left=[1]), self.legend, self.export]


def count_parameters(config: ParamsConfig) -> ParameterCount:
    """Count the parameters of a preset or run, layer by layer."""
    shape, folder = find_model(config.model)
    shape = apply_overrides(shape, config)
    values = {name: getattr(config, name) for name in OVERRIDES}
    shape = override(shape, {name: value for name, value in values.items() if value is not None})
    if shape.decoder_depth:
        if config.head != "all" or config.frozen:
            raise WarmstartError(
                f"--{'frozen' if config.frozen else 'head'} is for a backbone and its head; "
                f"{config.model} is a translator, which is counted whole"
            )
        backbone, head = count.count_translator(shape), []
    else:
        backbone, head = count.count_backbone(shape), _head_layers(config, shape, folder)
    total = sum(layer.count for layer in backbone + head)
    is_frozen = config.frozen or (folder is not None and folder.config().get("arm") == "frozen")
    trainable = sum(layer.count for layer in head) if is_frozen else total
    legend = count.legend(shape)
    paper = _paper_sentence(config.model, shape)
    export, layers = _export(config, shape, folder), tuple(backbone + head)
    return ParameterCount(config.model, legend, paper, export, layers, total, trainable)


def _export(config: ParamsConfig, shape: ModelConfig, folder: RunFolder | None) -> str:
    """Say as which Hugging Face class the model, with the head that was counted, is exported."""
    if folder and config.head == "all" and folder.weights_file.exists():
        task = task_named(folder.entry("task"))
        hub = saved_hub_model(shape, task, folder.config(), folder.weights_file)
    else:
        hub = HubModel(
            model=shape,
            task=task_for_class(_hub_class(config, shape)),
            pooling=Tuning.pooling,
            num_classes=config.labels if config.head == "classifier" else 0,
            has_next_sentence=config.head == "all" and shape.segments > 1,
        )
    if hub.problem:
        return f"cannot be exported to Hugging Face: {hub.problem}"
    return f"goes to Hugging Face as {hub.architecture}"


def _hub_class(config: ParamsConfig, shape: ModelConfig) -> str:
    if shape.decoder_depth:
        return "ForSeq2SeqLM"
    language_model = "ForCausalLM" if shape.is_causal else "ForMaskedLM"
    endings = {"classifier": CLASSIFIER, "none": "Model"}
    return endings.get(config.head, language_model)


def _paper_sentence(name: str, model: ModelConfig) -> str:
    """Say which size the paper of a preset gives; empty: no paper gives one."""
    if name not in PAPER_MILLIONS or model != PRESETS[name]:
        return ""
    return (
        f"the 2017 paper gives about {PAPER_MILLIONS[name]} million, with about 37,000 entries "
        f"in the vocabulary; here it has exactly {model.vocab_size:,}"
    )


def _head_layers(config: ParamsConfig, shape: ModelConfig, folder: RunFolder | None) -> list[Layer]:
    head, num_labels = config.head, config.labels
    if folder and head == "all":
        head = _head_of_run(folder)
        num_labels = _num_outputs(folder) or num_labels
    layers = {
        "all": count.count_pretraining_heads(shape),
        "lm": count.count_language_head(shape),
        "classifier": count.count_classification_head(shape, num_labels),
        "none": [],
    }
    return layers[head]


def _num_outputs(folder: RunFolder) -> int:
    return task_named(folder.entry("task")).num_outputs(folder.config())


def _head_of_run(folder: RunFolder) -> Head:
    """Return the head that a run has; a pretrained one may lack next-sentence prediction."""
    config = folder.config()
    if _num_outputs(folder):
        return "classifier"
    if config.get("task") == BackboneTask.name:
        return "none"
    names = weight_shapes(folder.weights_file) if folder.weights_file.exists() else {}
    return "all" if "next_sentence.weight" in names else "lm"
