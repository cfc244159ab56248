"""Shards of a corpus: encoded by several processes or machines, each written whole."""

import hashlib
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from warmstart import progress
from warmstart.data.corpus import Passage, RowCounts, TextSource, submit_ahead
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
from warmstart.errors import LostProcessError, WarmstartError
from warmstart.files import make_folder, whole_folder, write_json, write_whole
from warmstart.jsonfiles import from_json, read_object
from warmstart.pool import ProcessPool, hide_script
from warmstart.ray_cluster import RETRIES, RayCluster, refuse_other_code
from warmstart.tokenization.tokenizer import Tokenizer, join_pieces
from warmstart.version import code_digest

# Small enough for every core to get some; a document that is twice as long is divided.
SHARD_CHARS = 1 << 22
TRAIN, VALID = "train.bin", "valid.bin"
_FINGERPRINTS = "fingerprints.json"


@dataclass(frozen=True)
class Shard:
    """Passages in the order of the text."""

    number: int
    num_documents: int  # that began before this shard
    passages: Sequence[Passage]

    @property
    def num_bytes(self) -> int:
        """Return the size of the text."""
        return sum(passage.num_bytes for passage in self.passages)


def cut(passages: Iterable[Passage], num_chars: int | None = None) -> Iterator[Shard]:
    """Divide text into shards, between documents unless one is far too long."""
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
        """Return the name of a shard's folder; all that its files depend on is in the name."""
        digest = self._digest.copy()
        digest.update(str(shard.num_documents).encode())
        for passage in shard.passages:
            rows = "\n".join(passage.rows)
            digest.update(f"\0{passage.continues}\0{rows}".encode("utf-8", "surrogatepass"))
        return f"{shard.number:06}-{digest.hexdigest()[:16]}"

    def write(
        self, shard: Shard, folder: Path, advance: Callable[[int], None] = lambda _: None
    ) -> None:
        """Write tokens for training and validation, and fingerprints of the training text."""
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


def join_shards(shards: Sequence[Path], folder: Path, names: Sequence[str]) -> Fingerprints:
    """Join the token files of these names of all shards; return the fingerprints."""
    for name in names:
        join_token_files([shard / name for shard in shards], folder / name)
    return join_fingerprints(_fingerprints(shard / _FINGERPRINTS) for shard in shards)


def _fingerprints(file: Path) -> Fingerprints:
    return from_json(PackedFingerprints, read_object(file), file).unpack()


def write_shards(
    source: TextSource,
    writer: ShardWriter,
    folder: Path,
    open_workers: "OpenWorkers | None",
    counts: dict[Path, RowCounts],
) -> list[Path]:
    """Write the shards that `folder` does not have yet; return all, in the order of the text.

    A single shard is written in this process, as are all shards if there are no workers.
    """
    shards = cut(source.passages(counts))
    first = list(islice(shards, 2))
    make_folder(folder)
    with progress.bar("tokenizing", source.num_bytes, "B") as bar:
        if len(first) < 2 or open_workers is None:
            return [
                _write_shard(shard, writer, folder, lambda s, f: writer.write(s, f, bar.advance))
                for shard in chain(first, shards)
            ]
        with closing(open_workers(writer, folder)) as workers:
            paths = []
            for shard, path in submit_ahead(chain(first, shards), workers.submit, workers.num):
                bar.advance(shard.num_bytes)
                paths.append(path)
            return paths


def _write_shard(
    shard: Shard, writer: ShardWriter, folder: Path, write: Callable[[Shard, Path], None]
) -> Path:
    """Write a shard, unless it is there already; return its folder."""
    path = folder / writer.name_of(shard)
    if not path.is_dir():
        with whole_folder(path) as temporary:
            write(shard, temporary)
    return path


class ShardWorkers(ABC):
    """Workers that write one shard at a time each; a thread waits for each of them."""

    def __init__(self, writer: ShardWriter, folder: Path, num: int) -> None:
        self.writer, self.folder, self.num = writer, folder, num
        self._threads = ThreadPoolExecutor(num)

    def submit(self, shard: Shard) -> "Future[Path]":
        """Let the next worker that has nothing to do write a shard."""
        return self._threads.submit(_write_shard, shard, self.writer, self.folder, self.write)

    def close(self) -> None:
        """End all work at once."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.stop()
        self._threads.shutdown()

    @abstractmethod
    def write(self, shard: Shard, folder: Path) -> None:
        """Write the files of a shard to an empty folder."""

    @abstractmethod
    def stop(self) -> None:
        """End what the workers are doing."""


OpenWorkers = Callable[[ShardWriter, Path], ShardWorkers]


class LocalWorkers(ShardWorkers):
    """Processes of this machine."""

    def __init__(self, num: int, writer: ShardWriter, folder: Path) -> None:
        super().__init__(writer, folder, num)
        self.pool = ProcessPool(num, _begin_work, replace(writer))  # without what it has cached

    def write(self, shard: Shard, folder: Path) -> None:
        try:
            with hide_script():
                future = self.pool.submit(_write_in_worker, shard, folder)
            future.result()
        except BrokenExecutor:
            raise LostProcessError(
                "a process that tokenized was lost: there may be too little memory for so many; "
                "lower --threads"
            ) from None

    def stop(self) -> None:
        self.pool.close()


_own_writer: ShardWriter | None = None  # of a process that only writes shards


def _begin_work(writer: ShardWriter) -> None:
    global _own_writer
    _own_writer = writer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is a process for each core


def _write_in_worker(shard: Shard, folder: Path) -> None:
    assert _own_writer is not None
    _own_writer.write(shard, folder)


class RayWorkers(ShardWorkers):
    """One worker for each CPU of a cluster."""

    def __init__(self, cluster: RayCluster, writer: ShardWriter, folder: Path) -> None:
        if not cluster.has_room(CPU=1):
            raise WarmstartError("no machine of the Ray cluster has a CPU to tokenize with")
        super().__init__(writer, folder, int(cluster.total("CPU")))
        self._cluster = cluster
        self._files_of = cluster.task(files_of)
        self._shared = cluster.put(replace(writer))  # without what it has cached

    def write(self, shard: Shard, folder: Path) -> None:
        try:
            files = self._files_of(code_digest(), self._shared, shard).result()
        except self._cluster.losses as fault:
            raise LostProcessError(
                f"a part of the text was sent to {RETRIES + 1} workers of the Ray cluster, and all "
                f"were lost ({type(fault).__name__}), perhaps for lack of memory"
            ) from None
        for name, content in files.items():
            write_whole(folder / name, content)

    def stop(self) -> None:
        self._cluster.cancel()


def files_of(code: bytes, writer: ShardWriter, shard: Shard) -> dict[str, bytes]:
    """Return the files of a shard by name."""
    refuse_other_code(code)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # there is a worker for each CPU
    with tempfile.TemporaryDirectory(prefix="warmstart-shard-") as folder:
        writer.write(shard, Path(folder))
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}
