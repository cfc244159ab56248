"""How much generated text resembles the text that a model was trained on."""

from collections.abc import Iterable
from itertools import pairwise


class WordPairs:
    """The pairs of neighbouring words of a text."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._known = {pair for line in lines for pair in pairwise(line.split())}

    def known_share(self, text: str) -> float:
        """Return the share of a text's pairs that occur here; a text without pairs has none."""
        pairs = list(pairwise(text.split()))
        return sum(pair in self._known for pair in pairs) / max(1, len(pairs))
