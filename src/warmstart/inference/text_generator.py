"""A causal language model in use: a prompt in, text out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch

from warmstart import progress
from warmstart.decoding.prompted import Begin, fast_steps, plain_steps
from warmstart.decoding.sample import Sampling, SpecialIds, sampled_together
from warmstart.errors import WarmstartError
from warmstart.inference.transformer_model import TransformerModel
from warmstart.model.models import LanguageModel
from warmstart.results.predictions import GeneratedPiece, ProbableWord
from warmstart.seeds import derive_seed
from warmstart.tokenization.backends import HALF


@dataclass(frozen=True, kw_only=True)
class TextGenerator(TransformerModel):
    """A model that continues text."""

    def generate(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        sampling: Sampling | None = None,
        seed: int = 0,
        **_: Any,
    ) -> str:
        """Continue a prompt; the text returned includes it."""
        return self.generate_texts(prompt, max_tokens, sampling, [seed])[0]

    @torch.inference_mode()
    def generate_texts(
        self,
        prompt: str = "",
        max_tokens: int = 100,
        sampling: Sampling | None = None,
        seeds: Sequence[int] = (0,),
        **_: Any,
    ) -> list[str]:
        """Continue a prompt once with each seed, all together; the texts include it."""
        prefix = self._prefix(prompt)
        if not len(seeds):
            return []
        texts = [list(prefix) for _ in seeds]
        for tokens in self._ids(prefix, max_tokens, sampling, seeds):
            for text, token in tokens.items():
                texts[text].append(token)
        if max(map(len, texts)) == self.config.max_length < len(prefix) + max_tokens:
            progress.say(f"stopped: this model reads at most {self.config.max_length:,} tokens")
        return [self.tokenizer.decode(ids) for ids in texts]

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
        for tokens in self._ids(list(ids), max_tokens, sampling, [seed]):
            ids.append(tokens[0])
            text = self.tokenizer.decode(ids)
            is_whole = text.startswith(shown) and not text.endswith(HALF)
            yield GeneratedPiece(text[len(shown) :] if is_whole else "")
            shown = text if is_whole else shown
        rest = self.tokenizer.decode(ids)[len(shown) :]
        yield GeneratedPiece(rest, "length" if len(ids) == most else "stop")

    @torch.inference_mode()
    def probable_words(self, text: str, top_k: int = 5) -> tuple[ProbableWord, ...]:
        """Return the most probable tokens after a text."""
        step = plain_steps(cast(LanguageModel, self.model), self.runtime)()
        log_probs = step(torch.tensor([self._prefix(text)]), torch.zeros(1, dtype=torch.long))[0]
        suppressed = torch.tensor(list(self.tokenizer.suppressed_ids(self.config.vocab_size)))
        best = log_probs.exp().index_fill(0, suppressed, 0.0).topk(min(top_k, len(log_probs)))
        return tuple(map(self.probable_word, best.indices.tolist(), best.values.tolist()))

    @cached_property
    def _begin(self) -> Begin:
        """Return what begins a text, made once."""
        return fast_steps(cast(LanguageModel, self.model), self.runtime)

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
        self, prefix: list[int], max_tokens: int, sampling: Sampling | None, seeds: Sequence[int]
    ) -> Iterator[dict[int, int]]:
        """Return the ids after a prefix as they are drawn, one of every text."""
        tokenizer = self.tokenizer
        suppressed = tokenizer.suppressed_ids(self.config.vocab_size)
        generators = [torch.Generator().manual_seed(derive_seed(s, "generate")) for s in seeds]
        return sampled_together(
            self._begin(),
            prefix,
            min(max_tokens, self._room(prefix)),
            SpecialIds(tokenizer.bos, tokenizer.eos, suppressed),
            [replace(sampling or Sampling(), generator=generator) for generator in generators],
        )
