"""Sentences in, translations out: in batches of similar lengths, in the order of the input."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from warmstart.decoding.beam import Hypothesis, SpecialIds
from warmstart.decoding.engines import Engine, translate_ids
from warmstart.errors import WarmstartError
from warmstart.settings.base import check_choice
from warmstart.settings.model import decoder_config
from warmstart.settings.using import Beam, Overlong
from warmstart.tokenization.backends import TokenizerPair

EXTRA_TOKENS = 10  # of a translation, beyond its multiple of the source
BATCH_TOKENS = {"cpu": 4096, "cuda": 16_384}  # decoded together: a GPU needs many to be busy
USUAL_BEAM = 5  # that BATCH_TOKENS hold for; a wider beam has more rows of each sentence
MIN_TOKENS = 16  # a shorter sentence counts as this many: its probabilities need memory too

# Where an overlong text is split: after sentences, else after words, else anywhere.
SPLIT_PATTERNS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (r".+?(?:[.!?…;:](?=\s)|[。！？]|$)\s*", r"\s*\S+\s*", r".")
)


@dataclass(frozen=True)
class Translation:
    """One translation and its score: log-probability divided by the length penalty."""

    text: str
    score: float
    num_parts: int = 1  # more than one: the sentence was too long and translated in parts


def max_target_tokens(num_source_tokens: int, max_length: int, max_ratio: float = 2.0) -> int:
    """Return the most tokens that the translation of a source of this length may have."""
    return min(max_length - 1, int(max_ratio * num_source_tokens) + EXTRA_TOKENS)


class SentenceDecoder:
    """Translates sentences by beam search with the tokenizers and the engine of one model."""

    def __init__(self, engine: Engine, tokenizers: TokenizerPair) -> None:
        self.engine, self.source, self.target = engine, tokenizers.source, tokenizers.target
        self.max_length = engine.config.max_length
        self.num_readable = self.max_length - 2  # tokens of a source, without its bos and eos
        num_ids = decoder_config(engine.config).vocab_size
        suppressed = self.target.suppressed_ids(num_ids)
        self.special = SpecialIds(self.target.bos, self.target.eos, suppressed)

    def translate(
        self,
        texts: Sequence[str],
        beam: Beam,
        n_best: int = 1,
        overlong: Overlong = "split",
        first_number: int = 1,
    ) -> list[list[Translation]]:
        """Return each text's translations, best first; an empty text stays empty.

        Errors number the texts from `first_number`.
        """
        check_choice("overlong", overlong, get_args(Overlong))
        if n_best < 1:
            raise WarmstartError(f"n_best {n_best} is not allowed: it must be at least 1")
        if n_best > beam.beam:
            raise WarmstartError(f"n_best {n_best} is more than beam {beam.beam}: widen the beam")
        if isinstance(texts, str):
            raise WarmstartError("translate takes a list of sentences, not one sentence")
        encoded = enumerate(zip(texts, self.source.encode(texts), strict=True), first_number)
        parts = []  # token ids of each text's parts
        for number, (text, ids) in encoded:
            if len(ids) > self.num_readable and text.strip() and overlong == "refuse":
                raise WarmstartError(
                    f"sentence {number}, which begins {text[:40]!r}, has {len(ids):,} tokens, this "
                    f"model reads {self.num_readable:,}; --overlong split translates it in parts"
                )
            parts.append(self._encode_parts(text, ids))
        sources = [ids for part_ids in parts for ids in part_ids]
        hypotheses = iter(self._search(sources, beam, n_best))
        return [self._join([next(hypotheses) for _ in part_ids], n_best) for part_ids in parts]

    def split(self, text: str) -> list[str]:
        """Split a text into as few parts as fit the model; only space between them is lost."""
        parts = [part.strip() for part in self._split(text, SPLIT_PATTERNS)]
        return [part for part in parts if part]

    def _encode_parts(self, text: str, ids: list[int]) -> list[list[int]]:
        """Return the token ids of a text, in as many parts as the model needs."""
        if not text.strip():
            return []
        is_overlong = len(ids) > self.num_readable
        parts = self.source.encode(self.split(text)) if is_overlong else [ids]
        return [[*self.source.start, *part, self.source.eos] for part in parts]

    def _split(self, text: str, patterns: Sequence[re.Pattern[str]]) -> list[str]:
        """Split a text that is too long; join neighbouring pieces as long as they fit the model."""
        if self._fits(text):
            return [text]
        if not patterns:
            raise WarmstartError(
                f"the character {text!r} alone has more tokens than the {self.num_readable:,} this "
                "model reads"
            )
        parts: list[str] = []
        for piece in patterns[0].findall(text):
            for part in self._split(piece, patterns[1:]):
                if parts and self._fits(parts[-1] + part):
                    parts[-1] += part
                else:
                    parts.append(part)
        return parts

    def _fits(self, text: str) -> bool:
        return len(self.source.encode([text.strip()])[0]) <= self.num_readable

    def _search(self, sources: list[list[int]], beam: Beam, n_best: int) -> list[list[Hypothesis]]:
        """Return the best hypotheses of every source."""
        best: list[list[Hypothesis]] = [[] for _ in sources]
        usual = BATCH_TOKENS[self.engine.runtime.device.type]
        batch_tokens = beam.batch_tokens or usual * USUAL_BEAM // max(USUAL_BEAM, beam.beam)
        for rows in _batches(sources, batch_tokens):
            batch = [sources[row] for row in rows]
            limits = [max_target_tokens(len(i), self.max_length, beam.max_ratio) for i in batch]
            results = translate_ids(self.engine, batch, limits, self.special, beam, n_best)
            for row, hypotheses in zip(rows, results, strict=True):
                best[row] = hypotheses
        return best

    def _join(self, parts: list[list[Hypothesis]], n_best: int) -> list[Translation]:
        """Join the hypotheses of the parts of a text to translations, best first."""
        if not parts:
            return [Translation("", 0.0)] * n_best
        translations = []
        for rank in range(max(len(hypotheses) for hypotheses in parts)):
            chosen = [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in parts]
            # A line break that the model generates must not start a new line of output.
            lines = [line for part in chosen for line in self.target.decode(part.ids).splitlines()]
            score = sum(part.score for part in chosen) / len(chosen)
            translations.append(Translation(" ".join(lines), score, len(chosen)))
        return translations


def _batches(sources: Sequence[Sequence[int]], batch_tokens: int) -> Iterator[list[int]]:
    """Yield the rows of batches within the budget, the longest sources first."""
    batch: list[int] = []
    longest = 0
    for row in sorted(range(len(sources)), key=lambda row: -len(sources[row])):
        longest = max(longest, len(sources[row]), MIN_TOKENS)
        if batch and (len(batch) + 1) * longest > batch_tokens:
            yield batch
            batch, longest = [], max(len(sources[row]), MIN_TOKENS)
        batch.append(row)
    if batch:
        yield batch
