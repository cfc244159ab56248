from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.batching.batches import MaskedBatch
from warmstart.batching.masking import Corruption, MaskedStream, pairs_in_order, read_masked_rows
from warmstart.batching.packing import NextSentencePairs, PackedStream, RunningText
from warmstart.data.token_file import DocumentWriter, EncodedPassage, SentenceFile, TokenFile
from warmstart.errors import WarmstartError
from warmstart.tokenization.tokenizer import Tokenizer

BOS, PAD, EOS, UNK, MASK = range(5)


V = 60_000  # every token of a text is different, so a token shows its position


Document = Sequence[int]  # sizes of its sentences


documents = st.lists(
    st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=2, max_size=8
).filter(lambda texts: any(len(document) > 1 for document in texts))


class Text:
    """Documents on disk, with the document and sentence of every token."""

    def __init__(self, folder: Path, parts: Sequence[tuple[int, Document]]) -> None:
        path = folder / "text.bin"
        for file in folder.glob("text.*"):
            file.unlink()
        self.document: dict[int, int] = {}
        self.sentence: dict[int, int] = {}
        self.opens: set[int] = set()  # tokens that begin a sentence
        token = sentence = 5
        tokenizer = cast(Tokenizer, SimpleNamespace(vocab_size=V, bos=BOS, eos=EOS))
        with DocumentWriter(path, tokenizer, has_index=True) as writer:
            for document, sizes in parts:
                first = token
                starts = np.cumsum([0, *sizes[:-1]])
                self.opens.update((first + starts).tolist())
                for size in sizes:
                    for _ in range(size):
                        self.document[token], self.sentence[token] = document, sentence
                        token += 1
                    sentence += 1
                passage = EncodedPassage(list(range(first, token)), document, 0, starts)
                writer.add(passage, continues=False)
        self.tokens, self.sentences = TokenFile(path), SentenceFile(path)

    def running(self, length: int) -> RunningText:
        return RunningText(self.tokens.ids, length, BOS, EOS)

    def pairs(self, length: int, seed: int = 0) -> NextSentencePairs:
        return NextSentencePairs(self.tokens.ids, self.sentences, length, BOS, EOS, PAD, seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    rng = np.random.default_rng(0)
    found = [(n, rng.integers(1, 15, rng.integers(2, 60)).tolist()) for n in range(30)]
    return Text(tmp_path_factory.mktemp("text"), found)


def _segments(row: Sequence[int]) -> tuple[list[int], list[int]]:
    """Take a row apart: bos A eos B eos, then padding."""
    first = row.index(EOS)
    second = row.index(EOS, first + 1)
    assert row[0] == BOS
    assert set(row[second + 1 :]) <= {PAD}
    return list(row[1:first]), list(row[first + 1 : second])


def _is_running(tokens: Sequence[int]) -> bool:
    return list(tokens) == list(range(tokens[0], tokens[0] + len(tokens)))


@given(documents, st.integers(5, 40), st.integers(0, 9))
def test_positive_pairs_follow_and_negative_pairs_do_not(
    folder: Path, texts: list[Document], length: int, seed: int
) -> None:
    text = Text(folder, list(enumerate(texts)))
    pairs = text.pairs(length, seed)
    rows = pairs.rows(np.arange(2 * pairs.num_rows + 3))
    assert rows.classes is not None
    assert rows.segments is not None
    for ids, segments, kind in zip(rows.ids.tolist(), rows.segments, rows.classes, strict=True):
        a, b = _segments(ids)
        assert a
        assert b
        assert _is_running(a)  # of one document: its ends would show
        assert _is_running(b)
        assert a[-1] + 1 in text.opens  # the cut is where a sentence ends
        assert b[0] in text.opens
        if kind == 0:
            assert b[0] == a[-1] + 1
            assert text.document[a[-1]] == text.document[b[0]]
        else:
            assert text.document[a[-1]] != text.document[b[0]]
        expected = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        assert segments.tolist() == expected + [0] * (length - len(expected))
        if rows.is_token is not None:
            assert (rows.is_token.sum(1) == (rows.ids != PAD).sum(1)).all()


def test_half_of_the_pairs_are_positive(text: Text) -> None:
    classes = text.pairs(64).segments(np.arange(4000)).classes
    assert 0.47 < classes.mean() < 0.53


def test_rows_are_mostly_full(text: Text) -> None:
    pairs = text.pairs(32)
    assert pairs.num_tokens(2000) / (2000 * 32) > 0.9
    rows = pairs.rows(np.arange(2000))
    assert pairs.num_tokens(2000) == int((rows.ids != PAD).sum())


def test_the_second_segment_fills_a_quarter_of_the_row_where_it_can(text: Text) -> None:
    pairs = text.pairs(32)
    plan = pairs.segments(np.arange(4000))
    ends = text.sentences.part_ends
    to_end = ends[np.searchsorted(ends, plan.second)] - plan.second
    assert (plan.second_size >= np.minimum(to_end, (32 - 3) // 4)).all()


def test_all_text_is_seen_again_and_again(text: Text) -> None:
    pairs = text.pairs(32)
    rows = pairs.rows(np.arange(20 * pairs.num_rows))
    counts = np.bincount(rows.ids.ravel(), minlength=max(text.document) + 1)[5:]
    assert counts.mean() > 15
    assert counts.min() > 0.2 * counts.mean()
    assert counts.max() < 3 * counts.mean()


def test_parts_of_one_document_never_form_a_negative_pair(tmp_path: Path) -> None:
    """Text held out from its middle leaves a document in parts."""
    text = Text(tmp_path, [(1, [3, 4, 5]), (1, [2, 9]), (1, [4, 4]), (2, [6, 2, 2])])
    assert text.sentences.num_documents == 2
    rows = text.pairs(20).rows(np.arange(300))
    assert rows.classes is not None
    for ids, kind in zip(rows.ids.tolist(), rows.classes, strict=True):
        a, b = _segments(ids)
        assert (text.document[a[-1]] == text.document[b[0]]) == (kind == 0)


def test_epochs_and_seeds_differ(text: Text) -> None:
    pairs = text.pairs(32)
    num = pairs.num_rows
    one, two = pairs.rows(np.arange(num)), pairs.rows(np.arange(num, 2 * num))
    other = text.pairs(32, seed=1).rows(np.arange(num))
    cuts = [{tuple(row) for row in rows.ids.tolist()} for rows in (one, two, other)]
    assert len(cuts[0] & cuts[1]) < 0.2 * num
    assert len(cuts[0] & cuts[2]) < 0.2 * num


def _stream(text: Text, kind: str, rows_per_step: int, rows_per_batch: int) -> MaskedStream:
    corruption = Corruption(V, (BOS, PAD, EOS, UNK, MASK), MASK, 0.15, seed=3)
    if kind == "pairs":
        return MaskedStream(text.pairs(32), corruption, rows_per_step, rows_per_batch)
    if kind == "words":
        corruption = replace(corruption, begins=np.arange(V) % 2 == 0, alone=np.zeros(V, np.bool_))
    packed = PackedStream(text.running(32), rows_per_step, rows_per_batch, 3)
    return MaskedStream(packed, corruption, rows_per_step, rows_per_batch)


def _dealt(batches: Sequence[MaskedBatch]) -> list[tuple[object, ...]]:
    """Return the rows of batches with all that belongs to them."""
    rows = []
    for batch in batches:
        B, T = batch.ids.shape
        classes = [None] * B if batch.classes is None else batch.classes.tolist()
        columns = [batch.ids, batch.masked_positions, batch.targets, batch.segments, batch.is_token]
        columns += [batch.documents, batch.positions]
        plain = [None, None, None, [0] * T, [True] * T, [0] * T, list(range(T))]
        for row in range(B):
            lists = [
                plain[i] if c is None else c[row].tolist()  # absent means the plainest
                for i, c in enumerate(columns)
            ]
            rows.append((*map(tuple, filter(None, lists)), classes[row]))
    return rows


@pytest.mark.parametrize("kind", ["pairs", "rows", "words"])
@pytest.mark.parametrize(("per_step", "per_batch"), [(6, 1), (6, 4), (24, 24), (8, 3), (1, 1)])
def test_masks_and_pairs_do_not_depend_on_the_batch(
    text: Text, kind: str, per_step: int, per_batch: int
) -> None:
    """The k-th row of a run is the same for every batch size, micro batch and after a resume."""
    expected = _dealt([b for step in range(4) for b in _stream(text, kind, 6, 6).group(step)])
    steps = range(-(-24 // per_step))
    fresh = [_stream(text, kind, per_step, per_batch).group(step) for step in reversed(steps)]
    found = _dealt([batch for group in reversed(fresh) for batch in group])
    assert found[:24] == expected


def test_the_order_of_steps_does_not_matter_across_epochs(text: Text) -> None:
    walked = _stream(text, "pairs", 50, 50)
    last = 3 * text.pairs(32).num_rows // 50
    by_step = [_dealt(walked.group(step)) for step in range(last)]
    for step in (last - 1, 0, last // 2):
        assert _dealt(_stream(text, "pairs", 50, 20).group(step)) == by_step[step]


@pytest.mark.parametrize("rows_per_batch", [1, 3, 100])
def test_validation_is_always_the_same(text: Text, rows_per_batch: int) -> None:
    corruption = Corruption(V, (BOS, PAD, EOS, UNK, MASK), MASK, 0.15, seed=0)
    pairs = _dealt(list(pairs_in_order(text.pairs(32), 7, corruption)))
    assert _dealt(list(pairs_in_order(text.pairs(32), rows_per_batch, corruption))) == pairs
    assert len(pairs) == text.pairs(32).num_rows
    some = _dealt(list(pairs_in_order(text.pairs(32), rows_per_batch, corruption, limit=640)))
    assert len(some) == 20
    assert set(some) <= set(pairs)
    running = text.running(32)
    rows = _dealt(list(read_masked_rows(running, 7, corruption)))
    assert _dealt(list(read_masked_rows(running, rows_per_batch, corruption))) == rows


def test_an_index_that_was_cut_is_refused(tmp_path: Path) -> None:
    Text(tmp_path, [(1, [3, 4]), (2, [5])])
    path = tmp_path / "text.sentences"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(WarmstartError, match=r"text\.sentences does not hold"):
        SentenceFile(tmp_path / "text.bin")


def test_text_that_cannot_be_paired_says_so(tmp_path: Path) -> None:
    assert not Text(tmp_path, [(1, [3, 4])]).sentences.has_pairs
    assert not Text(tmp_path, [(1, [3]), (2, [4])]).sentences.has_pairs
    assert Text(tmp_path, [(1, [3]), (2, [4, 1])]).sentences.has_pairs
