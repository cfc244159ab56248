"""A causal language model in use: a prompt in, text out."""

from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from warmstart import progress
from warmstart.decoding.sample import Sampling, SpecialIds, Step, sample, to_log_probs
from warmstart.errors import WarmstartError
from warmstart.inference.text_model import TransformerModel
from warmstart.model.cache import KeyValueCache
from warmstart.model.models import LanguageModel
from warmstart.runtime import Runtime
from warmstart.seeds import derive_seed


@dataclass(frozen=True, kw_only=True)
class TextGenerator(TransformerModel):
    """A model that continues text."""

    @torch.inference_mode()
    def generate(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        sampling: Sampling | None = None,
        seed: int = 0,
        **_: Any,
    ) -> str:
        """Continue a prompt; the text returned includes it."""
        tokenizer, max_length = self.tokenizer, self.config.max_length
        prefix = [tokenizer.bos, *tokenizer.encode([prompt])[0]]
        room = max_length - len(prefix)
        if room < 1:
            raise WarmstartError(
                f"--prompt has {len(prefix):,} tokens, this model reads {max_length:,}"
            )
        generator = torch.Generator().manual_seed(derive_seed(seed, "generate"))
        suppressed = tokenizer.suppressed_ids(self.config.vocab_size)
        ids = sample(
            cached_step(cast(LanguageModel, self.model), self.runtime),
            prefix,
            min(max_tokens, room),
            SpecialIds(tokenizer.bos, tokenizer.eos, suppressed),
            replace(sampling or Sampling(), generator=generator),
        )
        if len(ids) == room < max_tokens:
            progress.say(f"stopped: this model reads at most {max_length:,} tokens")
        return tokenizer.decode([*prefix, *ids])


def cached_step(model: LanguageModel, runtime: Runtime) -> Step:
    """Return a step function that computes each position once."""
    cache = KeyValueCache(model.config.depth)

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        if cache.length:
            cache.select(parents.to(runtime.device))
        new = prefixes[:, cache.length :].to(runtime.device)
        with runtime.precision():
            hidden = model.backbone(new, cache=cache)[:, -1:]
            logits = model.head(hidden, model.backbone.embed.weight)[:, 0]
        return to_log_probs(logits).cpu()

    return step
