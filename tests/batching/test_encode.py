import pytest

from warmstart.batching.encode import describe_truncation, encode_texts
from warmstart.batching.padding import pad_texts
from warmstart.errors import WarmstartError
from warmstart.tokenization.tokenizer import Tokenizer, train_tokenizer

TEXTS = ["one two three four five", "six", "seven eight"]
SECONDS = ["a b", "c d e f g h i j k l m n", "o"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([*TEXTS, *SECONDS], "bpe", 300)


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
    said = describe_truncation(encoded.num_truncated, 3, "f.tsv", 12, "tail", is_pair=True)
    assert "of 3 pairs in f.tsv are longer than 12 tokens and keep only their end" in said


def test_single_texts_have_one_segment(tokenizer: Tokenizer) -> None:
    encoded = encode_texts(TEXTS, tokenizer, 100, "head")
    assert encoded.starts is None
    batch = pad_texts(encoded.ids, [0, 0, 0], [0, 1, 2], tokenizer.pad, encoded.starts)
    assert not batch.segments.any()


def test_a_length_too_short_for_a_pair_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(WarmstartError, match="--max-length 4"):
        encode_texts(TEXTS, tokenizer, 4, "head", SECONDS)
