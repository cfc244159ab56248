"""A tagger in use: the entities of texts, or the tags of their words."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from warmstart.data.labelled import Dataset, WordSpan
from warmstart.data.tagged import find_words, join_words
from warmstart.data.tags import marks_entities
from warmstart.evaluation.entities import EntitySpan, entity_spans
from warmstart.tasks.text_model import Predictions, TextSize, TransformerModel


@dataclass(frozen=True)
class Entity:
    """A part of a text with its label; plain tags make every word one."""

    text: str
    label: str
    start: int  # character of the text as it was given
    end: int  # the character after the last
    probability: float  # that all its words have their tags


@dataclass(frozen=True)
class TaggedText:
    """The entities of one text, in order."""

    entities: tuple[Entity, ...]

    @property
    def label(self) -> str:
        """Return the entities on one line."""
        return "; ".join(f"{entity.text} ({entity.label})" for entity in self.entities)

    def columns(self) -> dict[str, Any]:
        """Return the columns of a table."""
        entities = [asdict(entity) for entity in self.entities]
        rounded = [{**e, "probability": round(e["probability"], 6)} for e in entities]
        return {"label": self.label, "entities": rounded}


@dataclass(frozen=True, kw_only=True)
class Tagger(TransformerModel):
    """A model that finds entities in texts, or tags their words."""

    tag: Callable[[Dataset], list[tuple[list[str], list[float]]]]  # tags and probabilities
    classes: tuple[str, ...]  # the tags
    is_spaced: bool  # whether it was trained on words with spaces between all of them

    def predict(self, texts: Iterable[str], texts2: Iterable[str] | None = None) -> Predictions:
        """Return the entities of every text, with their characters in it."""
        texts, texts2 = self.check_texts(texts, texts2)
        words = list(map(find_words, texts))
        tagged = self.tag(self._dataset(texts, words)) if len(texts) else []
        return Predictions(
            TaggedText(tuple(find_entities(text, of_text, tags, shares)))
            for text, of_text, (tags, shares) in zip(texts, words, tagged, strict=True)
        )

    def _dataset(self, texts: Sequence[str], words: Sequence[Sequence[WordSpan]]) -> Dataset:
        if not self.is_spaced:
            return Dataset(texts=texts, words=words)
        pairs = zip(texts, words, strict=True)
        joined = [join_words([text[a:b] for a, b in of_text]) for text, of_text in pairs]
        return Dataset(texts=[text for text, _ in joined], words=[spans for _, spans in joined])

    def measure(self, texts: Sequence[str], texts2: Sequence[str] | None = None) -> list[TextSize]:
        """Count the tokens of each text; none is lost, because long texts are read in windows."""
        return [TextSize(len(ids)) for ids in self.tokenizer.encode(texts)]


def find_entities(
    text: str, words: Sequence[WordSpan], tags: Sequence[str], shares: Sequence[float]
) -> Iterator[Entity]:
    """Yield the entities that tags mark in a text; with plain tags, every word."""
    spans = [EntitySpan(word, word + 1, tag) for word, tag in enumerate(tags)]
    for first, last, label in entity_spans(tags) if marks_entities(tags) else spans:
        start, end = words[first][0], words[last - 1][1]
        yield Entity(text[start:end], label, start, end, math.prod(shares[first:last]))
