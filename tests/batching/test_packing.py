"""Rows of packed documents, drawn by seed and step alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warmstart.batching.batches import (
    LabelledBatch,
    LabelledStream,
    PackedBatch,
    cut_to_budget,
    pad_texts,
)
from warmstart.batching.packing import PackedStream, RunningText, pack, read_packed_rows
from warmstart.kernels.loss import IGNORE
from warmstart.seeds import permutation

documents = st.lists(st.lists(st.integers(3, 9), min_size=1, max_size=6), min_size=1, max_size=8)


def _running_text(texts: list[list[int]], bos: int, eos: int) -> tuple[list[int], list[int]]:
    """Return the tokens and, beside each, the number of the document it belongs to."""
    whole = [[bos, *text, eos] for text in texts]
    ids = [token for document in whole for token in document]
    owners = [number for number, document in enumerate(whole) for _ in document]
    return ids, owners


@pytest.mark.parametrize("eos", [2, 1], ids=["own-eos", "eos-is-bos"])
@given(texts=documents, start=st.integers(0, 9), length=st.integers(1, 12))
def test_pack_equals_a_slow_reference(
    texts: list[list[int]], start: int, length: int, eos: int
) -> None:
    bos = 1
    ids, owners = _running_text(texts, bos, eos)
    row, owner = ids[start : start + length + 1], owners[start : start + length + 1]
    if len(row) < 2:
        return
    batch = pack(torch.tensor([row]), bos, eos)
    T = len(row) - 1
    assert batch.ids.tolist() == [row[:T]]
    same = [owner[t] == owner[t + 1] for t in range(T)]
    assert batch.targets.tolist() == [[row[t + 1] if same[t] else IGNORE for t in range(T)]]
    assert batch.documents.tolist() == [[owner[t] - owner[0] for t in range(T)]]
    assert batch.positions.tolist() == [
        [sum(owner[s] == owner[t] for s in range(t)) for t in range(T)]
    ]


def test_rows_are_packed_one_by_one() -> None:
    rows = torch.tensor([[1, 5, 2, 1, 6], [5, 5, 5, 2, 1], [2, 1, 7, 2, 1]])
    together = pack(rows, 1, 2)
    for number in range(3):
        alone = pack(rows[number : number + 1], 1, 2)
        for name in ("ids", "targets", "documents", "positions"):
            assert torch.equal(getattr(together, name)[number], getattr(alone, name)[0])
    assert together.targets[1].tolist() == [5, 5, 2, IGNORE]  # nobody predicts a new beginning


T = 5


RUNNING = np.arange(10, 10 + 83, dtype=np.uint16)  # every token once, so a token shows its position


lengths = st.lists(st.integers(2, 30), min_size=1, max_size=120)


def _stream(rows_per_batch: int = 3, seed: int = 0, rows_per_step: int = 4) -> PackedStream:
    return PackedStream(RunningText(RUNNING, T, bos=1, eos=2), rows_per_step, rows_per_batch, seed)


def _rows(stream: PackedStream, first: int, last: int) -> list[list[int]]:
    """Return rows number `first` to `last` of the stream as it deals them out."""
    steps = range(first // stream.rows_per_step, -(-last // stream.rows_per_step))
    dealt = [row for s in steps for batch in stream.group(s) for row in batch.ids.tolist()]
    skipped = steps.start * stream.rows_per_step
    return dealt[first - skipped : last - skipped]


def _equal(one: PackedBatch | LabelledBatch, other: PackedBatch | LabelledBatch) -> bool:
    pairs = zip(vars(one).values(), vars(other).values(), strict=True)
    return all(a is b or torch.equal(a, b) for a, b in pairs)


def test_a_step_has_its_batches_whatever_came_before() -> None:
    walked = _stream()
    by_step = [walked.group(step) for step in range(12)]
    for step in (11, 3, 0, 7):
        fresh = _stream().group(step)
        assert len(fresh) == len(by_step[step]) == 2
        assert all(map(_equal, fresh, by_step[step]))


@pytest.mark.parametrize("rows_per_batch", [1, 2, 4, 100])
def test_the_cut_into_batches_changes_no_row(rows_per_batch: int) -> None:
    assert _rows(_stream(rows_per_batch), 0, 60) == _rows(_stream(), 0, 60)


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_an_epoch_deals_every_row_once(epoch: int) -> None:
    stream = _stream()
    num = stream.num_rows
    rows = _rows(stream, epoch * num, (epoch + 1) * num)
    tokens = sorted(token for row in rows for token in row)
    assert tokens == list(range(tokens[0], tokens[0] + num * T))  # no gap, nothing twice


def test_epochs_and_seeds_differ() -> None:
    stream, num = _stream(), _stream().num_rows
    epochs = [_rows(stream, epoch * num, (epoch + 1) * num) for epoch in range(6)]
    assert len({tuple(map(tuple, epoch)) for epoch in epochs}) == 6
    assert len({min(min(row) for row in epoch) for epoch in epochs}) > 1  # the offset moves
    assert _rows(_stream(seed=1), 0, num) != epochs[0]


def test_every_token_is_a_target_in_some_epoch() -> None:
    stream = _stream()
    seen = {
        int(token)
        for step in range(30 * stream.num_rows)
        for batch in stream.group(step)
        for token in batch.targets.flatten()
    }
    assert seen == set(range(11, 93))


@given(st.integers(2, 40), st.integers(1, 12), st.integers(1, 5), st.integers(0, 3))
def test_rows_are_full_and_inside_the_text(size: int, length: int, rows: int, seed: int) -> None:
    ids = np.arange(10, 10 + size, dtype=np.uint16)
    stream = PackedStream(RunningText(ids, length, bos=1, eos=2), rows, 2, seed)
    for step in range(6):
        for batch in stream.group(step):
            assert batch.ids.shape[1] == min(length, size - 1)
            assert torch.equal(batch.targets, batch.ids + 1)


@given(st.integers(2, 60), st.integers(1, 12), st.integers(1, 5))
def test_in_order_covers_each_target_once(size: int, length: int, rows_per_batch: int) -> None:
    ids = np.arange(10, 10 + size, dtype=np.uint16)
    batches = list(read_packed_rows(RunningText(ids, length, bos=1, eos=2), rows_per_batch))
    targets = [int(token) for batch in batches for token in batch.targets.flatten()]
    assert targets == list(range(11, 10 + size))
    assert all(torch.equal(batch.targets, batch.ids + 1) for batch in batches)
    assert all(len(batch.ids) <= rows_per_batch for batch in batches)


@given(st.integers(2, 200), st.integers(1, 12), st.integers(1, 100))
def test_a_limit_takes_spaced_rows_once(size: int, length: int, limit: int) -> None:
    ids = np.arange(10, 10 + size, dtype=np.uint16)
    batches = list(read_packed_rows(RunningText(ids, length, bos=1, eos=2), 3, limit))
    targets = [int(token) for batch in batches for token in batch.targets.flatten()]
    assert targets
    assert len(set(targets)) == len(targets)
    assert len(targets) <= max(limit, length)
    if limit >= size + length:
        assert len(targets) == size - 1


def test_document_ends_are_not_targets() -> None:
    ids = np.array([1, 5, 2, 1, 6, 7, 2], dtype=np.uint16)
    (batch,) = read_packed_rows(RunningText(ids, 10, bos=1, eos=2), 1)
    assert _equal(batch, pack(torch.tensor(ids[None].astype(np.int64)), 1, 2))
    assert batch.targets.tolist() == [[5, 2, IGNORE, 6, 7, 2]]


def _labelled(sizes: list[int], batch_size: int, micro_tokens: int = 60) -> LabelledStream:
    texts = [[1, *([3 + row % 7] * (size - 2)), 2] for row, size in enumerate(sizes)]
    classes = list(range(len(texts)))  # a class tells the text
    return LabelledStream(texts, classes, batch_size, micro_tokens, pad=0, seed=0)


@given(lengths, st.integers(1, 9), st.integers(0, 3))
def test_every_text_once_an_epoch(sizes: list[int], batch_size: int, epoch: int) -> None:
    stream = _labelled(sizes, batch_size)
    steps = range(epoch * stream.steps_per_epoch, (epoch + 1) * stream.steps_per_epoch)
    groups = [stream.group(step) for step in steps]
    dealt = [int(k) for group in groups for batch in group for k in batch.targets]
    assert sorted(dealt) == list(range(len(sizes)))
    num_texts = [sum(len(batch.ids) for batch in group) for group in groups]
    assert all(1 <= num <= batch_size for num in num_texts)
    assert max(num_texts) - min(num_texts) <= 1  # every text weighs about the same
    for batch in (batch for group in groups for batch in group):
        assert batch.ids.numel() <= 60 or len(batch.ids) == 1
        for row, k in enumerate(batch.targets.tolist()):
            text = batch.ids[row][batch.is_token[row]].tolist()
            assert text == list(stream.texts[k])
            assert (batch.ids[row][~batch.is_token[row]] == 0).all()


@given(lengths, st.integers(1, 9))
def test_labelled_steps_need_no_replay(sizes: list[int], batch_size: int) -> None:
    walked = _labelled(sizes, batch_size)
    by_step = [walked.group(step) for step in range(2 * walked.steps_per_epoch)]
    for step in reversed(range(len(by_step))):
        assert all(map(_equal, _labelled(sizes, batch_size).group(step), by_step[step]))


def test_labelled_epochs_and_seeds_differ() -> None:
    stream = _labelled([5] * 40, 4)
    epochs = [
        [b.targets.tolist() for s in range(10) for b in stream.group(10 * e + s)] for e in (0, 1)
    ]
    other = replace(stream, seed=1)
    assert epochs[0] != epochs[1]
    assert epochs[0] != [b.targets.tolist() for s in range(10) for b in other.group(s)]


@pytest.mark.parametrize("num_texts", [50, 100, 400])
def test_a_text_meets_others_in_every_epoch(num_texts: int) -> None:
    stream = _labelled(list(range(2, 2 + num_texts)), 16, micro_tokens=10**6)
    steps = stream.steps_per_epoch
    mates = [
        {
            k: set(rows)
            for s in range(steps)
            for (rows,) in [stream.rows(e * steps + s)]
            for k in rows
        }
        for e in (0, 1)
    ]
    shared = [len(mates[0][k] & mates[1][k]) - 1 for k in range(num_texts)]
    assert sum(shared) / num_texts < 8  # of 15 others


def test_similar_lengths_together_pad_less() -> None:
    sizes = (2 + permutation(200, 7, "sizes") % 100).tolist()
    stream = _labelled(sizes, 8, micro_tokens=10_000)
    sorted_tokens = sum(b.ids.numel() for s in range(25) for b in stream.group(s))
    order = permutation(200, 0, "any").tolist()
    random_tokens = sum(8 * max(sizes[row] for row in order[i : i + 8]) for i in range(0, 200, 8))
    assert sorted_tokens < 1.25 * sum(sizes)
    assert random_tokens > 1.6 * sum(sizes)
    first = [stream.group(step)[0].ids.shape[1] for step in range(25)]
    assert first != sorted(first)  # batches come in random order all the same


@given(lengths, st.integers(1, 80))
def test_budget_is_kept(sizes: list[int], micro_tokens: int) -> None:
    texts = [[1] * size for size in sizes]
    batches = list(cut_to_budget(range(len(texts)), texts, micro_tokens))
    assert sorted(row for batch in batches for row in batch) == list(range(len(texts)))
    for batch in batches:
        assert len(batch) * max(sizes[row] for row in batch) <= micro_tokens or len(batch) == 1


def test_padding_by_hand() -> None:
    batch = pad_texts([[1, 5, 2], [1, 2]], [4, 3], [1, 0], pad=9)
    assert batch.ids.tolist() == [[1, 2, 9], [1, 5, 2]]
    assert batch.is_token.tolist() == [[True, True, False], [True, True, True]]
    assert batch.targets.tolist() == [3, 4]


def test_shuffled_is_a_stable_permutation() -> None:
    assert sorted(permutation(50, 3, "x").tolist()) == list(range(50))
    assert permutation(50, 3, "x").tolist() == permutation(50, 3, "x").tolist()
    assert permutation(50, 3, "x").tolist() != permutation(50, 3, "y").tolist()


def test_targets_may_be_fractions_or_one_class_per_token() -> None:
    texts = [[1, 5, 2], [1, 2]]
    scores = pad_texts(texts, [0.5, 2.0], [1, 0], pad=9).targets
    assert scores.is_floating_point()
    assert scores.tolist() == [2.0, 0.5]
    tags = pad_texts(texts, [[IGNORE, 3, IGNORE], [4, 4]], [1, 0], pad=9).targets
    assert tags.tolist() == [[4, 4, IGNORE], [IGNORE, 3, IGNORE]]


@given(lengths, st.integers(1, 16))
def test_batches_of_few_lengths_hold_the_same_texts(sizes: list[int], multiple: int) -> None:
    texts = [[9] * size for size in sizes]
    exact = LabelledStream(texts, [0] * len(texts), 4, 100, pad=0, seed=1)
    padded = replace(exact, length_multiple=multiple)
    for step in range(exact.steps_per_epoch):
        for ours, theirs in zip(exact.group(step), padded.group(step), strict=True):
            num = ours.ids.shape[1]
            length = theirs.ids.shape[1]
            assert num <= length < num + multiple
            assert length % multiple == 0 or length == max(sizes)
            assert torch.equal(theirs.ids[:, :num], ours.ids)
            assert not theirs.is_token[:, num:].any()
