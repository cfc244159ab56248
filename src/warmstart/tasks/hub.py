"""Which Hugging Face class a model is exported to, decided from its configuration."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.runs.checkpoint import is_zero, weight_shapes
from warmstart.settings.model import ModelConfig, ablation_warning
from warmstart.settings.shared import Pooling
from warmstart.tasks.task import Task

CLASSIFIER, TAGGER = "ForSequenceClassification", "ForTokenClassification"
ANSWERER = "ForQuestionAnswering"
LANGUAGE_MODELS = ("ForMaskedLM", "ForCausalLM")

# Settings that a family can represent whatever their value is, some of them by changed weights.
FREE = {
    *("vocab_size", "width", "depth", "heads", "ffn_width", "max_length", "dropout"),
    *("inner_dropout", "tied", "biases", "scale_embedding", "norm_eps", "rope_base"),
    *("global_every", "local_rope_base", "decoder_depth", "target_vocab_size"),
}
USUAL: Mapping[str, tuple[Any, ...]] = {  # values that fit most families, the first is advised
    "norm": ("layer",),
    "activation": ("gelu", "gelu_tanh", "relu", "relu2", "silu"),
    "embedding_norm": (False,),
    "segments": (0,),
    "pooler": (False,),
    "transform": (False,),  # checked for language models alone
    "local_window": (0,),
    "first_norm": (True,),
}
_MODERN = {
    "norm": ("rms",),
    "norm_position": ("pre",),
    "positions": ("rope",),
    "activation": ("swiglu",),
}
_TRANSLATOR = {
    "attention": ("bidirectional",),
    "positions": ("sinusoidal",),
    "tied": (True,),
    "norm_eps": (1e-5,),
    "shared": (True,),
}


@dataclass(frozen=True, kw_only=True)
class HubModel:
    """The facts of one of our models that its export depends on."""

    model: ModelConfig
    task: Task
    pooling: Pooling | None = None  # of a classifier
    num_classes: int = 0
    has_next_sentence: bool = False  # whether it has BERT's second head
    has_bias: bool = True  # whether a bias that its head has differs from zero

    @property
    def architecture(self) -> str | None:
        """Return the class of transformers that computes the same; None: there is none."""
        return next((name for name, reasons in self.misfits.items() if not reasons), None)

    @property
    def problem(self) -> str | None:
        """Return what prevents an export to the closest family; None: nothing does."""
        if self.model.ablated != "nothing":
            return f"it is {ablation_warning(self.model.ablated)}"
        closest = min(self.misfits.values(), key=_distance, default=None)
        if closest is None:
            return f"no supported family has {self.task.description}"
        return ", ".join(closest) or None

    @property
    def misfits(self) -> dict[str, list[str]]:
        """Return the settings that do not fit, by the task's class in each family."""
        by_architecture = {}
        for family in FAMILIES:
            architecture = family.architectures.get(self.task.hub_class or "")
            if architecture and self.has_next_sentence:
                architecture = family.architectures.get("ForPreTraining", architecture)
            if architecture:
                reasons = self._misfits(family)
                named = [f"{family.name}: {reason}" for reason in reasons[:1]]
                by_architecture[architecture] = [*named, *reasons[1:]]
        return by_architecture

    def _misfits(self, family: "HubFamily") -> list[str]:
        settings = {**USUAL, **family.settings}
        if self.task.hub_class not in LANGUAGE_MODELS:
            del settings["transform"]
        reasons = [
            f"{name}={value} ({settings[name][0]} fits)"
            for name, value in asdict(self.model).items()
            if settings.get(name) and value not in settings[name]
        ]
        head_problem = None if reasons else family.head_problem(self)
        if self.task.hub_class == CLASSIFIER and self.pooling != family.pooling:
            reasons.append(f"pooling={self.pooling} (--pooling {family.pooling} fits)")
        return [*reasons, head_problem] if head_problem else reasons


def _distance(reasons: list[str]) -> int:
    """Return how far a family is; what only another pretraining, or nothing, changes is farther."""
    is_far = ("attention=" in reason or "=" not in reason for reason in reasons)
    return len(reasons) + sum(is_far)


def saved_hub_model(
    model: ModelConfig, task: Task, config: Mapping[str, Any], weights: Path
) -> HubModel:
    """Return the facts that an export depends on, from the config.json and weights of a run."""
    return HubModel(
        model=model,
        task=task,
        pooling=config["settings"].get("pooling"),
        num_classes=task.num_outputs(config),
        has_next_sentence="next_sentence.weight" in weight_shapes(weights),
        has_bias=not is_zero(weights, "head.output.bias"),
    )


def say_not_exportable(name: str, problem: str | None) -> None:
    """Say before the training what would prevent an export after it; None: nothing does."""
    if problem:
        progress.say(f"{name} cannot be exported to Hugging Face later: {problem}")


@dataclass(frozen=True, kw_only=True)
class HubFamily:
    """A family of transformers, and which of our models belong to it."""

    name: str
    architectures: Mapping[str, str]  # class names by their ending, see Task.hub_class
    settings: Mapping[str, tuple[Any, ...]]  # values that fit, where unusual; (): all
    pooling: Pooling = "last"  # of its classifiers
    head_problem: Callable[[HubModel], str | None] = field(default=lambda hub: None)
    """Return why the head does not fit, where the backbone does; None: it fits."""

    @property
    def fixed(self) -> dict[str, Any]:
        """Return the settings that all its models have."""
        settings = {**USUAL, **self.settings}
        return {name: values[0] for name, values in settings.items() if len(values) == 1}


def _bert_head_problem(hub: HubModel) -> str | None:
    # A classifier gets a pooler that changes nothing.
    needs_pooler = hub.has_next_sentence and not hub.model.pooler
    return "pooler=False (True fits)" if needs_pooler else None


def _gpt2_head_problem(hub: HubModel) -> str | None:
    # The bias of a classifier moves into that of the final norm, which is as wide as the model.
    is_classifier = hub.task.hub_class == CLASSIFIER
    if is_classifier and hub.has_bias and hub.num_classes > hub.model.width:
        return "a classification head whose bias its weights cannot express"
    return _output_bias_problem(hub)


def _llama_head_problem(hub: HubModel) -> str | None:
    if hub.has_bias and hub.task.hub_class == CLASSIFIER:
        return "a classification head with a bias (the architecture has none)"
    return _output_bias_problem(hub)


def _output_bias_problem(hub: HubModel) -> str | None:
    is_language_model = hub.task.hub_class in LANGUAGE_MODELS
    has_output_bias = is_language_model and hub.model.biases and hub.model.output_bias
    return "output_bias=True (False fits)" if has_output_bias and hub.has_bias else None


def _eurobert_head_problem(hub: HubModel) -> str | None:
    # A linear classifier is written as two layers: a class takes two units of the first.
    most = hub.model.width // 2
    if hub.task.hub_class == CLASSIFIER and hub.num_classes > most:
        return f"{hub.num_classes} classes (at most {most}, half the width, fit)"
    return "a next-sentence head" if hub.has_next_sentence else None


def _architectures(prefix: str, *endings: str) -> dict[str, str]:
    return {ending: f"{prefix}{ending}" for ending in ("Model", *endings, CLASSIFIER, TAGGER)}


BERT = HubFamily(
    name="BERT",
    architectures=_architectures(
        "Bert", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction", ANSWERER
    ),
    settings={
        "attention": ("bidirectional",),
        "norm_position": ("post",),
        "positions": ("learned",),
        "embedding_norm": (True,),
        "segments": (),
        "pooler": (),
        "transform": (True,),
    },
    pooling="cls",
    head_problem=_bert_head_problem,
)
GPT2 = HubFamily(
    name="GPT-2",
    architectures=_architectures("GPT2", ANSWERER) | {"ForCausalLM": "GPT2LMHeadModel"},
    settings={"attention": ("causal",), "norm_position": ("pre",), "positions": ("learned",)},
    head_problem=_gpt2_head_problem,
)
LLAMA = HubFamily(
    name="Llama",
    architectures=_architectures("Llama", "ForCausalLM", ANSWERER),
    settings={"attention": ("causal",), **_MODERN},
    head_problem=_llama_head_problem,
)
EUROBERT = HubFamily(
    name="EuroBERT",
    architectures=_architectures("EuroBert", "ForMaskedLM"),
    settings={"attention": ("bidirectional",), **_MODERN},
    pooling="mean",
    head_problem=_eurobert_head_problem,
)
PEGASUS = HubFamily(
    name="Pegasus",
    architectures={"ForSeq2SeqLM": "PegasusForConditionalGeneration"},
    settings={"norm_position": ("pre",), **_TRANSLATOR},
)
MARIAN = HubFamily(
    name="Marian",
    architectures={"ForSeq2SeqLM": "MarianMTModel"},
    settings={"norm_position": ("post",), **_TRANSLATOR},
)
FAMILIES = (BERT, GPT2, LLAMA, EUROBERT, PEGASUS, MARIAN)  # the first that fits is taken
