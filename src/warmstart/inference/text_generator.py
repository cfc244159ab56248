"""A causal language model in use: a prompt in, text out."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from warmstart import progress
from warmstart.decoding.sample import Sampling, SpecialIds, Step, sampled, to_log_probs
from warmstart.errors import WarmstartError
from warmstart.inference.transformer_model import TransformerModel
from warmstart.kernels.linear import PackedLinear, can_pack, packed_copy
from warmstart.model.backbone import Backbone
from warmstart.model.cache import KeyValueCache
from warmstart.model.heads import LanguageHead
from warmstart.model.models import LanguageModel
from warmstart.results.predictions import GeneratedPiece, ProbableWord
from warmstart.runtime import Runtime
from warmstart.seeds import derive_seed
from warmstart.tokenization.backends import HALF


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
        prefix = self._prefix(prompt)
        ids = list(self._ids(prefix, max_tokens, sampling, seed))
        if len(ids) == self._room(prefix) < max_tokens:
            progress.say(f"stopped: this model reads at most {self.config.max_length:,} tokens")
        return self.tokenizer.decode([*prefix, *ids])

    @torch.inference_mode()
    def stream(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        sampling: Sampling | None = None,
        seed: int = 0,
        **_: Any,
    ) -> Iterator[GeneratedPiece]:
        """Yield what each token adds to a prompt, then a last piece with the reason to end."""
        ids = self._prefix(prompt)
        most = len(ids) + min(max_tokens, self._room(ids))
        shown = self.tokenizer.decode(ids)
        for token in self._ids(list(ids), max_tokens, sampling, seed):
            ids.append(token)
            text = self.tokenizer.decode(ids)
            is_whole = text.startswith(shown) and not text.endswith(HALF)
            yield GeneratedPiece(text[len(shown) :] if is_whole else "")
            shown = text if is_whole else shown
        rest = self.tokenizer.decode(ids)[len(shown) :]
        yield GeneratedPiece(rest, "length" if len(ids) == most else "stop")

    @torch.inference_mode()
    def probable_words(self, text: str, top_k: int = 5) -> tuple[ProbableWord, ...]:
        """Return the most probable tokens after a text."""
        model = cast(LanguageModel, self.model)
        step = cached_step(model.backbone, model.head, self.runtime)
        log_probs = step(torch.tensor([self._prefix(text)]), torch.zeros(1, dtype=torch.long))[0]
        suppressed = torch.tensor(list(self.tokenizer.suppressed_ids(self.config.vocab_size)))
        best = log_probs.exp().index_fill(0, suppressed, 0.0).topk(min(top_k, len(log_probs)))
        return tuple(map(self.probable_word, best.indices.tolist(), best.values.tolist()))

    @cached_property
    def _fast(self) -> tuple[Backbone, nn.Module, Runtime]:
        """Return backbone and head, made once, as they predict one token at a time fastest."""
        model = cast(LanguageModel, self.model)
        if not can_pack(self.runtime.device):
            return model.backbone, model.head, self.runtime
        return *packed(model, self.runtime.dtype or torch.float32), Runtime(self.runtime.device)

    def _prefix(self, prompt: str) -> list[int]:
        """Return the ids of a prompt; refuse one that leaves no room."""
        prefix = [self.tokenizer.bos, *self.tokenizer.encode([prompt])[0]]
        if self._room(prefix) < 1:
            raise WarmstartError(
                f"the prompt has {len(prefix):,} tokens, this model reads "
                f"{self.config.max_length:,}: shorten it"
            )
        return prefix

    def _room(self, prefix: list[int]) -> int:
        return self.config.max_length - len(prefix)

    def _ids(
        self, prefix: list[int], max_tokens: int, sampling: Sampling | None, seed: int
    ) -> Iterator[int]:
        """Return the ids after a prefix as they are drawn."""
        tokenizer = self.tokenizer
        generator = torch.Generator().manual_seed(derive_seed(seed, "generate"))
        return sampled(
            cached_step(*self._fast),
            prefix,
            min(max_tokens, self._room(prefix)),
            SpecialIds(
                tokenizer.bos, tokenizer.eos, tokenizer.suppressed_ids(self.config.vocab_size)
            ),
            replace(sampling or Sampling(), generator=generator),
        )


class PackedHead(nn.Module):
    """A language-model head whose output weights are packed."""

    def __init__(self, head: LanguageHead, embedding: Tensor, dtype: torch.dtype) -> None:
        super().__init__()
        self.transform = packed_copy(head.transform, dtype)
        self.output = PackedLinear(*head.weights(embedding), dtype)

    def forward(self, hidden: Tensor, _: Tensor) -> Tensor:
        """Return logits (…, V)."""
        logits: Tensor = self.output(self.transform(hidden))
        return logits


def packed(model: LanguageModel, dtype: torch.dtype) -> tuple[Backbone, PackedHead]:
    """Return backbone and head for a CPU, with linear layers packed; valid until weights change."""
    head = PackedHead(model.head, model.backbone.embed.weight, dtype)
    return packed_copy(model.backbone, dtype), head


def cached_step(backbone: Backbone, head: nn.Module, runtime: Runtime) -> Step:
    """Return a step function that computes each position once."""
    cache = KeyValueCache(backbone.config.depth)

    def step(prefixes: Tensor, parents: Tensor) -> Tensor:
        is_same = len(parents) == 1 == cache.num_rows
        if cache.length and not is_same:
            cache.select(parents.to(runtime.device))
        new = prefixes[:, cache.length :].to(runtime.device)
        with runtime.precision():
            hidden = backbone(new, cache=cache)[:, -1:]
            logits = head(hidden, backbone.embed.weight)[:, 0]
        return to_log_probs(logits).cpu()

    return step
