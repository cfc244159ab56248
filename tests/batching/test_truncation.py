import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmstart.batching.batches import pad_texts
from warmstart.batching.truncation import Truncation, encode_texts, truncate, truncate_pair
from warmstart.errors import WarmstartError
from warmstart.settings.shared import Truncate
from warmstart.tokenization.tokenizer import Tokenizer

TEXTS = ["one two three four five", "six", "seven eight"]


SECONDS = ["a b", "c d e f g h i j k l m n", "o"]


def test_a_pair_stands_between_marks_with_its_segments(tokenizer: Tokenizer) -> None:
    encoded = encode_texts(TEXTS, tokenizer, 100, "head", SECONDS)
    bos, eos = tokenizer.bos, tokenizer.eos
    assert encoded.starts is not None
    for ids, start, one, two in zip(encoded.ids, encoded.starts, TEXTS, SECONDS, strict=True):
        first, second = tokenizer.encode([one, two])
        assert ids == [bos, *first, eos, *second, eos]
        assert ids[start:] == [*second, eos]
    batch = pad_texts(encoded.ids, [0, 0, 0], [0, 1, 2], tokenizer.pad, encoded.starts)
    for row, (ids, start) in enumerate(zip(encoded.ids, encoded.starts, strict=True)):
        expected = [0] * start + [1] * (len(ids) - start)
        padding = batch.ids.shape[1] - len(ids)
        assert batch.segments[row].tolist() == expected + [0] * padding


def test_pairs_are_cut_and_counted(tokenizer: Tokenizer) -> None:
    encoded = encode_texts(TEXTS, tokenizer, 12, "head", SECONDS)
    assert all(len(ids) <= 12 for ids in encoded.ids)
    whole = encode_texts(TEXTS, tokenizer, 100, "head", SECONDS)
    assert encoded.num_truncated == sum(len(ids) > 12 for ids in whole.ids) > 0
    assert encoded.num_tokens == whole.num_tokens
    truncation = Truncation("f.tsv", 3, encoded.num_truncated, 12, "tail", is_pair=True)
    expected = "of 3 pairs in f.tsv are longer than 12 tokens and keep only their end"
    assert expected in truncation.describe()


def test_single_texts_have_one_segment(tokenizer: Tokenizer) -> None:
    encoded = encode_texts(TEXTS, tokenizer, 100, "head")
    assert encoded.starts is None
    batch = pad_texts(encoded.ids, [0, 0, 0], [0, 1, 2], tokenizer.pad, encoded.starts)
    assert not batch.segments.any()


def test_a_length_too_short_for_a_pair_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(WarmstartError, match="--max-length 4"):
        encode_texts(TEXTS, tokenizer, 4, "head", SECONDS)


token_lists = st.lists(st.integers(), max_size=30)


@given(token_lists, st.integers(0, 40), st.sampled_from(["head", "tail", "middle"]))
def test_truncation_rules(ids: list[int], limit: int, rule: Truncate) -> None:
    remaining = truncate(ids, limit, rule)
    assert len(remaining) == min(len(ids), limit)
    if len(ids) <= limit:
        assert remaining == ids
    elif rule == "head":
        assert remaining == ids[:limit]
    elif rule == "tail":
        assert remaining == ids[len(ids) - limit :]
    else:
        front, back = (limit + 1) // 2, limit // 2
        assert remaining == ids[:front] + ids[len(ids) - back :]


@pytest.mark.parametrize(
    ("rule", "remaining"), [("head", [1, 2, 3]), ("tail", [3, 4, 5]), ("middle", [1, 2, 5])]
)
def test_truncation_by_example(rule: Truncate, remaining: list[int]) -> None:
    assert truncate([1, 2, 3, 4, 5], 3, rule) == remaining


@given(token_lists, st.integers(0, 40))
def test_truncation_leaves_its_argument_unchanged(ids: list[int], limit: int) -> None:
    before = list(ids)
    truncate(ids, limit, "middle").append(0)
    assert ids == before


@given(token_lists, token_lists, st.integers(2, 40), st.sampled_from(["head", "tail", "middle"]))
def test_the_longer_text_of_a_pair_is_cut_first(
    first: list[int], second: list[int], limit: int, rule: Truncate
) -> None:
    a, b = len(first), len(second)
    while a + b > limit:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    remaining = truncate_pair(first, second, limit, rule)
    assert remaining == (truncate(first, a, rule), truncate(second, b, rule))
