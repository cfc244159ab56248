"""Shards: parts of a corpus that are tokenized one by one, by any number of processes, and joined.

A shard is a folder, written whole or not at all. Its name tells its place and what it was made of,
so a preparation that was interrupted finds those that it has finished.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from warmstart.data.corpus import Passage
from warmstart.data.fingerprints import (
    Fingerprints,
    FingerprintWriter,
    PackedFingerprints,
    code_of,
    join_fingerprints,
    normalise,
)
from warmstart.data.sentences import SentenceFinder
from warmstart.data.token_file import DocumentWriter, encode, join_token_files
from warmstart.files import write_json
from warmstart.jsonfiles import read_object, typed
from warmstart.tokenization.tokenizer import Tokenizer, join_pieces
from warmstart.version import code_digest

# Few enough for every core to have some; a document that is twice as long is divided.
SHARD_CHARS = 1 << 22
TRAIN, VALID = "train.bin", "valid.bin"
_FINGERPRINTS = "fingerprints.json"


@dataclass(frozen=True)
class Shard:
    """Passages in the order of the text."""

    number: int
    num_documents: int  # that began before it
    passages: Sequence[Passage]

    @property
    def num_bytes(self) -> int:
        """Return the size of its text."""
        return sum(passage.num_bytes for passage in self.passages)


def cut(passages: Iterable[Passage], num_chars: int | None = None) -> Iterator[Shard]:
    """Divide text into shards, between documents where these are not far too long."""
    limit = num_chars or SHARD_CHARS
    number = num_documents = size = 0
    shard: list[Passage] = []
    for passage in passages:
        if size >= (2 * limit if passage.continues else limit):
            yield Shard(number, num_documents, shard)
            number += 1
            num_documents += sum(not earlier.continues for earlier in shard)
            shard, size = [], 0
        shard.append(passage)
        size += passage.num_chars
    if shard:
        yield Shard(number, num_documents, shard)


@dataclass(frozen=True)
class ShardWriter:
    """How shards are written: the same in every process."""

    tokenizer: Tokenizer
    held_out: float = 0.0  # share of the passages for validation, chosen by their content
    has_index: bool = False  # of sentences, for next-sentence pairs

    @cached_property
    def finder(self) -> SentenceFinder | None:
        return SentenceFinder(self.tokenizer) if self.has_index else None

    @cached_property
    def _digest(self) -> "hashlib._Hash":
        settings = f"{self.tokenizer.fingerprint()} {self.held_out} {self.has_index}"
        return hashlib.sha256(code_digest() + settings.encode())

    def name_of(self, shard: Shard) -> str:
        """Return the name of a shard's folder: another one, if anything in it would differ."""
        digest = self._digest.copy()
        digest.update(str(shard.num_documents).encode())
        for passage in shard.passages:
            rows = "\n".join(passage.rows)
            digest.update(f"\0{passage.continues}\0{rows}".encode("utf-8", "surrogatepass"))
        return f"{shard.number:06}-{digest.hexdigest()[:16]}"

    def write(
        self, shard: Shard, folder: Path, advance: Callable[[int], None] = lambda _: None
    ) -> None:
        """Write tokens for training and for validation, and what is kept of the training text."""
        seen, is_split = FingerprintWriter(), self.tokenizer.kind == "pieces"
        with ExitStack() as stack:
            train, valid = (
                stack.enter_context(DocumentWriter(folder / name, self.tokenizer, self.has_index))
                for name in (TRAIN, VALID)
            )
            start = shard.num_documents
            for passage, tokens in encode(
                shard.passages, self.tokenizer, self.finder, start, advance
            ):
                rows = [normalise(join_pieces(row) if is_split else row) for row in passage.rows]
                if code_of(" ".join(rows)) % 10_000 < self.held_out * 10_000:
                    train.end_document()  # the text before and after the passage is not contiguous
                    seen.end_document()
                    valid.add(tokens, continues=False)
                else:
                    train.add(tokens, passage.continues)
                    seen.add(rows, passage.continues)
        write_json(folder / _FINGERPRINTS, seen.finish().to_json())


def join_shards(shards: Sequence[Path], folder: Path) -> Fingerprints:
    """Write the tokens of all shards to one file for training and one for validation."""
    for name in (TRAIN, VALID):
        join_token_files([shard / name for shard in shards], folder / name)
    return join_fingerprints(_fingerprints(shard / _FINGERPRINTS) for shard in shards)


def _fingerprints(file: Path) -> Fingerprints:
    return typed(PackedFingerprints, read_object(file), file).unpacked()


def to_request(shard: Shard, folder: Path) -> dict[str, Any]:
    """Return a shard, and the folder to write it to, as JSON for another process."""
    passages = [(passage.rows, passage.continues) for passage in shard.passages]
    request = {"number": shard.number, "num_documents": shard.num_documents}
    return {"folder": str(folder), **request, "passages": passages}


def from_request(request: dict[str, Any]) -> tuple[Shard, Path]:
    """Return the shard that another process sent, and the folder to write it to."""
    passages = [Passage(tuple(rows), continues) for rows, continues in request["passages"]]
    shard = Shard(request["number"], request["num_documents"], passages)
    return shard, Path(request["folder"])
