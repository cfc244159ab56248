"""A corpus in shards: the same tokens by any number of processes, and after any interruption."""

import os
import signal
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data import shards
from warmstart.data.corpus import Passage, source_of
from warmstart.data.fingerprints import TextSample
from warmstart.data.prepare import prepare, workers_of
from warmstart.data.shards import LocalWorkers, Shard, ShardWriter, cut
from warmstart.errors import LostProcessError, WarmstartError
from warmstart.tokenization.backends import train_tokenizer
from warmstart.tokenization.tokenizer import Tokenizer

BOOKS = [f"Book {n} begins. It is short.\nIts last line, number {n}." for n in range(400)]
SHARD_CHARS = 3_000


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "books.txt"
    path.write_text("\n\n".join(BOOKS) + "\n")
    return path


def _prepare(
    text: Path, tokenizer: Tokenizer, folder: Path, num_processes: int = 1
) -> dict[str, bytes]:
    """Prepare a text; return the content of every file that was written."""
    writer = ShardWriter(tokenizer, has_index=True)
    with workers_of(None, num_processes) as workers:
        facts = prepare(source_of([str(text)], "blank"), None, writer, folder, workers)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {**files, "facts": repr(facts).encode()}


def _written(folder: Path) -> dict[str, int]:
    """Return when each shard beside a folder was written."""
    found = [path for path in (folder.parent / "shards").iterdir() if path.is_dir()]
    return {path.name: path.stat().st_mtime_ns for path in found}


@pytest.mark.parametrize("num_processes", [1, 2])
def test_tokens_do_not_depend_on_shards_and_processes(
    num_processes: int,
    text: Path,
    tokenizer: Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = _prepare(text, tokenizer, tmp_path / "whole" / "cache")
    monkeypatch.setattr(shards, "SHARD_CHARS", SHARD_CHARS)
    parts = _prepare(text, tokenizer, tmp_path / "parts" / "cache", num_processes)
    assert len(_written(tmp_path / "parts" / "cache")) > 5
    assert parts == whole


def test_finished_shards_are_used_again(
    text: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARS", SHARD_CHARS)
    expected = _prepare(text, tokenizer, tmp_path / "alone" / "cache")
    content = text.read_bytes()
    text.write_bytes(content[:12_000] + b"\xff" + content[12_000:])
    folder = tmp_path / "again" / "cache"
    with pytest.raises(WarmstartError, match="is not UTF-8"):
        _prepare(text, tokenizer, folder)
    assert not folder.exists()
    finished = _written(folder)
    assert len(finished) >= 2
    text.write_bytes(content)
    assert _prepare(text, tokenizer, folder) == expected
    assert finished.items() < _written(folder).items()


def test_a_changed_text_or_tokenizer_is_tokenized_again(
    text: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SHARD_CHARS", SHARD_CHARS)
    other = train_tokenizer(BOOKS[:9], "bpe", 300)
    first, *_ = cut(source_of([str(text)], "blank").passages())
    changed = Shard(first.number, first.num_documents, first.passages[1:])
    names = {
        ShardWriter(tokenizer).name_of(first),
        ShardWriter(tokenizer).name_of(changed),
        ShardWriter(tokenizer, 0.1).name_of(first),
        ShardWriter(tokenizer, has_index=True).name_of(first),
        ShardWriter(other).name_of(first),
    }
    assert len(names) == 5


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans())), st.integers(1, 40))
def test_text_is_cut_between_documents(sizes: list[tuple[int, bool]], limit: int) -> None:
    passages = [Passage(("a" * size,), continues) for size, continues in sizes]
    made = list(cut(passages, limit))
    assert [passage for shard in made for passage in shard.passages] == passages
    num_documents = 0
    for number, shard in enumerate(made):
        assert shard.number == number
        assert shard.num_documents == num_documents
        num_documents += sum(not passage.continues for passage in shard.passages)
        size = sum(passage.num_chars for passage in shard.passages)
        assert size < 2 * limit + 30
        if number + 1 < len(made):
            is_split = made[number + 1].passages[0].continues
            assert size >= (2 * limit if is_split else limit)


def test_a_lost_process_is_one_sentence(text: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    (shard,) = cut(source_of([str(text)], "blank").passages())
    (tmp_path / "shards").mkdir()
    with closing(LocalWorkers(1, ShardWriter(tokenizer), tmp_path / "shards")) as workers:
        os.kill(workers.pool.submit(os.getpid).result(), signal.SIGKILL)
        with pytest.raises(LostProcessError, match="a process that tokenized was lost"):
            workers.submit(shard).result()
    assert _written(tmp_path / "shards") == {}


def test_a_fault_in_a_process_is_raised_here(tokenizer: Tokenizer, tmp_path: Path) -> None:
    shard = Shard(0, 0, [Passage(("a book",), False)])
    with (
        closing(LocalWorkers(1, ShardWriter(tokenizer), tmp_path)) as workers,
        pytest.raises(FileNotFoundError),
    ):
        workers.write(shard, tmp_path / "absent")


@given(st.lists(st.lists(st.integers(0, 2**48 - 1), min_size=1), min_size=1), st.randoms())
def test_a_sample_of_texts_is_bounded_and_does_not_depend_on_their_order(
    parts: list[list[int]], random: Random
) -> None:
    def kept(lists: list[list[int]]) -> list[int]:
        sample = TextSample(capacity=8)
        for codes in lists:
            sample.add(np.array(codes, np.uint64))
        return sample.codes().tolist()

    everything = sorted({code for codes in parts for code in codes})
    sample = kept(parts)
    assert len(sample) <= 8
    assert sample == everything[: len(sample)]
    assert len(everything) > 8 or sample == everything
    assert kept(random.sample(parts, len(parts))) == sample
