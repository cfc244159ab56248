"""Split texts into the tokens that a mask shows: a run's tokens, or the words for a preset."""

from collections.abc import Callable
from dataclasses import dataclass, field

from warmstart import progress
from warmstart.results.attention import readable
from warmstart.tokenization.tokenizer import Tokenizer


@dataclass
class MaskTexts:
    """Splits texts into labels and ids, between the ids of beginning and end."""

    max_length: int
    tokenizer: Tokenizer | None  # None: split at spaces
    prepare: Callable[[str], str]  # a text as the tokenizer takes it
    vocab: dict[str, int] = field(default_factory=lambda: {"<s>": 0, "</s>": 1})

    @property
    def bos(self) -> int:
        """Return the id at the beginning of a text."""
        return self.tokenizer.bos if self.tokenizer else 0

    @property
    def eos(self) -> int:
        """Return the id at the end of a text."""
        return self.tokenizer.eos if self.tokenizer else 1

    def split(self, text: str, has_end: bool) -> tuple[list[str], list[int]]:
        """Return the labels and ids of a text; one that is too long is cut."""
        if self.tokenizer is None:
            labels = ["<s>", *text.split(), *(["</s>"] if has_end else [])]
            return labels, [self.vocab.setdefault(word, len(self.vocab)) for word in labels]
        ids = self.tokenizer.encode([self.prepare(text)])[0]
        room = self.max_length - 1 - has_end
        if len(ids) > room:
            progress.say(f"the text has {len(ids):,} tokens; the first {room:,} are used")
        ids = [self.bos, *ids[:room], *([self.eos] if has_end else [])]
        return [readable(piece) for piece in self.tokenizer.labels(ids)], ids
