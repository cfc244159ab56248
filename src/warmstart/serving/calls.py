"""What a request asks of a model. Requests with equal calls can be computed together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from warmstart.inference.text_model import TextModel


class Call(Protocol):
    """A function of a model and texts; hashable, and equal if it computes the same."""

    def __call__(
        self, model: TextModel, texts: Sequence[str], texts2: Sequence[str] | None
    ) -> Sequence[Any]:
        """Return one result for every text."""


@dataclass(frozen=True)
class VerbCall:
    """A verb that reads a list of texts, with its options."""

    verb: str
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(
        self, model: TextModel, texts: Sequence[str], texts2: Sequence[str] | None
    ) -> Sequence[Any]:
        seconds = {} if texts2 is None else {"texts2": texts2}
        results: Sequence[Any] = getattr(model, self.verb)(texts, **seconds, **dict(self.options))
        return results


@dataclass(frozen=True)
class AttentionCall:
    """The attention weights of each text, or of a translator on a given target."""

    target: str | None = None

    def __call__(
        self, model: TextModel, texts: Sequence[str], texts2: Sequence[str] | None
    ) -> Sequence[Any]:
        seconds: Sequence[str | None] = texts2 or [None] * len(texts)
        pairs = zip(texts, seconds, strict=True)
        return [model.attention(text, text2, self.target) for text, text2 in pairs]


def call(verb: str, **options: Any) -> VerbCall:
    """Return the call of a verb; options left out have the verb's own defaults."""
    return VerbCall(verb, tuple(sorted(options.items())))
