"""Families of Hugging Face models: configuration, names and shapes of tensors, the folder."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import Size, Tensor, nn

from warmstart.errors import WarmstartError
from warmstart.jsonfiles import from_json, has_type, parse_object, show
from warmstart.model.models import (
    BackboneOnly,
    Classifier,
    LanguageModel,
    Regressor,
    SpanFinder,
    TokenClassifier,
    Translator,
)
from warmstart.settings.model import Activation, ModelConfig
from warmstart.settings.shared import Pooling
from warmstart.tasks.hub import ANSWERER, CLASSIFIER, TAGGER, HubFamily
from warmstart.textfiles import describe_missing, read_bytes

HfHead = Literal["none", "language", "sequence", "tokens", "spans", "pairs", "translation"]
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
T = TypeVar("T")
THRESHOLD, LONGEST = "warmstart_threshold", "warmstart_longest"  # our own: when and what to answer
MARGIN = "warmstart_margin"  # our own: half the width of the interval of a number
TRUNCATE = "warmstart_truncate"  # our own key: what a classifier reads of a text that is too long
LARGEST = 1 << 24  # size that is accepted; more is a mistake or an attack
LARGEST_NUMBER = 1e300
SIZES = {  # of most families: keys of config.json by our settings
    "vocab_size": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "ffn_width": "intermediate_size",
}
HEADS: dict[str, HfHead] = {  # by the ending of the name of an architecture
    "Model": "none",
    "ForMaskedLM": "language",
    "ForPreTraining": "language",
    "ForCausalLM": "language",
    "ForNextSentencePrediction": "pairs",
    CLASSIFIER: "sequence",
    TAGGER: "tokens",
    ANSWERER: "spans",
    "ForSeq2SeqLM": "translation",
}
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class HfConfig:
    """The keys of one config.json; a missing key has the default of its family's library."""

    def __init__(self, values: Mapping[str, Any], file: Path) -> None:
        self.values, self.file = values, file

    def refuse(self, key: str, reason: str) -> NoReturn:
        """Refuse the folder because of the value of one key."""
        raise WarmstartError(f"{self.file}: {key}={show(self.values.get(key))} {reason}")

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value; null means the default."""
        value = self.values.get(key)
        return default if value is None else value

    def size(self, key: str, default: int | None = None) -> int:
        value = self.get(key, default)
        if value is None:
            raise WarmstartError(f"{self.file}: no {key}, which the shape of the model needs")
        if not has_type(value, int) or not 1 <= value <= LARGEST:
            self.refuse(key, f"must be a whole number from 1 to {LARGEST:,}")
        return int(value)

    def token(self, key: str) -> int | None:
        """Return a token id, or None."""
        value = self.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if value is not None and (not has_type(value, int) or not 0 <= value <= LARGEST):
            self.refuse(key, "must be a token id")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number that is not negative."""
        value = self.get(key, default)
        if not has_type(value, float) or not 0 <= value <= LARGEST_NUMBER:
            self.refuse(key, "must be a number from 0 up")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, "must be true or false")
        return value

    def choose(self, key: str, default: str, known: Mapping[str, T]) -> T:
        """Return the entry of `known` that the value names."""
        value = self.get(key, default)
        if not isinstance(value, str) or value not in known:
            self.refuse(key, f"is not supported; supported: {', '.join(known)}")
        return known[value]

    def require(self, key: str, allowed: Iterable[Any], reason: str) -> None:
        """Refuse a key that is present with a value not in `allowed`; True is not 1 here."""
        value = self.values.get(key)
        is_allowed = any(
            value == entry and isinstance(value, bool) == isinstance(entry, bool)
            for entry in allowed
        )
        if value is not None and not is_allowed:
            self.refuse(key, reason)


@dataclass(frozen=True)
class TensorMatch:
    """One of our tensors, which is one or several of the file's, stacked in rows."""

    ours: str
    theirs: tuple[str, ...]
    is_transposed: bool  # in the file


class HfTensors(dict[str, Tensor]):
    """The tensors of a file by name; each is taken once."""

    def __init__(self, tensors: Mapping[str, Tensor], path: Path, prefix: str) -> None:
        self.path = path
        for name, tensor in tensors.items():
            # Older files call the weight and bias of a norm gamma and beta.
            plain = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name.removeprefix(prefix))
            plain = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", plain)
            if plain in self:
                raise WarmstartError(f"{path}: {plain} is there twice, with and without {prefix}")
            self[plain] = tensor

    def __missing__(self, name: str) -> Tensor:
        raise WarmstartError(f"{self.path}: the weights lack {name}")

    def take(self, name: str, shape: Iterable[int]) -> Tensor:
        """Remove and return a tensor, which must exist in this shape."""
        self.check_shape(name, shape)
        tensor = self.pop(name)
        if not tensor.is_floating_point():
            raise WarmstartError(f"{self.path}: {name} is {tensor.dtype}, not plain floats")
        return tensor

    def check_shape(self, name: str, shape: Iterable[int]) -> None:
        """Refuse a tensor that is missing or has another shape."""
        actual, wanted = tuple(self[name].shape), tuple(shape)
        if actual != wanted:
            raise WarmstartError(
                f"{self.path}: {name} has shape {actual}, config.json says {wanted}"
            )

    def drop_copy(self, name: str, original: Tensor) -> None:
        """Remove a tensor, if it exists, that must be a copy of another."""
        if name in self and not torch.equal(self.pop(name), original):
            raise WarmstartError(
                f"{self.path}: {name} differs, though tie_word_embeddings makes them one"
            )

    def drop(self, pattern: str) -> tuple[str, ...]:
        """Remove the tensors whose name matches a pattern, and return their names."""
        names = tuple(name for name in self if re.fullmatch(pattern, name))
        for name in names:
            del self[name]
        return names

    def refuse_rest(self) -> None:
        """Refuse tensors that nothing took: without them the model would be another."""
        if self:
            more = f" and {len(self) - 1} more" if len(self) > 1 else ""
            raise WarmstartError(
                f"{self.path}: {next(iter(self))}{more} has no place in a model of this config.json"
            )


@dataclass(frozen=True, kw_only=True)
class Family:
    """How a family is read and written; tasks/hub.py says which models of ours are written."""

    name: str
    model_types: tuple[str, ...]  # in config.json; the first is written
    heads: Mapping[str, HfHead]  # by architecture
    prefix: str  # of the backbone's tensors in a model with a head
    prefixes: Mapping[HfHead, str] = field(default_factory=dict)  # where that of a head differs
    layers: Mapping[str, str]  # their layers by ours; # is a block, several are stacked in rows
    head_layers: Mapping[HfHead, Mapping[str, str]]
    transposed: str = ""  # pattern of their layers whose matrices are transposed
    buffers: str  # pattern of tensors that are not weights
    unused: Mapping[HfHead, str] = field(default_factory=dict)  # tensors of heads that are left out
    copies: tuple[str, ...] = ()  # tensors that copy the embedding, beside tied output weights
    untied_bias: str = ""  # the name of the output bias where output weights are not tied

    fixed: Mapping[str, Any]  # our settings that all its models have
    sizes: Mapping[str, str]  # key of config.json by our setting
    activation: tuple[str, str]  # its key and default
    activations: Mapping[str, Activation] = field(default_factory=lambda: ACTIVATIONS)
    dropout: tuple[str, str, float]  # the keys of dropout and of that inside a sublayer, default
    norm_eps: tuple[str, float] | None = None  # its key and default; None: it is fixed
    is_tied: bool = True  # by default
    pooling: Pooling = "last"  # of its classifiers

    read_settings: Callable[[HfConfig, HfTensors, HfHead], dict[str, Any]]
    """Return our settings that need more than a table; refuse what our models do not support."""
    zero_biases: Callable[[HfConfig, HfHead], str] = lambda config, head: ""
    """Return the pattern of our biases that a folder of the family lacks: they are zero."""
    restore: Callable[[dict[str, Tensor]], None] = lambda weights: None
    """Undo `adapt` on weights under our names when a folder is read, if our models need that."""

    more_config: Callable[[ModelConfig], dict[str, Any]] = lambda model: {}
    """Return the keys of config.json that are in no table."""
    widen: Callable[[ModelConfig, HfHead], ModelConfig] = lambda model, head: model
    """Return our shape as models of the family have it; the tensors that this adds are zero."""
    adapt: Callable[[dict[str, Tensor], HfHead], None] = lambda weights, head: None
    """Change the weights, under our names, to fit the architecture."""
    constants: Callable[[ModelConfig], dict[str, Tensor]] = lambda model: {}
    """Return tensors that no training changes, but that files of the family hold."""

    def prefix_of(self, head: HfHead) -> str:
        """Return the prefix of the backbone's tensors in a model with this head."""
        return self.prefixes.get(head, self.prefix)

    @property
    def tied_weight(self) -> str:
        """Return the name of the output weights, a copy of the embedding where they are tied."""
        layers = self.head_layers.get("language", {})
        return layers.get("head.output.weight") or f"{layers.get('head.output')}.weight"

    def has_language_head(self, tensors: Iterable[str]) -> bool:
        """Tell whether a file has tensors that only a language model has."""
        layers = self.head_layers.get("language", {})
        names = tuple(theirs for ours, theirs in layers.items() if ours.startswith("head."))
        return any(tensor.startswith(names) for tensor in tensors)

    def read_shape(self, config: HfConfig, tensors: HfTensors, head: HfHead) -> ModelConfig:
        """Return the architecture that a config.json describes; an error names the file."""
        more = self.read_settings(config, tensors, head)
        key, inner_key, default = self.dropout
        settings = {
            **{name: config.size(key) for name, key in self.sizes.items() if name not in more},
            "scale_embedding": self.fixed["positions"] == "sinusoidal",
            "activation": config.choose(*self.activation, self.activations),
            "tied": config.flag("tie_word_embeddings", self.is_tied),
            "dropout": config.number(key, default),
            "inner_dropout": config.number(inner_key, default) > 0,
            **({"norm_eps": config.number(*self.norm_eps)} if self.norm_eps else {}),
            **self.fixed,
            **more,
        }
        try:
            return ModelConfig(**settings)
        except WarmstartError as error:
            raise WarmstartError(f"{config.file}: {error}") from None

    def write_config(self, model: ModelConfig) -> dict[str, Any]:
        """Return the content of config.json for an architecture."""
        names = {ours: theirs for theirs, ours in reversed(list(self.activations.items()))}
        key, inner_key, _ = self.dropout
        return {
            "model_type": self.model_types[0],
            **{key: getattr(model, name) for name, key in self.sizes.items()},
            self.activation[0]: names[model.activation],  # the first name of several
            key: model.dropout,
            inner_key: model.dropout if model.inner_dropout else 0.0,
            **({self.norm_eps[0]: model.norm_eps} if self.norm_eps else {}),
            "tie_word_embeddings": model.tied,
            "torch_dtype": "float32",
            **self.more_config(model),
        }

    def matches(self, shape: ModelConfig, head: HfHead, prefix: str = "") -> Iterator[TensorMatch]:
        """Match our tensors with theirs; some of them may be missing on both sides."""
        head_layers = self.head_layers.get(head, {})
        for ours, theirs in {**self.layers, **head_layers}.items():
            endings = [""] if ours.endswith((".weight", ".bias")) else [".weight", ".bias"]
            depth = shape.decoder_depth if ours.startswith("decoder.") else shape.depth
            start = "" if ours in head_layers else prefix
            for index in map(str, range(depth if "#" in ours else 1)):
                names = theirs.replace("#", index).split()
                is_transposed = bool(re.fullmatch(self.transposed, names[0]))
                for ending in endings:
                    yield TensorMatch(
                        ours.replace("#", index) + ending,
                        tuple(f"{start}{name}{ending}" for name in names),
                        is_transposed and ending == ".weight",
                    )


def from_hub(family: HubFamily) -> dict[str, Any]:
    """Return the fields that a family takes from its entry in tasks/hub.py."""
    return {
        "name": family.name,
        "heads": {name: HEADS[ending] for ending, name in family.architectures.items()},
        "fixed": family.fixed,
        "pooling": family.pooling,
    }


def empty_model(
    shape: ModelConfig, head: HfHead, pooling: Pooling, num_classes: int, has_next_sentence: bool
) -> nn.Module:
    """Return the model of an architecture on the meta device, which takes no memory."""
    with torch.device("meta"):
        if head == "tokens":
            return TokenClassifier(shape, num_classes)
        if head == "spans":
            return SpanFinder(shape, longest=0)
        if num_classes:
            return Classifier(shape, num_classes, pooling)
        if head == "sequence":
            return Regressor(shape, pooling)
        if head == "translation":
            return Translator(shape)
        return BackboneOnly(shape) if head == "none" else LanguageModel(shape, has_next_sentence)


def to_ours(
    tensors: HfTensors, matches: Iterable[TensorMatch], shapes: Mapping[str, Size], zeros: str
) -> dict[str, Tensor]:
    """Return our tensors from a file's; those that match the pattern `zeros` are zero."""
    table = {match.ours: match for match in matches}
    weights = {}
    for name, shape in shapes.items():
        if re.fullmatch(zeros, name):
            weights[name] = torch.zeros(shape)
            continue
        match = table[name]
        num_rows, *rest = shape
        part_shape = (num_rows // len(match.theirs), *rest)
        if match.is_transposed:
            parts = [tensors.take(part, part_shape[::-1]).T for part in match.theirs]
        else:
            parts = [tensors.take(part, part_shape) for part in match.theirs]
        weights[name] = torch.cat(parts).contiguous()
    return weights


def to_theirs(weights: Mapping[str, Tensor], matches: Iterable[TensorMatch]) -> dict[str, Tensor]:
    """Return a file's tensors from ours, without those that we do not have."""
    tensors = {}
    for match in matches:
        if match.ours in weights:
            parts = weights[match.ours].tensor_split(len(match.theirs))
            for name, part in zip(match.theirs, parts, strict=True):
                tensors[name] = (part.T if match.is_transposed else part).clone().contiguous()
    return tensors


class HfFolder:
    """A folder whose files are read by name; links must stay inside it, or inside its hub cache."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            if path.exists():
                raise WarmstartError(f"{path} is a file; name the folder of a model")
            raise WarmstartError(
                f"{path} {describe_missing(path)}; a model of the hub is named hf:OWNER/NAME"
            )
        self.path = path
        self._roots = [path.resolve()]
        if path.resolve().parent.name == "snapshots":  # a hub cache links to its blobs
            self._roots.append(path.resolve().parents[1] / "blobs")

    def find(self, name: str) -> Path | None:
        """Return a file of the folder, or None; a link that leads out of it is refused."""
        file = self.path / name
        if not file.is_file():
            return None
        target = file.resolve()
        if not any(target.is_relative_to(root) for root in self._roots):
            raise WarmstartError(f"{file} leads out of its folder, to {target}; not followed")
        return file

    def read_bytes(self, name: str) -> bytes | None:
        """Return the content of a small file, or None if it does not exist."""
        file = self.find(name)
        return None if file is None else read_bytes(file)

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Return a JSON object, or None if the file does not exist."""
        content = self.read_bytes(name)
        if content is None:
            return None
        return parse_object(content, self.path / name)

    def read_tensors(self) -> dict[str, Tensor]:
        """Return every tensor of the folder's safetensors; floats as float32."""
        file = self.find(WEIGHTS)
        if file is not None:
            return _read_safetensors(file)
        index = self.read_json(INDEX)
        if index is not None:
            return self._read_shards(index)
        pickles = sorted(p.name for p in self.path.glob("*.bin") if p.is_file())
        if pickles:
            raise WarmstartError(
                f"{self.path}: only {pickles[0]}, a pickle that can run code when it is opened; "
                f"warmstart reads only {WEIGHTS} and did not open it. If you trust its author, "
                "from_pretrained of transformers opens it, and save_pretrained writes the other"
            )
        raise WarmstartError(f"{self.path}: no {WEIGHTS}, the weights, in this folder")

    def _read_shards(self, index: dict[str, Any]) -> dict[str, Tensor]:
        index_file = self.path / INDEX
        shards = from_json(dict[str, str], index.get("weight_map", {}), index_file, "weight_map")
        if not shards:
            raise WarmstartError(f"{index_file}: no weight_map, the file of each tensor")
        tensors: dict[str, Tensor] = {}
        for name in dict.fromkeys(shards.values()):
            file = self.find(name)
            if file is None:
                raise WarmstartError(f"{index_file}: {name[:60]} is not in the folder")
            tensors |= _read_safetensors(file)
        return tensors


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    tensors = {}
    try:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (not a mapping)
                tensor = opened.get_tensor(name)
                if tensor.is_floating_point() and tensor.dtype not in _FLOATS:
                    raise WarmstartError(f"{file}: {name} is {tensor.dtype}, not plain floats")
                tensors[name] = tensor.float() if tensor.is_floating_point() else tensor
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError) as error:
        raise WarmstartError(f"{file}: not a whole safetensors file ({error})") from None
    return tensors
