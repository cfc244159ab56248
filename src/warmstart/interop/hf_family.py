"""What differs between families of models: config keys, tensor names, what each can represent."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from warmstart.errors import WarmstartError
from warmstart.interop.hf_config import HfConfig
from warmstart.interop.hf_tensors import HfTensors, TensorMatch
from warmstart.settings.model import Activation, ModelConfig
from warmstart.settings.shared import Pooling

HfHead = Literal["none", "language", "sequence", "pairs", "translation"]  # pairs: next sentence

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
    "silu": "silu",
    "swish": "silu",
}
# The first name of each is written.
HF_ACTIVATIONS = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}


@dataclass(frozen=True, kw_only=True)
class ExportRules:
    """How our models are written. A model fits if reading back what was written returns it."""

    write_config: Callable[[ModelConfig], dict[str, Any]]
    """Return the keys of config.json besides the sizes."""
    widen: Callable[[ModelConfig], ModelConfig]
    """Return the shape that the architecture has; the tensors this adds are zero."""
    adapt: Callable[[dict[str, Tensor], HfHead], str | None]
    """Change the weights to fit the architecture, or return what prevents that."""
    constants: Callable[[ModelConfig], dict[str, Tensor]] = lambda model: {}
    """Return tensors that no training changes, but that files of the family hold."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """How a family is read and, with export rules, written. The defaults are those of decoders."""

    name: str
    model_types: tuple[str, ...]  # in config.json; the first is written
    prefix: str  # of the backbone's tensors in a model with a head
    heads: Mapping[str, HfHead]  # by architecture; the first with a head is the one written
    sizes: Mapping[str, str]  # key of config.json by our setting
    buffers: str  # pattern of tensors that are not weights
    layers: Mapping[str, str]  # their layers by ours; # is a block, several are stacked in rows
    head_layers: Mapping[HfHead, Mapping[str, str]] = field(
        default_factory=lambda: {
            "language": {"head.output": "lm_head"},
            "sequence": {"head.output": "score"},
        }
    )
    transposed: str = ""  # pattern of their layers whose matrices are transposed
    language_class: str = "ForCausalLM"  # how the name of transformers' class ends
    pooling: Pooling = "last"  # of its classifiers
    language_tensors: tuple[str, ...] = ("lm_head.weight",)  # only a language model has them
    copies: Mapping[str, str] = field(  # theirs that copy one of ours when weights are tied
        default_factory=lambda: {"lm_head.weight": "backbone.embed.weight"}
    )
    output_biases: tuple[str, ...] = ()  # the name when weights are not tied, and the usual one
    unused: Mapping[HfHead, str] = field(  # patterns of heads that an architecture does not use
        default_factory=lambda: {"sequence": r"lm_head\.weight"}
    )
    read_shape: Callable[[HfConfig, HfTensors, HfHead], ModelConfig]
    zero_biases: Callable[[HfConfig], str] = lambda config: ""
    """Return the pattern of those of our tensors that the family does not have: they are zero."""
    restore: Callable[[dict[str, Tensor]], None] = lambda weights: None
    """Undo what `adapt` of the export rules does to weights under our names, where it must be."""
    export: ExportRules | None = None

    @property
    def hub_classes(self) -> dict[HfHead, str]:
        """Return how the names of transformers' classes end, by head."""
        classifier = "ForSequenceClassification"
        return {
            "none": "Model",
            "language": self.language_class,
            "sequence": classifier,
            "pairs": classifier,
            "translation": "ForSeq2SeqLM",
        }

    def head_for(self, hub_class: str | None) -> HfHead | None:
        """Return the head of models whose class ends like this; None: the family has none."""
        heads = [head for head, name in self.hub_classes.items() if name == hub_class]
        return next((head for head in heads if head in self.heads.values()), None)

    def matches(self, shape: ModelConfig, head: HfHead) -> Iterator[TensorMatch]:
        """Match our tensors with theirs; some of them may be missing on both sides."""
        for ours, theirs in {**self.layers, **self.head_layers.get(head, {})}.items():
            endings = [""] if ours.endswith((".weight", ".bias")) else [".weight", ".bias"]
            depth = shape.decoder_depth if ours.startswith("decoder.") else shape.depth
            for index in map(str, range(depth if "#" in ours else 1)):
                names = theirs.replace("#", index).split()
                is_transposed = bool(re.fullmatch(self.transposed, names[0]))
                for ending in endings:
                    yield TensorMatch(
                        ours.replace("#", index) + ending,
                        tuple(name + ending for name in names),
                        is_transposed and ending == ".weight",
                    )


def build_shape(config: HfConfig, sizes: Mapping[str, str], **settings: Any) -> ModelConfig:
    """Return a shape with the sizes that these keys hold; an error names the file."""
    settings = {name: config.size(key) for name, key in sizes.items()} | settings
    try:
        return ModelConfig(**settings)
    except WarmstartError as error:
        raise WarmstartError(f"{config.file}: {error}") from None


def read_dropout(config: HfConfig, key: str, inner_key: str, default: float) -> dict[str, Any]:
    """Return the settings of dropout: one rate, applied to attention weights too or not."""
    rate = config.number(key, default)
    return {"dropout": rate, "inner_dropout": config.number(inner_key, default) > 0}


def drop_zero_bias(weights: dict[str, Tensor], head: HfHead) -> str | None:
    """Remove the bias of the head, which must be zero."""
    bias = weights.pop("head.output.bias", None)
    if bias is None or not bias.any():
        return None
    if head == "sequence":
        return "a classification head with a bias (the architecture has none)"
    return "output_bias=True (output_bias=False fits)"
