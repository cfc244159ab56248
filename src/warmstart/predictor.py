"""Run folder -> text in, text out.

Knows nothing about training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from warmstart import progress
from warmstart.batches.truncate import truncate
from warmstart.decode.sample import Sampling, Step, sample
from warmstart.errors import WarmstartError
from warmstart.model.cache import Cache
from warmstart.model.runtime import Runtime, choose_runtime
from warmstart.model.tasks import Classifier, LanguageModel
from warmstart.scoring.score import classify
from warmstart.seeds import derive_seed
from warmstart.store.source import Source, read_source
from warmstart.store.transfer import transfer_all


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
        self.model = _build(source).to(runtime.device).eval()

    @property
    def classes(self) -> list[str]:
        """Return the labels a classifier tells apart."""
        self._need("finetune", "predict labels")
        names: list[str] = _entry(self.source, "classes")
        return names

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return ids as the model reads them, cut by the rule it was trained with."""
        room = self.source.model.max_length - 2
        rule = _entry(self.source, "settings", "truncate")
        bos, eos = self.tokenizer.bos, self.tokenizer.eos
        return [[bos, *truncate(ids, room, rule), eos] for ids in self.tokenizer.encode(texts)]

    def predict(self, texts: Sequence[str]) -> list[Prediction]:
        """Label texts."""
        names = self.classes
        if isinstance(texts, str):
            raise WarmstartError("predict takes a list of texts, not one text")
        if not texts:
            return []
        assert isinstance(self.model, Classifier)
        budget = _entry(self.source, "settings", "micro_tokens")
        ids = self.encode(texts)
        found = classify(self.model, ids, budget, self.tokenizer.pad, self.runtime)
        return [
            Prediction(
                names[int(row.argmax())],
                float(row.max()),
                {name: float(share) for name, share in zip(names, row, strict=True)},
            )
            for row in found
        ]

    @torch.inference_mode()
    def generate(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        sampling: Sampling | None = None,
        seed: int = 0,
    ) -> str:
        """Go on from a prompt; the text returned includes it."""
        self._need("pretrain", "generate text")
        prefix = [self.tokenizer.bos, *self.tokenizer.encode([prompt])[0]]
        longest = self.source.model.max_length
        room = longest - len(prefix)
        if room < 1:
            raise WarmstartError(
                f"--prompt has {len(prefix):,} tokens, this model reads {longest:,}"
            )
        generator = torch.Generator().manual_seed(derive_seed(seed, "generate"))
        t = self.tokenizer
        never = [i for i in (t.bos, t.pad, t.unk, t.mask) if i is not None and i != t.eos]
        limit = min(max_tokens, room)
        assert isinstance(self.model, LanguageModel)
        step = cached_step(self.model, self.runtime)
        added = sample(step, prefix, t.eos, limit, sampling or Sampling(), generator, never)
        if len(added) == room < max_tokens:
            progress.say(f"stopped: this model reads no more than {longest:,} tokens")
        return self.tokenizer.decode([*prefix, *added])

    def _need(self, command: str, purpose: str) -> None:
        if self.source.command != command:
            made = {"pretrain": "a language model", "finetune": "a classifier"}
            raise WarmstartError(
                f"{self.source.path} is {made.get(self.source.command, 'another kind of run')}; "
                f"to {purpose} it takes a run that `warmstart {command}` wrote"
            )


def cached_step(model: LanguageModel, runtime: Runtime) -> Step:
    """Return a step function that computes each position once."""
    cache = Cache(model.config.depth)

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        if cache.length:
            cache.select(parents.to(runtime.device))
        new = prefixes[:, cache.length :].to(runtime.device)
        with runtime.precision():
            hidden = model.body(new, cache=cache)[:, -1:]
            logits = model.head(hidden, model.body.embed.weight)[:, 0]
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


def _build(source: Source) -> LanguageModel | Classifier:
    if source.command == "finetune":
        num_classes, pooling = len(_entry(source, "classes")), _entry(source, "settings", "pooling")
        model: LanguageModel | Classifier = Classifier(source.model, num_classes, pooling)
    elif source.command == "pretrain":
        model = LanguageModel(source.model)
    else:
        raise WarmstartError(f"{source.path} holds a {source.command}, not a model")
    try:
        fate = transfer_all(source.weights, model)
    except WarmstartError as fault:
        raise WarmstartError(f"{source.path}: {fault}") from None
    if fate.new:
        raise WarmstartError(f"{source.path}: its weights lack {', '.join(fate.new)}")
    return model
