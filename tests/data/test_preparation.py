from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.data.corpus import map_ahead
from warmstart.data.prepare import sample_texts


@given(st.lists(st.text(min_size=1, max_size=20)), st.integers(100, 1000), st.randoms())
def test_a_sample_is_bounded_and_does_not_depend_on_the_order(
    texts: list[str], most: int, random: Random
) -> None:
    sample = sample_texts(texts, most)
    assert sum(len(text.encode()) for text in sample) <= most
    assert sorted(sample_texts(random.sample(texts, len(texts)), most)) == sorted(sample)
    if most >= 50 * 20 and sum(len(text.encode()) for text in texts) <= most:
        assert sample == texts


@pytest.mark.parametrize("long", [0, 30_000, 1_000_000])
def test_a_sample_is_large_enough_even_beside_a_giant(long: int) -> None:
    texts = ["giant " * long, *(f"text number {number}" for number in range(5_000))]
    assert 8_000 < sum(map(len, sample_texts(texts, 20_000))) <= 20_000


@given(st.lists(st.integers()), st.integers(0, 4))
def test_what_is_made_ahead_comes_in_order(items: list[int], num_ahead: int) -> None:
    made = map_ahead(iter(items), lambda item: item + 1, num_ahead)
    assert list(made) == [(item, item + 1) for item in items]


def test_a_fault_in_the_making_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_ahead([1, 0, 2], lambda item: 1 // item))


def test_no_more_is_read_than_is_made_ahead() -> None:
    read = []

    def reading() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            yield number

    next(iter(map_ahead(reading(), str, num_ahead=3)))
    assert len(read) <= 4
