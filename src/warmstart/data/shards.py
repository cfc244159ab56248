"""Shards of a corpus: encoded by several processes or machines, each written whole."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from warmstart import progress
from warmstart.data.corpus import Passage, RowCounts, TextSource, submitted_ahead
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
from warmstart.jsonfiles import read_object, typed
from warmstart.ray_cluster import RETRIES, RayCluster, refuse_other_code
from warmstart.tokenization.backends import load_tokenizer
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
    return typed(PackedFingerprints, read_object(file), file).unpack()


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


POLL_S = 0.5


def write_shards(
    source: TextSource,
    writer: ShardWriter,
    folder: Path,
    open_workers: "OpenWorkers | None",
    counts: dict[Path, RowCounts],
) -> list[Path]:
    """Write the shards that `folder` does not have yet; return all, in the order of the text.

    A single shard is written in this process, as are all without workers.
    """
    shards = cut(source.passages(counts))
    first = list(islice(shards, 2))
    make_folder(folder)
    with progress.bar("tokenizing", source.num_bytes, "B") as bar:
        if len(first) < 2 or open_workers is None:
            return [
                _written(shard, writer, folder, lambda s, f: writer.write(s, f, bar.advance))
                for shard in chain(first, shards)
            ]
        with closing(open_workers(writer, folder)) as workers:
            paths = []
            for shard, path in submitted_ahead(chain(first, shards), workers.submit, workers.num):
                bar.advance(shard.num_bytes)
                paths.append(path)
            return paths


def _written(
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
        return self._threads.submit(_written, shard, self.writer, self.folder, self.write)

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
    """Processes of this machine, which are started when they are needed."""

    def __init__(self, num: int, writer: ShardWriter, folder: Path) -> None:
        super().__init__(writer, folder, num)
        writer.tokenizer.save(folder)
        self._idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._all: list[subprocess.Popen[str]] = []

    def write(self, shard: Shard, folder: Path) -> None:
        with self._borrowed() as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            try:
                worker.stdin.write(json.dumps(to_request(shard, folder)) + "\n")
                worker.stdin.flush()
                answer = json.loads(worker.stdout.readline())
            except (BrokenPipeError, ValueError):
                raise LostProcessError(
                    f"a process that tokenized ended with code {worker.wait()}: there may be too "
                    "little memory for so many; lower --threads"
                ) from None
        if "error" in answer:
            raise WarmstartError(answer["error"])
        if "errno" in answer:
            raise OSError(answer["errno"], os.strerror(answer["errno"]), str(folder))

    @contextmanager
    def _borrowed(self) -> Iterator["subprocess.Popen[str]"]:
        try:
            worker = self._idle.get_nowait()
        except Empty:
            worker = _started(self.writer, self.folder)
            self._all.append(worker)
        try:
            yield worker
        finally:
            self._idle.put(worker)

    def stop(self) -> None:
        for worker in self._all:
            worker.kill()
            worker.wait()

    def close(self) -> None:
        super().close()
        for worker in self._all:
            worker.communicate()


def _started(writer: ShardWriter, folder: Path) -> "subprocess.Popen[str]":
    settings = [str(os.getpid()), str(folder), str(writer.held_out), str(writer.has_index)]
    return subprocess.Popen(
        [sys.executable, "-m", "warmstart.data.shards", *settings],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"},
        process_group=0,  # Ctrl-C is for the process that reads the text
    )


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


def main(parent: str, tokenizer: str, held_out: str, has_index: str) -> None:
    """Write every shard that is asked for, until there are no more requests."""
    Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    writer = ShardWriter(load_tokenizer(Path(tokenizer)), float(held_out), has_index == "True")
    for line in sys.stdin:
        answer: dict[str, object] = {}
        try:
            writer.write(*from_request(json.loads(line)))
        except WarmstartError as fault:
            answer["error"] = str(fault)
        except OSError as fault:  # a full disk, say
            answer["errno"] = fault.errno
        try:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(1)  # whoever asked is gone


def _end_with(parent: int) -> None:
    """End at once when the process that sends requests is gone."""
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
