"""Token files, and the index of sentences beside the tokens."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command_line import full_disk
from warmstart.data.corpus import source_of
from warmstart.data.prepare import prepare, read_prepared, write_tokens
from warmstart.data.sentences import SentenceFinder
from warmstart.data.shards import ShardWriter
from warmstart.data.token_file import SentenceFile, TokenFile, TokenWriter
from warmstart.errors import WarmstartError
from warmstart.tokenization.tokenizer import Tokenizer


@pytest.mark.parametrize(("vocab_size", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.uint32)])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data=st.data())
def test_round_trip(tmp_path: Path, vocab_size: int, dtype: type, data: st.DataObject) -> None:
    tokens = st.lists(st.integers(0, vocab_size - 1), max_size=20)
    texts = data.draw(st.lists(tokens, max_size=5))
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.bin"
    with TokenWriter(path, vocab_size) as writer:
        for text in texts:
            writer.write(text, num_bytes=3 * len(text))
    file = TokenFile(path)
    written = [token for text in texts for token in text]
    assert file.ids.tolist() == written
    assert file.ids.dtype == dtype
    assert file.num_tokens == len(written)
    assert file.num_bytes == 3 * len(written)


@pytest.mark.parametrize("change", [-1, -4, 2])
def test_a_file_of_another_size_is_refused(tmp_path: Path, change: int) -> None:
    path = tmp_path / "train.bin"
    with TokenWriter(path, 100) as writer:
        writer.write([5, 6, 7])
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + b"\0" * change)
    with pytest.raises(WarmstartError, match=r"train\.bin does not hold the 3 tokens"):
        TokenFile(path)


def test_a_writer_that_failed_leaves_no_finished_file(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    with pytest.raises(TypeError), TokenWriter(path, 100) as writer:
        writer.write([5], num_bytes=None)  # type: ignore[arg-type]
    assert not path.with_suffix(".json").exists()


def test_ids_outside_the_vocabulary_are_not_wrapped_around(tmp_path: Path) -> None:
    with TokenWriter(tmp_path / "train.bin", 100) as writer, pytest.raises(OverflowError):
        writer.write([2**16])


def test_a_full_disk_does_not_hide_the_error_before_it(tmp_path: Path) -> None:
    def write() -> None:
        with full_disk(), TokenWriter(tmp_path / "train.bin", 100) as writer:
            writer.write([5, 6, 7])
            raise WarmstartError("the real error")

    with pytest.raises(WarmstartError, match="the real error"):
        write()


BOOKS = [
    ["The first book begins. It goes on!", "A second paragraph without a stop", "The end."],
    ["The other book is short."],
    ["A third one. With two sentences. No, three."],
]


SENTENCES = [
    ["The first book begins.", "It goes on!", "A second paragraph without a stop", "The end."],
    ["The other book is short."],
    ["A third one.", "With two sentences.", "No, three."],
]


def _sentences(path: Path, tokenizer: Tokenizer) -> list[list[str]]:
    """Read the text back, document by document and sentence by sentence."""
    ids, index = TokenFile(path).ids, SentenceFile(path)
    documents = []
    for row in range(len(index.part_starts)):
        starts = index.starts[index.first_sentences[row] : index.stop_sentences[row]].tolist()
        assert starts[0] == index.part_starts[row]
        assert ids[starts[0] - 1] == tokenizer.bos
        assert ids[index.part_ends[row]] == tokenizer.eos
        edges = pairwise([*starts, int(index.part_ends[row])])
        documents.append([tokenizer.decode(ids[a:b].tolist()).strip() for a, b in edges])
    return documents


def test_sentences_are_where_the_index_says(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "books.txt").write_text("\n\n".join("\n".join(book) for book in BOOKS) + "\n")
    source = source_of([str(tmp_path / "books.txt")], "auto")
    path = tmp_path / "tokens.bin"
    write_tokens(source, tokenizer, path, SentenceFinder(tokenizer))
    assert _sentences(path, tokenizer) == SENTENCES
    assert SentenceFile(path).num_documents == 3
    plain = tmp_path / "plain.bin"
    write_tokens(source, tokenizer, plain)
    assert plain.read_bytes() == path.read_bytes()  # the tokens are the same without it
    assert not plain.with_suffix(".sentences").exists()


def test_a_long_document_remains_one_document(tokenizer: Tokenizer, tmp_path: Path) -> None:
    lines = [f"Line number {n} of the book. It goes on." for n in range(4000)]
    (tmp_path / "long.txt").write_text("\n".join(lines) + "\n\nThe other book. It is short.\n")
    source = source_of([str(tmp_path / "long.txt")], "blank")
    path = tmp_path / "tokens.bin"
    write_tokens(source, tokenizer, path, SentenceFinder(tokenizer))
    first, second = _sentences(path, tokenizer)
    assert first == [
        part for n in range(4000) for part in (f"Line number {n} of the book.", "It goes on.")
    ]
    assert second == ["The other book.", "It is short."]


def test_parts_around_held_out_text_share_a_document(tokenizer: Tokenizer, tmp_path: Path) -> None:
    lines = [f"Line {n} of the book is long. It goes on and on." for n in range(6500)]
    both = "\n".join(lines) + "\n\n" + "\n".join(lines[::-1]) + "\n"
    (tmp_path / "two.txt").write_text(both)
    source = source_of([str(tmp_path / "two.txt")], "blank")
    facts = prepare(source, None, ShardWriter(tokenizer, has_index=True), tmp_path / "cache")
    data = read_prepared(tmp_path / "cache", facts, has_index=True)
    assert data.train_index is not None
    assert data.valid_index is not None
    assert len(data.train_index.part_starts) > 2  # parts of the two documents
    assert data.train_index.num_documents == data.valid_index.num_documents == 2
    assert (np.diff(data.train_index.documents) >= 0).all()
