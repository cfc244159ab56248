"""What differs between families of models: config keys, tensor names, what each can represent."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_tensors import HfTensors, TensorMatch
from warmstart.runs.saved import SavedRun
from warmstart.settings.choices import Pooling
from warmstart.settings.model import Activation, ModelConfig
from warmstart.tasks.registry import task_of

HfHead = Literal["none", "language", "sequence", "pairs"]  # pairs: next-sentence prediction

# How the names of transformers' classes end; our tasks know theirs.
NO_HEAD, CLASSIFIER = "Model", "ForSequenceClassification"
CAUSAL_LM, MASKED_LM = "ForCausalLM", "ForMaskedLM"

ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
}
HF_ACTIVATIONS: dict[Activation, str] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "relu": "relu",
    "relu2": "relu2",
    "swiglu": "silu",
}


@dataclass(frozen=True, kw_only=True)
class ExportRules:
    """Which of our models a family can represent, and how they are written."""

    supported: Mapping[str, tuple[Any, ...]]  # values by setting of the model
    supported_by_class: Mapping[str, Mapping[str, tuple[Any, ...]]]
    architectures: Mapping[str, str]  # by ending of the class
    widen: Callable[[ModelConfig], ModelConfig]
    """Return the shape that the architecture has; the tensors this adds are zero."""
    adapt: Callable[[dict[str, Tensor], str], str | None]
    """Change the weights to fit the architecture, or return what prevents that."""
    write_config: Callable[[ModelConfig], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Family:
    """How a family is read, and how it is written where that is supported."""

    name: str
    model_types: tuple[str, ...]  # in config.json
    prefix: str  # of the backbone's tensors in a model with a head
    heads: Mapping[str, HfHead]  # by architecture
    language_class: str
    pooling: Pooling  # of its classifiers
    language_tensors: tuple[str, ...]  # tensors that only a language model has
    copies: tuple[tuple[str, str], ...]  # their tensor, and ours of which it is a copy when tied
    output_biases: tuple[str, ...] = ()  # the name when weights are not tied, and the usual one
    buffers: str  # pattern of tensors that are not weights
    depth_key: str
    unused: Mapping[HfHead, str]  # patterns of the heads that an architecture does not use
    read_shape: Callable[[HfConfig, HfTensors, HfHead], ModelConfig]
    matches: Callable[[int, HfHead], Iterable[TensorMatch]]
    zero_tensors: Callable[[HfConfig, Iterable[str]], Iterable[str]] = lambda config, names: ()
    """Return those of our tensors that the family does not have: they are zero."""
    export: ExportRules | None = None


def hub_class_of(run: SavedRun) -> str:
    """Return how the class in transformers would be called; empty: there is none."""
    return task_of(run).hub_class or ""


def build_shape(config: HfConfig, **settings: Any) -> ModelConfig:
    """Return a shape; an error names the file."""
    try:
        return ModelConfig(**settings)
    except WarmstartError as error:
        raise WarmstartError(f"{config.file}: {error}") from None


def read_sizes(config: HfConfig, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the sizes of a model by our setting, from their keys."""
    return {setting: config.size(key) for setting, key in keys.items()}


def write_sizes(model: ModelConfig, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the sizes of a model by their key."""
    return {key: getattr(model, setting) for setting, key in keys.items()}


def read_dropout(config: HfConfig, key: str, inner_key: str, default: float) -> dict[str, Any]:
    """Return the settings of dropout: one rate, applied to attention weights too or not."""
    rate = config.number(key, default)
    return {"dropout": rate, "inner_dropout": config.number(inner_key, default) > 0}


def drop_zero_bias(weights: dict[str, Tensor]) -> str | None:
    """Remove the bias over the vocabulary, which must be zero."""
    bias = weights.pop("head.output.bias", None)
    if bias is not None and bias.any():
        return "output_bias=True (output_bias=False fits)"
    return None
