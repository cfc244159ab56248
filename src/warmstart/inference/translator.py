"""Sentences in, translations out: in batches of similar lengths, in the order given.

Knows nothing about run folders or files.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warmstart.decoding.beam import Beam, Hypothesis
from warmstart.decoding.engines import Engine, translate_ids
from warmstart.errors import WarmstartError
from warmstart.tokenization.tokenizer import Tokenizer

EXTRA = 10  # tokens a translation may have beyond its share of the source
LEAST = 16  # tokens that a shorter sentence counts as: it has probabilities to hold as well
# Where an overlong text is cut: after sentences, else after words, else anywhere.
CUTS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (r".+?(?:[.!?…;:](?=\s)|[。！？]|$)\s*", r"\s*\S+\s*", r".")
)


def most_tokens(source: int, max_length: int, max_ratio: float = 2.0) -> int:
    """Return how long the translation of so many tokens may become."""
    return min(max_length - 1, int(max_ratio * source) + EXTRA)


@dataclass(frozen=True)
class Translation:
    """One translation and how likely it is: its log-probability over its length penalty."""

    text: str
    score: float
    parts: int = 1  # that the sentence was translated in, being longer than the model reads


@dataclass(frozen=True)
class Translating:
    """A translator in use, with the tokenizers of both languages."""

    engine: Engine
    source: Tokenizer
    target: Tokenizer
    beam: Beam
    max_ratio: float = 2.0
    batch_tokens: int = 4096
    splits_overlong: bool = True

    def translate(self, texts: Sequence[str], first: int = 1) -> list[list[Translation]]:
        """Translate every text; an empty one stays empty. Refusals count texts from `first`."""
        if isinstance(texts, str):
            raise WarmstartError("translate takes a list of sentences, not one sentence")
        encoded = zip(texts, self.source.encode(texts), strict=True)
        parts = [self._parts(text, ids, n) for n, (text, ids) in enumerate(encoded, first)]
        flat = [ids for one in parts for ids in one]
        found = iter(self._translated(flat))
        return [self._joined([next(found) for _ in one]) for one in parts]

    def _parts(self, text: str, ids: list[int], number: int) -> list[list[int]]:
        """Return the ids of a text, in as many parts as the model can read."""
        if not text.strip():
            return []
        room = self.engine.model.config.max_length - 2
        if len(ids) <= room:
            return [self._marked(ids)]
        if not self.splits_overlong:
            raise WarmstartError(
                f"sentence {number}, which begins {text[:40]!r}, has {len(ids):,} tokens, this "
                f"model reads {room:,}; --overlong split translates it in parts"
            )
        return [self._marked(part) for part in self.source.encode(self._split(text, room))]

    def _marked(self, ids: list[int]) -> list[int]:
        return [self.source.bos, *ids, self.source.eos]

    def _split(self, text: str, room: int) -> list[str]:
        """Cut a text into as few parts as fit; nothing but space between them is lost."""
        parts = [part.strip() for part in self._filled(text, CUTS, room)]
        return [part for part in parts if part]

    def _filled(self, text: str, cuts: Sequence[re.Pattern[str]], room: int) -> list[str]:
        """Cut a text that does not fit, and join neighbouring pieces while they do."""
        if self._fits(text, room):
            return [text]
        if not cuts:
            raise WarmstartError(
                f"the character {text!r} alone has more tokens than the {room:,} this model reads"
            )
        filled: list[str] = []
        for piece in cuts[0].findall(text):
            for part in self._filled(piece, cuts[1:], room):
                if filled and self._fits(filled[-1] + part, room):
                    filled[-1] += part
                else:
                    filled.append(part)
        return filled

    def _fits(self, text: str, room: int) -> bool:
        return len(self.source.encode([text.strip()])[0]) <= room

    def _translated(self, sources: list[list[int]]) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in sources]
        marks = (self.source.pad, self.target.bos, self.target.eos)
        never = self.target.suppressed_ids(len(self.engine.model.embedding))
        max_length = self.engine.model.config.max_length
        for rows in self._batches(sources):
            batch = [sources[row] for row in rows]
            limits = [most_tokens(len(ids), max_length, self.max_ratio) for ids in batch]
            best = translate_ids(self.engine, batch, limits, marks, self.beam, never)
            for row, hypotheses in zip(rows, best, strict=True):
                found[row] = hypotheses
        return found

    def _batches(self, sources: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Cut rows, the longest first, into batches within the budget."""
        batch: list[int] = []
        longest = 0
        for row in sorted(range(len(sources)), key=lambda row: -len(sources[row])):
            longest = max(longest, len(sources[row]), LEAST)
            if batch and (len(batch) + 1) * longest > self.batch_tokens:
                yield batch
                batch, longest = [], max(len(sources[row]), LEAST)
            batch.append(row)
        if batch:
            yield batch

    def _joined(self, parts: list[list[Hypothesis]]) -> list[Translation]:
        """Return the translations of one text, best first, from those of its parts."""
        if not parts:
            return [Translation("", 0.0)] * self.beam.num_best
        num = max(len(part) for part in parts)
        ranked = [[part[min(rank, len(part) - 1)] for part in parts] for rank in range(num)]
        return [
            Translation(
                " ".join(line for one in chosen for line in self._lines(one)),
                sum(one.score for one in chosen) / len(chosen),
                len(chosen),
            )
            for chosen in ranked
        ]

    def _lines(self, one: Hypothesis) -> list[str]:
        """Return what was written, where a line would end cut in two."""
        return self.target.decode(one.ids).splitlines()
