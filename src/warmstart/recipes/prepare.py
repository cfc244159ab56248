"""Text files -> tokens on disk, in one stream, with what a later reader must know about them.

Knows nothing about models.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmstart import progress
from warmstart.batches.token_file import TokenFile, TokenWriter
from warmstart.errors import WarmstartError
from warmstart.files import whole_folder
from warmstart.recipes.runs import file_facts
from warmstart.text.corpus import Passage, Tally, expand, read_passages
from warmstart.text.overlap import Fingerprints, fingerprint
from warmstart.text.pieces import join_pieces
from warmstart.text.tokenizer import Tokenizer, train_tokenizer

CHUNK_CHARS = 1 << 20  # encoded together
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
    share = 1.0 if size is None or size <= limit else limit / size

    def sample() -> Iterator[str]:
        taken = 0
        for passage in source.passages():
            text = "\n".join(passage.rows)
            if share == 1.0 or fingerprint(text) % 10_000 < share * 10_000:
                yield text
                taken += len(text)
            if taken > limit:
                return

    return train_tokenizer(sample(), kind, vocab_size)


class _DocumentWriter:
    """Writes passages as documents, each between its first and last special token."""

    def __init__(self, writer: TokenWriter, tokenizer: Tokenizer) -> None:
        self.writer, self.tokenizer = writer, tokenizer
        self.is_open = False

    def add(self, ids: list[int], num_bytes: int, continues: bool) -> None:
        if not (continues and self.is_open):
            self.close()
            self.writer.write([self.tokenizer.bos])
            self.is_open = True
        self.writer.write(ids, num_bytes)

    def close(self) -> None:
        if self.is_open:
            self.writer.write([self.tokenizer.eos])
            self.is_open = False


@dataclass(frozen=True)
class Prepared:
    """Tokens to train on and to validate with, and the facts for data.json."""

    train: TokenFile
    valid: TokenFile
    facts: dict[str, Any]


def prepare(
    source: TextSource, valid: TextSource | None, tokenizer: Tokenizer, folder: Path
) -> dict[str, Any]:
    """Write train and validation tokens to `folder`, whole or not at all; return the facts."""
    for share in (0.0,) if valid else HELD_OUT:
        with whole_folder(folder) as temporary:
            facts = _write_split(source, tokenizer, temporary, share)
            if valid:
                facts["valid"] = write_tokens(valid, tokenizer, temporary / "valid.bin")
        if TokenFile(folder / "valid.bin").num_tokens:
            break
    else:
        raise WarmstartError(
            f"{source.files[0]}: too little text to hold some out for validation; give --valid"
        )
    if TokenFile(folder / "train.bin").num_tokens < 2:
        raise WarmstartError(f"{source.files[0]}: no text is left to train on; give more")
    return facts


def read_prepared(folder: Path, facts: dict[str, Any]) -> Prepared:
    """Map prepared tokens into memory."""
    return Prepared(TokenFile(folder / "train.bin"), TokenFile(folder / "valid.bin"), facts)


def write_tokens(source: TextSource, tokenizer: Tokenizer, path: Path) -> dict[str, Any]:
    """Write all text of a source as documents to one token file; return the facts."""
    tallies: dict[Path, Tally] = {}
    with TokenWriter(path, tokenizer.vocab_size) as file:
        writer = _DocumentWriter(file, tokenizer)
        for passage, ids, num_bytes in _encoded(source, tokenizer, tallies):
            writer.add(ids, num_bytes, passage.continues)
        writer.close()
    return {**_facts(tallies), "tokens": file.num_tokens, "bytes": file.num_bytes}


def _write_split(
    source: TextSource, tokenizer: Tokenizer, folder: Path, held_out: float
) -> dict[str, Any]:
    """Write the passages that a stable choice by content holds out apart from the others."""
    tallies: dict[Path, Tally] = {}
    seen, size = Fingerprints(), tokenizer.vocab_size
    with (
        TokenWriter(folder / "train.bin", size) as train,
        TokenWriter(folder / "valid.bin", size) as valid,
    ):
        learn, hold = _DocumentWriter(train, tokenizer), _DocumentWriter(valid, tokenizer)
        for passage, ids, num_bytes in _encoded(source, tokenizer, tallies):
            if fingerprint("\n".join(passage.rows)) % 10_000 < held_out * 10_000:
                learn.close()  # what follows no longer joins what came before
                hold.add(ids, num_bytes, continues=False)
                continue
            learn.add(ids, num_bytes, passage.continues)
            for row in passage.rows:
                seen.add(join_pieces(row) if tokenizer.kind == "pieces" else row)
        learn.close()
        hold.close()
    split = {"tokens": train.num_tokens, "bytes": train.num_bytes, "held_out": held_out}
    return {**_facts(tallies), **split, "fingerprints": seen.to_text()}


def _facts(tallies: dict[Path, Tally]) -> dict[str, Any]:
    skipped = {path: tally.skipped for path, tally in tallies.items() if tally.skipped}
    for path, count in skipped.items():
        progress.say(f"{path}: {count:,} empty rows of {tallies[path].rows:,} were skipped")
    rows = {path: tally.rows for path, tally in tallies.items()}
    return {"files": file_facts(rows), "rows": sum(rows.values()), "skipped": sum(skipped.values())}


def _encoded(
    source: TextSource, tokenizer: Tokenizer, tallies: dict[Path, Tally]
) -> Iterator[tuple[Passage, list[int], int]]:
    """Yield every passage with its ids and its size in bytes, line end included."""
    with progress.bar("tokenizing", source.num_bytes, "B") as bar:
        for passages in _chunks(source.passages(tallies)):
            texts = ["\n".join(passage.rows) for passage in passages]
            sizes = [len(text.encode()) + 1 for text in texts]
            yield from zip(passages, tokenizer.encode(texts), sizes, strict=True)
            bar.advance(sum(sizes))


def _chunks(passages: Iterator[Passage]) -> Iterator[list[Passage]]:
    chunk: list[Passage] = []
    size = 0
    for passage in passages:
        chunk.append(passage)
        size += sum(len(row) for row in passage.rows)
        if size > CHUNK_CHARS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
