"""Text files -> tokens on disk, in one stream, with what a later reader must know about them.

Knows nothing about models.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.data.corpus import Passage, Tally, expand, read_passages
from warmstart.data.encoding import EncodedPassage, encode_passages
from warmstart.data.overlap import Fingerprints, fingerprint
from warmstart.data.sentence_file import SentenceFile, SentenceWriter
from warmstart.data.sentences import SentenceFinder
from warmstart.data.token_file import TokenFile, TokenWriter
from warmstart.errors import WarmstartError
from warmstart.files import whole_folder
from warmstart.runs.lifecycle import file_facts
from warmstart.tokenization.pieces import join_pieces
from warmstart.tokenization.tokenizer import Tokenizer, train_tokenizer

HELD_OUT = (0.01, 0.1, 0.5)  # share kept for validation; the next when a corpus is too small


@dataclass(frozen=True)
class TextSource:
    """Which text, and what is a document in it."""

    files: tuple[Path, ...]
    document: str
    columns: tuple[str, ...]

    def passages(self, tallies: dict[Path, Tally] | None = None) -> Iterator[Passage]:
        """Stream all files in order, counting the rows of each."""
        for path in self.files:
            tally = Tally()
            yield from read_passages(path, self.document, self.columns, tally)
            if tallies is not None:
                tallies[path] = tally

    @property
    def num_bytes(self) -> int | None:
        """Return the size of the text, or None where compression hides it."""
        if any(path.suffix in (".gz", ".xz", ".bz2", ".zst", ".parquet") for path in self.files):
            return None
        return sum(path.stat().st_size for path in self.files)


def source_of(patterns: Sequence[str], document: str, columns: Sequence[str]) -> TextSource:
    """Find the files."""
    return TextSource(expand(patterns), document, tuple(columns))


def sample_tokenizer(source: TextSource, kind: str, vocab_size: int, sample_mb: int) -> Tokenizer:
    """Train a tokenizer on the passages that a stable choice by content puts in the sample."""
    limit = sample_mb * 1_000_000
    size = source.num_bytes
    if size is None:
        size = sum(len(row.encode()) for passage in source.passages() for row in passage.rows)
    share = min(1.0, limit / max(1, size))
    texts = ("\n".join(passage.rows) for passage in source.passages())
    sample = (text for text in texts if share == 1.0 or fingerprint(text) < share * 2**64)
    return train_tokenizer(sample, kind, vocab_size)


class _DocumentWriter:
    """Writes passages as documents, each between its first and last special token."""

    def __init__(
        self, file: TokenWriter, tokenizer: Tokenizer, index: SentenceWriter | None
    ) -> None:
        self.file, self.tokenizer, self.index = file, tokenizer, index
        self.is_open = False
        self.start = self.num_sentences = self.owner = 0

    def add(self, passage: EncodedPassage, continues: bool, owner: int) -> None:
        """Append a passage of the source's document number `owner`."""
        if not (continues and self.is_open):
            self.close()
            self.file.write([self.tokenizer.bos])
            self.is_open, self.start, self.num_sentences = True, self.file.num_tokens, 0
            self.owner = owner
        if self.index:
            self.index.add_sentences(self.file.num_tokens + passage.starts)
            self.num_sentences += len(passage.starts)
        self.file.write(passage.ids, passage.num_bytes)

    def close(self) -> None:
        """End the document."""
        if not self.is_open:
            return
        if self.index and self.num_sentences:
            stop = self.file.num_tokens
            self.index.end_document(self.start, stop, self.num_sentences, self.owner)
        self.file.write([self.tokenizer.eos])
        self.is_open = False


@contextmanager
def _documents(path: Path, tokenizer: Tokenizer, has_index: bool) -> Iterator[_DocumentWriter]:
    """Yield a writer of documents to a token file, with an index of sentences beside it."""
    with (
        TokenWriter(path, tokenizer.vocab_size) as file,
        SentenceWriter(path) if has_index else nullcontext() as index,
    ):
        writer = _DocumentWriter(file, tokenizer, index)
        yield writer
        writer.close()


@dataclass(frozen=True)
class Prepared:
    """Tokens to train on and to validate with, and the facts for data.json."""

    train: TokenFile
    valid: TokenFile
    facts: dict[str, Any]
    train_index: SentenceFile | None = None  # where sentences stand, if that was asked for
    valid_index: SentenceFile | None = None


def prepare(
    source: TextSource,
    valid: TextSource | None,
    tokenizer: Tokenizer,
    folder: Path,
    has_index: bool = False,
) -> dict[str, Any]:
    """Write train and validation tokens to `folder`, whole or not at all; return the facts.

    With `has_index` an index says where sentences stand, and pairs of them can be drawn.
    """
    finder = SentenceFinder(tokenizer) if has_index else None
    for share in (0.0,) if valid else HELD_OUT:
        with whole_folder(folder) as temporary:
            facts = _write_split(source, tokenizer, temporary, share, finder)
            if valid:
                facts["valid"] = write_tokens(valid, tokenizer, temporary / "valid.bin", finder)
            if has_index and share <= HELD_OUT[0]:
                check_pairs(temporary / "train.bin", source)
            if has_index and valid:
                check_pairs(temporary / "valid.bin", valid)
        if _is_enough(folder, has_index):
            break
    else:
        raise WarmstartError(
            f"{source.files[0]}: too little text to hold some out for validation; give --valid"
        )
    if TokenFile(folder / "train.bin").num_tokens < 2:
        raise WarmstartError(f"{source.files[0]}: no text is left to train on; give more")
    return facts


def _is_enough(folder: Path, has_index: bool) -> bool:
    """Tell whether text was held out, and where pairs are wanted, enough of it on both sides."""
    if not has_index:
        return TokenFile(folder / "valid.bin").num_tokens > 0
    return all(SentenceFile(folder / name).has_pairs for name in ("train.bin", "valid.bin"))


def check_pairs(path: Path, source: TextSource) -> None:
    """Refuse text that has no segments to pair."""
    index, files = SentenceFile(path), ", ".join(map(str, source.files[:3]))
    if index.num_documents < 2:
        raise WarmstartError(
            f"{files}: one document only, so no second segment can come from another: add "
            "--document line if a line is a document, or --no-nsp to restore masked tokens alone"
        )
    if not index.has_neighbours:
        raise WarmstartError(
            f"{files}: every document is a single sentence, so no segment has one that follows: "
            "add --document blank if documents are parted by blank lines, or --no-nsp"
        )


def read_prepared(folder: Path, facts: dict[str, Any], has_index: bool = False) -> Prepared:
    """Map prepared tokens into memory."""
    train, valid = folder / "train.bin", folder / "valid.bin"
    indices = [SentenceFile(path) if has_index else None for path in (train, valid)]
    return Prepared(TokenFile(train), TokenFile(valid), facts, *indices)


def write_tokens(
    source: TextSource, tokenizer: Tokenizer, path: Path, finder: SentenceFinder | None = None
) -> dict[str, Any]:
    """Write all text of a source as documents to one token file; return the facts."""
    tallies: dict[Path, Tally] = {}
    owner = 0
    with _documents(path, tokenizer, finder is not None) as writer:
        for passage in encode_passages(
            source.passages(tallies), source.num_bytes, tokenizer, finder
        ):
            owner += not passage.continues
            writer.add(passage, passage.continues, owner)
    file = writer.file
    return {**_facts(tallies), "tokens": file.num_tokens, "bytes": file.num_bytes}


def _write_split(
    source: TextSource,
    tokenizer: Tokenizer,
    folder: Path,
    held_out: float,
    finder: SentenceFinder | None,
) -> dict[str, Any]:
    """Write the passages that a stable choice by content holds out apart from the others."""
    tallies: dict[Path, Tally] = {}
    seen, owner = Fingerprints(), 0
    with (
        _documents(folder / "train.bin", tokenizer, finder is not None) as learn,
        _documents(folder / "valid.bin", tokenizer, finder is not None) as hold,
    ):
        for passage in encode_passages(
            source.passages(tallies), source.num_bytes, tokenizer, finder
        ):
            owner += not passage.continues
            if fingerprint("\n".join(passage.rows)) % 10_000 < held_out * 10_000:
                learn.close()  # what follows no longer joins what came before
                hold.add(passage, False, owner)
                continue
            learn.add(passage, passage.continues, owner)
            for row in passage.rows:
                seen.add(join_pieces(row) if tokenizer.kind == "pieces" else row)
    split = {"tokens": learn.file.num_tokens, "bytes": learn.file.num_bytes, "held_out": held_out}
    return {**_facts(tallies), **split, "fingerprints": seen.to_text()}


def _facts(tallies: dict[Path, Tally]) -> dict[str, Any]:
    skipped = {path: tally.skipped for path, tally in tallies.items() if tally.skipped}
    for path, count in skipped.items():
        progress.say(f"{path}: {count:,} empty rows of {tallies[path].rows:,} were skipped")
    rows = {path: tally.rows for path, tally in tallies.items()}
    return {"files": file_facts(rows), "rows": sum(rows.values()), "skipped": sum(skipped.values())}
