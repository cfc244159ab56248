"""Batches: what they hold, and those of pairs: everything once an epoch, within the budget."""

import dataclasses
from collections import Counter
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warmstart.batching.batches import (
    STEP,
    EncodedPairs,
    LabelledBatch,
    PairBatch,
    PairStream,
    TokenLists,
    cut_pairs_to_budget,
    move,
    pad_ids,
    pad_pairs,
    round_lengths_up,
)
from warmstart.batching.packing import pack
from warmstart.kernels.loss import IGNORE


def test_move_keeps_type_and_values() -> None:
    batch = pack(torch.tensor([[1, 5, 2]]), 1, 2, num_documents=1)
    moved = move(batch, torch.device("cpu"))
    assert type(moved) is type(batch)
    for name, tensor in vars(batch).items():
        assert torch.equal(getattr(moved, name), tensor)
    away = move(batch, torch.device("meta"))
    assert all(tensor.is_meta for tensor in vars(away).values())
    assert not batch.ids.is_meta


def test_batches_are_frozen() -> None:
    ids = torch.tensor([[1]])
    batch = LabelledBatch(ids, ids > 0, ids[0], ids)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.ids = ids  # type: ignore[misc]


PAD, TARGET_PAD = 0, 7


def _pairs(lengths: list[tuple[int, int]]) -> EncodedPairs:
    """Return pairs of these lengths whose tokens, all of one kind, tell which pair they are of."""
    return EncodedPairs(
        TokenLists([100 + row] * source for row, (source, _) in enumerate(lengths)),
        TokenLists([100 + row] * target for row, (_, target) in enumerate(lengths)),
    )


def _stream(pairs: EncodedPairs, batch: int, micro: int = 10**6, seed: int = 3) -> PairStream:
    return PairStream(pairs, batch, micro, PAD, TARGET_PAD, seed)


def _rows(batch: PairBatch) -> list[int]:
    return [int(ids[0]) - 100 for ids in batch.ids]


def _step(stream: PairStream, step: int) -> list[int]:
    return list(chain.from_iterable(map(_rows, stream.group(step))))


lengths = st.lists(st.tuples(st.integers(2, 30), st.integers(2, 30)), min_size=1, max_size=60)


budgets = st.integers(16, 400)


@given(lengths, budgets)
def test_every_epoch_sees_each_pair_once(sizes: list[tuple[int, int]], budget: int) -> None:
    stream = _stream(_pairs(sizes), budget)
    num = stream.steps_per_epoch
    for epoch in range(3):
        seen = Counter(row for k in range(num) for row in _step(stream, epoch * num + k))
        assert seen == Counter(range(len(sizes)))
    assert stream.steps_per_epoch == num


@given(lengths, budgets, budgets)
def test_the_budget_is_kept(sizes: list[tuple[int, int]], budget: int, micro: int) -> None:
    stream = _stream(_pairs(sizes), budget, micro)
    for step in range(stream.steps_per_epoch):
        group = stream.group(step)
        tokens = [batch.ids.numel() + batch.inputs.numel() + len(batch.ids) for batch in group]
        rows = sum(len(batch.ids) for batch in group)
        assert sum(tokens) <= budget or rows == 1
        assert all(t <= micro or len(b.ids) == 1 for t, b in zip(tokens, group, strict=True))


@given(lengths, budgets, budgets)
def test_a_step_has_the_same_pairs_whatever_goes_through_at_once(
    sizes: list[tuple[int, int]], budget: int, micro: int
) -> None:
    pairs = _pairs(sizes)
    whole, parted = _stream(pairs, budget), _stream(pairs, budget, micro)
    assert whole.steps_per_epoch == parted.steps_per_epoch
    for step in range(whole.steps_per_epoch):
        assert sorted(_step(whole, step)) == sorted(_step(parted, step))


def test_a_step_depends_on_its_number_alone() -> None:
    draw = np.random.default_rng(0)
    pairs = _pairs([tuple(pair) for pair in draw.integers(2, 20, (200, 2)).tolist()])
    stream = _stream(pairs, 200)
    num = 3 * stream.steps_per_epoch
    forward = [_step(stream, step) for step in range(num)]
    backward = [_step(_stream(pairs, 200), step) for step in reversed(range(num))]
    assert forward == backward[::-1]
    assert forward != [_step(_stream(pairs, 200, seed=4), step) for step in range(num)]


def test_epochs_differ_in_order_and_in_company() -> None:
    draw = np.random.default_rng(0)
    pairs = _pairs([tuple(pair) for pair in draw.integers(2, 20, (200, 2)).tolist()])
    stream = _stream(pairs, 200)
    num = stream.steps_per_epoch
    first, second = ([_step(stream, e * num + k) for k in range(num)] for e in (0, 1))
    assert first != second
    assert {frozenset(rows) for rows in first} != {frozenset(rows) for rows in second}


def test_pairs_of_a_batch_are_of_similar_length() -> None:
    draw = np.random.default_rng(0)
    sizes = draw.integers(2, 60, 1000)
    stream = _stream(_pairs([(int(n), int(n)) for n in sizes]), 1000)
    used = padding = 0
    for step in range(stream.steps_per_epoch):
        for batch in stream.group(step):
            used += int(batch.is_token.sum())
            padding += int((~batch.is_token).sum())
    assert padding < 0.1 * used


def test_inputs_and_targets_are_one_token_apart() -> None:
    pairs = EncodedPairs(
        TokenLists([[1, 5, 2], [1, 6, 7, 8, 2]]), TokenLists([[1, 9, 10, 2], [1, 2]])
    )
    batch = pad_pairs(pairs, [0, 1], PAD, TARGET_PAD)
    assert batch.ids.tolist() == [[1, 5, 2, PAD, PAD], [1, 6, 7, 8, 2]]
    assert batch.is_token.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert batch.inputs.tolist() == [[1, 9, 10], [1, 2, TARGET_PAD]]
    assert batch.targets.tolist() == [[9, 10, 2], [2, IGNORE, IGNORE]]
    assert batch.ids.dtype == batch.inputs.dtype == batch.targets.dtype == torch.long


@given(lengths, budgets)
def test_validation_batches_hold_every_row_once(sizes: list[tuple[int, int]], budget: int) -> None:
    pairs = _pairs(sizes)
    parts = list(cut_pairs_to_budget(range(len(pairs)), pairs.sizes(), budget))
    assert sorted(row for part in parts for row in part.tolist()) == list(range(len(pairs)))


def test_texts_are_given_back_as_they_came() -> None:
    texts = [[3, 4], [5], [6, 7, 8]]
    kept = TokenLists(iter(texts))
    assert len(kept) == 3
    assert [kept[row].tolist() for row in range(3)] == texts
    assert len(TokenLists([])) == 0


@pytest.mark.parametrize("texts", [[[1]], [[1, 2], [3]]])
def test_padding_stands_at_the_right(texts: list[list[int]]) -> None:
    ids, is_token = pad_ids(texts, 9)
    for row, text in enumerate(texts):
        assert ids[row, : len(text)].tolist() == text
        assert (ids[row, len(text) :] == 9).all()
        assert is_token[row].sum() == len(text)


@given(lengths, budgets)
def test_rounded_lengths_change_padding_alone(sizes: list[tuple[int, int]], budget: int) -> None:
    pairs = _pairs(sizes)
    plain, rounded = (
        PairStream(pairs, budget, 10**6, PAD, TARGET_PAD, 3, is_rounded) for is_rounded in (0, 1)
    )
    for step in range(plain.steps_per_epoch):
        for before, after in zip(plain.group(step), rounded.group(step), strict=True):
            S, T = before.ids.shape[1], before.inputs.shape[1]
            assert torch.equal(after.ids[:, :S], before.ids)
            assert torch.equal(after.inputs[:, :T], before.inputs)
            assert not after.is_token[:, S:].any()
            assert (after.targets[:, T:] == IGNORE).all()
            assert {length % STEP for length in (after.ids.shape[1], after.inputs.shape[1])} == {0}


def test_long_sentences_have_few_rounded_lengths() -> None:
    lengths = np.arange(1, 513)
    rounded_up = round_lengths_up(lengths)
    assert (rounded_up >= lengths).all()
    assert (rounded_up <= np.maximum(lengths + STEP, 1.25 * lengths)).all()
    assert len(set(rounded_up.tolist())) <= 24
