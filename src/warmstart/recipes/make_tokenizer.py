"""`tokenizer`: train a tokenizer on text."""

from dataclasses import dataclass
from pathlib import Path

from warmstart.data.corpus import source_of
from warmstart.data.prepare import sample_tokenizer
from warmstart.files import new_folder
from warmstart.settings.starting import TokenizerConfig


@dataclass(frozen=True)
class TokenizerResult:
    """The tokenizer that was written."""

    folder: Path
    vocab_size: int
    examples: tuple[str, ...]  # pieces of the first text


def make_tokenizer(config: TokenizerConfig) -> TokenizerResult:
    """Train a tokenizer on a bounded sample of text and write it to a folder."""
    folder = Path(config.out)
    with new_folder(folder) as temporary:
        source = source_of(config.files, config.document, config)
        tokenizer = sample_tokenizer(source, config.kind, config.vocab_size, config.sample_mb)
        tokenizer.save(temporary)
    first = next(source.passages()).rows[0][:80]
    pieces = tokenizer.pieces(tokenizer.encode([first])[0])
    return TokenizerResult(folder, tokenizer.vocab_size, tuple(pieces))
