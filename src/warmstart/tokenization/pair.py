"""The tokenizers of the source and the target language."""

from dataclasses import dataclass
from pathlib import Path

from warmstart.tokenization.load_tokenizer import load_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer

TARGET_FOLDER = "target"  # inside a run, where the target has a tokenizer of its own


@dataclass(frozen=True)
class TokenizerPair:
    """Source and target tokenizers; one object when the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def is_joint(self) -> bool:
        """Tell whether both languages share one vocabulary."""
        return self.source is self.target

    @property
    def pads(self) -> tuple[int, int]:
        return self.source.pad, self.target.pad

    def save(self, folder: Path) -> None:
        self.source.save(folder)
        if not self.is_joint:
            self.target.save(folder / TARGET_FOLDER)


def load_tokenizer_pair(folder: Path) -> TokenizerPair:
    """Read the tokenizers of a run folder."""
    source = load_tokenizer(folder)
    has_own = (folder / TARGET_FOLDER).is_dir()
    return TokenizerPair(source, load_tokenizer(folder / TARGET_FOLDER) if has_own else source)
