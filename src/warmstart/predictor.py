"""Run folder -> text in, text out.

Knows nothing about training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from warmstart import progress
from warmstart.batching.encode import EncodedTexts, encode_texts
from warmstart.decoding.sample import Sampling, Step, sample
from warmstart.errors import WarmstartError
from warmstart.evaluation.score import classify
from warmstart.inference.attention_maps import look
from warmstart.inference.vectors import backbone_of, text_vectors, token_vectors
from warmstart.model.cache import Cache
from warmstart.model.models import BackboneOnly, Classifier, LanguageModel, Translator
from warmstart.results.attention import AttentionMap
from warmstart.runs.saved import IN_WORDS, Kind, Source, read_source
from warmstart.runs.transfer import transfer_all
from warmstart.runtime import Runtime, choose_runtime
from warmstart.seeds import derive_seed
from warmstart.settings.training import Pooling, Truncate

MICRO_TOKENS = 8192  # padded tokens read together where no one says

Model = BackboneOnly | Classifier | LanguageModel | Translator


@dataclass(frozen=True)
class Prediction:
    """The label of one text, and how sure the model is of each."""

    label: str
    probability: float
    probabilities: dict[str, float]


class Predictor:
    """A trained model in use."""

    def __init__(self, source: Source, runtime: Runtime) -> None:
        self.source, self.runtime, self.tokenizer = source, runtime, source.tokenizer
        self.model = build_model(source).to(runtime.device).eval()

    @property
    def classes(self) -> list[str]:
        """Return the labels a classifier tells apart."""
        self._need("classifier", "finetune", "predict labels")
        names: list[str] = _entry(self.source, "classes")
        return names

    @property
    def reads_pairs(self) -> bool | None:
        """Tell whether a classifier was trained on pairs of texts; None where nobody said."""
        return self.source.config.get("pairs")

    @property
    def truncation(self) -> Truncate:
        """Return what a text too long keeps: a classifier has learned with a rule of its own."""
        if self.source.kind != "classifier":
            return "head"
        rule: Truncate = _entry(self.source, "settings", "truncate")
        return rule

    def encode(
        self,
        texts: Sequence[str],
        texts2: Sequence[str] | None = None,
        truncate: Truncate | None = None,
    ) -> EncodedTexts:
        """Return ids as the model reads them, cut by the rule given or its own."""
        rule = truncate or self.truncation
        return encode_texts(texts, self.tokenizer, self.source.model.max_length, rule, texts2)

    def predict(
        self, texts: Sequence[str], texts2: Sequence[str] | None = None
    ) -> list[Prediction]:
        """Label texts, or pairs of a text and its second text."""
        names = self.classes
        if isinstance(texts, str) or isinstance(texts2, str):
            raise WarmstartError("predict takes a list of texts, not one text")
        self._check_form(texts, texts2)
        if not texts:
            return []
        assert isinstance(self.model, Classifier)
        budget = _entry(self.source, "settings", "micro_tokens")
        encoded = self.encode(texts, texts2)
        pad = self.tokenizer.pad
        found = classify(self.model, encoded.ids, budget, pad, self.runtime, encoded.starts)
        return [
            Prediction(
                names[int(row.argmax())],
                float(row.max()),
                {name: float(share) for name, share in zip(names, row, strict=True)},
            )
            for row in found
        ]

    def _check_form(self, texts: Sequence[str], texts2: Sequence[str] | None) -> None:
        if self.reads_pairs is not None and self.reads_pairs != (texts2 is not None):
            forms = ("single texts", "pairs (text, text2)")
            trained, given = forms[self.reads_pairs], forms[not self.reads_pairs]
            raise WarmstartError(f"{self.source.path} was trained on {trained}, not on {given}")
        if texts2 is not None and len(texts2) != len(texts):
            raise WarmstartError(
                f"{len(texts):,} texts but {len(texts2):,} second texts; pairs need as many of both"
            )

    def embed(
        self,
        texts: Sequence[str],
        pooling: Pooling = "mean",
        layer: int | None = None,
        normalize: bool = False,
        truncate: Truncate | None = None,
    ) -> NDArray[np.float32]:
        """Return one vector for every text: (texts, D); layer 0 is the embeddings."""
        if isinstance(texts, str):
            raise WarmstartError("embed takes a list of texts, not one text")
        if pooling not in get_args(Pooling):
            raise WarmstartError(f"pooling {pooling!r} is unknown: cls, last or mean")
        return self.vectors(self.encode(texts, truncate=truncate), pooling, layer, normalize)

    def vectors(
        self,
        encoded: EncodedTexts,
        pooling: Pooling = "mean",
        layer: int | None = None,
        normalize: bool = False,
        micro_tokens: int = MICRO_TOKENS,
    ) -> NDArray[np.float32]:
        """Return one vector for every encoded text: (texts, D)."""
        backbone, pad = backbone_of(self.model), self.tokenizer.pad
        chosen = self._layer(layer)
        found = text_vectors(
            backbone, encoded.ids, pooling, micro_tokens, pad, self.runtime, chosen, encoded.starts
        )
        return _as_array(found, normalize)

    def token_vectors(
        self,
        encoded: EncodedTexts,
        layer: int | None = None,
        normalize: bool = False,
        micro_tokens: int = MICRO_TOKENS,
    ) -> list[NDArray[np.float32]]:
        """Return for every encoded text a vector of each token in context: (T, D)."""
        layers, pad = [self._layer(layer)], self.tokenizer.pad
        backbone = backbone_of(self.model)
        found = token_vectors(backbone, encoded.ids, layers, micro_tokens, pad, self.runtime)
        return [_as_array(vectors[0], normalize) for vectors in found]

    def _layer(self, layer: int | None) -> int:
        depth = backbone_of(self.model).config.depth
        if layer is not None and not 0 <= layer <= depth:
            raise WarmstartError(
                f"--layer {layer} is not there: {self.source.path} has 0 (embeddings) to {depth}"
            )
        return depth if layer is None else layer

    def attention(
        self, text: str, text2: str | None = None, target: str | None = None
    ) -> dict[str, AttentionMap]:
        """Return attention weights by part: `self`, or a translator's encoder, decoder, cross."""
        return look(self.model, self.source, text, text2, target)

    @torch.inference_mode()
    def generate(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        sampling: Sampling | None = None,
        seed: int = 0,
    ) -> str:
        """Go on from a prompt; the text returned includes it."""
        self._need("causal", "pretrain", "generate text")
        prefix = [self.tokenizer.bos, *self.tokenizer.encode([prompt])[0]]
        longest = self.source.model.max_length
        room = longest - len(prefix)
        if room < 1:
            raise WarmstartError(
                f"--prompt has {len(prefix):,} tokens, this model reads {longest:,}"
            )
        generator = torch.Generator().manual_seed(derive_seed(seed, "generate"))
        eos, never = self.tokenizer.eos, self.tokenizer.suppressed_ids(self.source.model.vocab_size)
        limit = min(max_tokens, room)
        assert isinstance(self.model, LanguageModel)
        step = cached_step(self.model, self.runtime)
        added = sample(step, prefix, eos, limit, sampling or Sampling(), generator, never)
        if len(added) == room < max_tokens:
            progress.say(f"stopped: this model reads no more than {longest:,} tokens")
        return self.tokenizer.decode([*prefix, *added])

    def _need(self, kind: Kind, command: str, purpose: str) -> None:
        if self.source.kind != kind:
            raise WarmstartError(
                f"{self.source.path} is {IN_WORDS[self.source.kind]}; to {purpose} it takes "
                f"{IN_WORDS[kind]}, as `warmstart {command}` makes"
            )


def _as_array(vectors: Tensor, normalize: bool) -> NDArray[np.float32]:
    scaled = F.normalize(vectors, dim=-1) if normalize else vectors
    found: NDArray[np.float32] = scaled.float().numpy()
    return found


def cached_step(model: LanguageModel, runtime: Runtime) -> Step:
    """Return a step function that computes each position once."""
    cache = Cache(model.config.depth)

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        if cache.length:
            cache.select(parents.to(runtime.device))
        new = prefixes[:, cache.length :].to(runtime.device)
        with runtime.precision():
            hidden = model.backbone(new, cache=cache)[:, -1:]
            logits = model.head(hidden, model.backbone.embed.weight)[:, 0]
        return logits.float().log_softmax(-1).cpu()

    return step


def load(
    run: str | Path, device: str = "auto", precision: str = "auto", threads: int | None = None
) -> Predictor:
    """Load a run folder for use."""
    return Predictor(read_source(run), choose_runtime(device, precision, threads))


def _entry(source: Source, *keys: str) -> Any:
    """Return an entry of the run's config.json, or say that it is missing."""
    found: Any = source.config
    for key in keys:
        if key not in found:
            raise WarmstartError(f"{source.run.config_file} has no '{key}', which its use needs")
        found = found[key]
    return found


def build_model(source: Source) -> Model:
    """Return the model of a run with its weights."""
    model = _empty_model(source)
    try:
        fate = transfer_all(source.weights, model)
    except WarmstartError as fault:
        raise WarmstartError(f"{source.path}: {fault}") from None
    if fate.new:
        raise WarmstartError(f"{source.path}: its weights lack {', '.join(fate.new)}")
    return model


def _empty_model(source: Source) -> Model:
    match source.kind:
        case "classifier":
            num_classes = len(_entry(source, "classes"))
            return Classifier(source.model, num_classes, _entry(source, "settings", "pooling"))
        case "translator":
            return Translator(source.model)
        case "base":
            return BackboneOnly(source.model)
    return LanguageModel(source.model, "next_sentence.weight" in source.weights)
