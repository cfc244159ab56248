"""Held-out text for language models: token files of a test, and which rows were seen before."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from warmstart.data.corpus import TextSource, source_of
from warmstart.data.fingerprints import fingerprints_of
from warmstart.data.overlap import count_seen, find_matches
from warmstart.data.prepare import write_tokens
from warmstart.data.sentences import SentenceFinder
from warmstart.data.token_file import TokenFile
from warmstart.runs.saved import SavedRun
from warmstart.settings.using import EvaluateConfig
from warmstart.tokenization.tokenizer import Tokenizer

BATCH_TOKENS = 16_384  # read together when a language model is evaluated


@dataclass(frozen=True)
class HeldOutText:
    """A test file as tokens."""

    source: TextSource
    path: Path  # of the token file
    file: TokenFile

    def rows_seen(self, run: SavedRun) -> dict[str, int]:
        """Count the rows of text, and those that also occur in the run's training text."""
        rows = fingerprints_of(row for passage in self.source.passages() for row in passage.rows)
        return {"rows": len(rows), **count_seen(find_matches(rows, run.texts_seen()))}


@contextmanager
def held_out_text(
    settings: EvaluateConfig, tokenizer: Tokenizer, finder: SentenceFinder | None = None
) -> Iterator[HeldOutText]:
    """Yield the test file as tokens, with an index of sentences where a finder is given."""
    source = source_of([settings.test or ""], settings.document, settings)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "test.bin"
        write_tokens(source, tokenizer, path, finder)
        yield HeldOutText(source, path, TokenFile(path))
