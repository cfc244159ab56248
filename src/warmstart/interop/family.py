"""What sets one family of models apart: its config keys, its tensors' names, what it can hold.

Knows no particular family.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.interop.keys import Keys
from warmstart.interop.tensors import Match, Tensors
from warmstart.runs.saved import Kind
from warmstart.settings.model import Activation, ModelConfig
from warmstart.settings.training import Pooling

Task = Literal["base", "language", "classifier", "pairs"]  # pairs: next sentence or not
Copies = tuple[tuple[str, str], ...]  # a tensor in the file, and ours that it repeats when tied

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
WRITTEN: dict[Activation, str] = {
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "relu": "relu",
    "relu2": "relu2",
    "swiglu": "silu",
}


@dataclass(frozen=True, kw_only=True)
class Family:
    """How a family is read."""

    name: str
    model_types: tuple[str, ...]  # what config.json calls it
    prefix: str  # of the base's tensors in a model with a head
    tasks: Mapping[str, Task]  # by architecture
    language: Kind  # what its language model is here
    pooling: Pooling  # of its classifiers
    head: tuple[str, ...]  # tensors that only a language model has
    copies: Copies
    output_biases: tuple[str, ...]  # the one read where weights are not tied, and its usual place
    buffers: str  # pattern of tensors that hold no weights
    depth_key: str
    spare: Mapping[Task, str]  # patterns of heads that a task leaves out
    read_shape: Callable[[Keys, Tensors, Task], ModelConfig]
    matches: Callable[[int, Task], Iterable[Match]]
    absent: Callable[[Keys, Iterable[str]], Iterable[str]]  # tensors of ours that it has as zero


@dataclass(frozen=True, kw_only=True)
class Form:
    """How a family is written."""

    name: str
    family: Family
    fits: Mapping[str, tuple[Any, ...]]  # the words it needs, for every kind
    fits_kind: Mapping[Kind, Mapping[str, tuple[Any, ...]]]  # and for one kind
    architectures: Mapping[Kind, str]
    widen: Callable[[ModelConfig], ModelConfig]  # the same model with parts that are zero
    fold: Callable[[dict[str, Tensor], Kind], str | None]  # put in place what it lacks, or say
    write_config: Callable[[ModelConfig], dict[str, Any]]


def build_shape(keys: Keys, **words: Any) -> ModelConfig:
    """Return a shape; an error names the file."""
    try:
        return ModelConfig(**words)
    except WarmstartError as error:
        raise WarmstartError(f"{keys.file}: {error}") from None


def read_dropout(keys: Keys, key: str, inner: str, default: float) -> dict[str, Any]:
    """Return the words about dropout: one rate, on attention weights too or not."""
    rate = keys.number(key, default)
    return {"dropout": rate, "inner_dropout": keys.number(inner, default) > 0}
