from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warmstart.batching.batches import MaskedBatch, Rows, move
from warmstart.batching.masking import OVERHANG, Corruption
from warmstart.kernels.loss import IGNORE
from warmstart.seeds import bits_of, picks_of, shares_of

V, MASK, SPECIALS = 60, 4, (0, 1, 2, 3)


PLAIN = Corruption(V, SPECIALS, MASK, mask_rate=0.15, seed=0)


BEGINS = np.arange(V) % 3 == 0  # a word is 3k and the pieces behind it


WORDS = replace(PLAIN, begins=BEGINS, alone=np.zeros(V, np.bool_))


def _rows(num: int, length: int, seed: int = 0) -> Rows:
    """Return rows of ordinary tokens between special ones, some of them padded."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(5, V, (num, length))
    is_token = np.arange(length) < rng.integers(min(3, length), length + 1, num)[:, None]
    ids[:, 0] = 1
    return Rows(np.where(is_token, ids, 0), is_token=is_token)


def _masked(batch: MaskedBatch, row: int) -> dict[int, int]:
    pairs = zip(batch.masked_positions[row].tolist(), batch.targets[row].tolist(), strict=True)
    return {position: target for position, target in pairs if target != IGNORE}


@given(
    st.integers(1, 9), st.integers(2, 50), st.floats(0.01, 0.9), st.booleans(), st.integers(0, 99)
)
def test_targets_are_the_original_tokens(
    num: int, length: int, rate: float, by_words: bool, seed: int
) -> None:
    rows = _rows(num, length, seed)
    corruption = replace(WORDS if by_words else PLAIN, mask_rate=rate, seed=seed)
    batch = corruption.mask_tokens(rows, np.arange(num))
    width = max(1, round(rate * length))
    if by_words:
        width = min(width + OVERHANG, length)
    assert batch.masked_positions.shape == batch.targets.shape == (num, width)
    for row in range(num):
        masked = _masked(batch, row)
        ordinary = int((rows.ids[row] > MASK).sum())
        wanted = min(max(1, round(rate * ordinary)), width, ordinary)
        assert 0 < len(masked) <= width if by_words and ordinary else len(masked) == wanted
        assert len(masked) == int((batch.targets[row] != IGNORE).sum())  # no position twice
        for position in range(length):
            new, original = int(batch.ids[row, position]), int(rows.ids[row, position])
            if position in masked:
                assert masked[position] == original > MASK
                assert new >= MASK
            else:
                assert new == original


def test_shares_are_those_of_the_paper() -> None:
    rows = Rows(np.random.default_rng(1).integers(5, V, (400, 200)))
    batch = PLAIN.mask_tokens(rows, np.arange(400))
    assert batch.targets.shape == (400, 30)
    assert bool((batch.targets != IGNORE).all())
    new = batch.ids.gather(1, batch.masked_positions)
    is_mask, is_same = (new == MASK), (new == batch.targets)
    assert float(is_mask.double().mean()) == pytest.approx(0.8, abs=0.015)
    assert float(is_same.double().mean()) == pytest.approx(0.1, abs=0.015)
    drawn = new[~is_mask & ~is_same]
    counts = np.bincount(drawn.numpy(), minlength=V)
    assert not counts[:5].any()
    assert counts[5:].min() > 0  # every ordinary token is drawn
    positions = np.bincount(batch.masked_positions.flatten().numpy(), minlength=200)
    assert positions.min() > 0.5 * positions.mean()  # no position is favoured
    assert positions.max() < 1.6 * positions.mean()


def _equal(batch: MaskedBatch, other: MaskedBatch, rows: slice) -> bool:
    names = ("ids", "masked_positions", "targets")
    return all(bool((getattr(batch, n)[rows] == getattr(other, n)).all()) for n in names)


@pytest.mark.parametrize("corruption", [PLAIN, WORDS], ids=["tokens", "words"])
def test_a_row_is_corrupted_by_its_number_alone(corruption: Corruption) -> None:
    rows, numbers = _rows(12, 40), np.arange(100, 112)
    together = corruption.mask_tokens(rows, numbers)
    assert rows.is_token is not None
    for size in (1, 5):
        for start in range(0, 12, size):
            part = slice(start, start + size)
            some = Rows(rows.ids[part], is_token=rows.is_token[part])
            assert _equal(together, corruption.mask_tokens(some, numbers[part]), part)
    again = corruption.mask_tokens(rows, numbers + 12)
    other = replace(corruption, seed=1).mask_tokens(rows, numbers)
    assert not bool((together.ids == again.ids).all())  # anew each time a text is seen
    assert not bool((together.ids == other.ids).all())


def test_words_are_masked_whole() -> None:
    rows = Rows(np.random.default_rng(2).integers(5, V, (300, 64)))
    batch = replace(WORDS, mask_rate=0.3).mask_tokens(rows, np.arange(300))
    for row in range(300):
        masked = _masked(batch, row)
        starts = [p for p in range(64) if p == 0 or BEGINS[rows.ids[row, p]]]
        for start, stop in zip(starts, [*starts[1:], 64], strict=True):
            inside = [position in masked for position in range(start, stop)]
            assert all(inside) or not any(inside)


@pytest.mark.parametrize("length", [64, 200])
def test_long_words_are_masked_as_often_as_short_ones(length: int) -> None:
    rng = np.random.default_rng(3)
    sizes = np.stack([rng.permutation([1, 1, 1, 1, 2, 2, 3, 5] * 13) for _ in range(3000)])
    ids = np.full((3000, length), 7)  # 6 begins a word, 7 continues it
    size_at = np.zeros((3000, length), np.int64)
    for row in range(3000):
        ends = sizes[row].cumsum()
        starts = (ends - sizes[row])[ends - sizes[row] < length]
        ids[row, starts] = 6
        size_at[row] = np.repeat(sizes[row], sizes[row])[:length]
    batch = WORDS.mask_tokens(Rows(ids), np.arange(3000))
    is_masked = np.zeros(ids.shape, np.bool_)
    row, slot = np.nonzero(batch.targets.numpy() != IGNORE)
    is_masked[row, batch.masked_positions.numpy()[row, slot]] = True
    for size in (1, 2, 3, 5):
        assert is_masked[size_at == size].mean() == pytest.approx(0.15, rel=0.1)
    assert is_masked.mean() == pytest.approx(0.15, rel=0.05)


def test_a_word_longer_than_the_number_of_masked_tokens_is_cut() -> None:
    rows = Rows(np.full((3, 20), 7))  # one word
    batch = WORDS.mask_tokens(rows, np.arange(3))
    assert ((batch.targets != IGNORE).sum(1) == 3).all()


def test_special_tokens_are_never_masked() -> None:
    rows = Rows(np.array([[1, 2, 0, 0], [1, 9, 2, 0]]))
    batch = PLAIN.mask_tokens(rows, np.arange(2))
    assert batch.ids[0].tolist() == [1, 2, 0, 0]
    assert batch.targets.tolist() == [[IGNORE], [9]]


def test_unused_positions_do_not_restore_the_first() -> None:
    ids = np.full((200, 10), 2)
    ids[:, 0] = 9
    batch = replace(PLAIN, mask_rate=0.5).mask_tokens(Rows(ids), np.arange(200))
    assert 0.7 < float((batch.ids[:, 0] == MASK).double().mean()) < 0.9


def test_numbers_depend_on_seed_row_and_position_alone() -> None:
    all_rows = bits_of(5, np.arange(100), 7)
    assert (bits_of(5, np.array([42, 3]), 7) == all_rows[[42, 3]]).all()
    assert (bits_of(5, np.arange(100), 3) == all_rows[:, :3]).all()
    assert len(np.unique(np.concatenate([all_rows, bits_of(6, np.arange(100), 7)]))) == 1400
    shares = shares_of(bits_of(1, np.arange(2000), 10))
    assert shares.min() >= 0
    assert shares.max() < 1
    assert shares.mean() == pytest.approx(0.5, abs=0.01)
    assert abs(np.corrcoef(shares[:, 0], shares[:, 1])[0, 1]) < 0.06
    assert abs(np.corrcoef(shares[:-1, 0], shares[1:, 0])[0, 1]) < 0.06
    assert set(picks_of(bits_of(1, np.arange(500), 1), 3).ravel().tolist()) == {0, 1, 2}


def test_what_is_absent_stays_absent_on_another_device() -> None:
    batch = PLAIN.mask_tokens(Rows(np.full((2, 8), 9)), np.arange(2))
    moved = move(batch, torch.device("cpu"))
    assert moved.segments is None
    assert torch.equal(moved.ids, batch.ids)
