import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.batching.truncate import truncate, truncate_pair
from warmstart.settings.choices import Truncate

texts = st.lists(st.integers(), max_size=30)


@given(texts, st.integers(0, 40), st.sampled_from(["head", "tail", "middle"]))
def test_rules(ids: list[int], limit: int, rule: Truncate) -> None:
    kept = truncate(ids, limit, rule)
    assert len(kept) == min(len(ids), limit)
    if len(ids) <= limit:
        assert kept == ids
    elif rule == "head":
        assert kept == ids[:limit]
    elif rule == "tail":
        assert kept == ids[len(ids) - limit :]
    else:
        front, back = (limit + 1) // 2, limit // 2
        assert kept == ids[:front] + ids[len(ids) - back :]


@pytest.mark.parametrize(
    ("rule", "kept"), [("head", [1, 2, 3]), ("tail", [3, 4, 5]), ("middle", [1, 2, 5])]
)
def test_rules_by_example(rule: Truncate, kept: list[int]) -> None:
    assert truncate([1, 2, 3, 4, 5], 3, rule) == kept


@given(texts, st.integers(0, 40))
def test_the_text_given_is_not_changed(ids: list[int], limit: int) -> None:
    before = list(ids)
    truncate(ids, limit, "middle").append(0)
    assert ids == before


@given(texts, texts, st.integers(2, 40), st.sampled_from(["head", "tail", "middle"]))
def test_the_longer_text_of_a_pair_is_cut_first(
    first: list[int], second: list[int], limit: int, rule: Truncate
) -> None:
    a, b = len(first), len(second)
    while a + b > limit:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    kept = truncate_pair(first, second, limit, rule)
    assert kept == (truncate(first, a, rule), truncate(second, b, rule))
